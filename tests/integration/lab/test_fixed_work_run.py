"""Fixed work in the lab with the real families: homes, energy of spans, capacity."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from storlab.cli.main import main
from storlab.results.store import ResultStore
from storlab.stores.home import HOME

METER = (
    'kind = "declared", boundary = "device", idle_watts = 5, joules_per_gb_read = 0.5, '
    "joules_per_gb_written = 1.5, accuracy_percent = 3"
)  # fmt: skip
CHECKPOINT = """
[study]
name = "checkpoints"
repeats = 2
settle = "10ms"
interval = "5ms"
[[target]]
name = "disk"
directory = "{place}"
meters = [{{ {meter} }}]
{more}
[[workload]]
kind = "checkpoint"
profile = "llama3-8b"
scale = 0.001
subset = 2
writes = 2
restores = 1
pause = "30ms"
"""
TRAINING = """
[study]
name = "training"
[[target]]
name = "disk"
directory = "{place}"
direct = false
[[workload]]
kind = "training"
profile = "unet3d-small"
files = 42
epochs = 2
computation_time = "1ms"
"""


@pytest.fixture
def place(tmp_path: Path) -> Path:
    (tmp_path / "target").mkdir()
    return tmp_path / "target"


def write(place: Path, text: str, more: str = "") -> Path:
    study = place.parent / "study.toml"
    study.write_text(text.format(place=place, meter=METER, more=more))
    return study


def test_every_checkpoint_has_its_time_and_what_energy_its_readings_tell(place: Path) -> None:
    out = place.parent / "out"
    assert main(["run", str(write(place, CHECKPOINT)), "--out", str(out), "--no-report"]) == 0
    for record in ResultStore.open(out).records():
        assert [span.kind for span in record.spans] == ["write", "write", "restore"]
        assert record.steady is None
        assert record.window_start_ns <= record.spans[0].start_ns
        assert record.spans[-1].end_ns <= record.window_end_ns
        assert record.metric("span_time_s", "write")
        whole = record.metric("energy_j")
        assert whole
        known = {power.span for power in record.span_power}
        assert sum(power.energy_j for power in record.span_power) < whole
        for kind in ("write", "restore"):
            own = {n for n, span in enumerate(record.spans) if span.kind == kind}
            has_mean = record.metric("span_energy_j", kind) is not None
            assert has_mean == (own <= known)
            assert any(f"energy of {kind}" in note for note in record.notes) != has_mean
        for power in record.span_power:
            assert (power.boundary, power.provenance) == ("device", "declared")
            assert power.energy_uncertainty_j
            seconds = (record.spans[power.span].end_ns - record.spans[power.span].start_ns) / 1e9
            assert power.energy_j >= 0.99 * 5 * seconds  # at least idle power
    assert list(place.iterdir()) == []


def test_clean_removes_the_kept_data_of_a_home(
    place: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    study = place.parent / "study.toml"
    study.write_text(TRAINING.format(place=place).replace("direct =", "keep_data = true\ndirect ="))
    out = place.parent / "out"
    assert main(["run", str(study), "--out", str(out), "--no-report", "--quiet"]) == 0
    (kept,) = [p for p in (place / HOME).iterdir() if p.is_dir()]
    assert kept.name.startswith("training-")
    capsys.readouterr()
    assert main(["clean", str(out), "--json"]) == 0
    report = json.loads(capsys.readouterr().out)
    assert report["removed"] == [str(kept.resolve())]
    assert list(place.iterdir()) == []


def test_a_capacity_search_of_real_training_reads(
    place: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Check a capacity search; a threshold of 1 % always holds on any machine."""
    study, out = write(place, TRAINING), place.parent / "out"
    arguments = ["capacity", str(study), "--out", str(out), "--repeats", "2", "--json"]
    assert main([*arguments, "--threshold", "1", "--max", "3"]) == 0
    report = json.loads(capsys.readouterr().out)
    (case,) = report["cases"]
    assert report["complete"] is True
    assert (case["accelerators_at_threshold"], case["is_lower_bound"]) == (3, True)
    assert [tried["accelerators"] for tried in case["tried"]] == [1, 2, 3]
    store = ResultStore.open(out)
    store.check()
    assert len(store.records()) == sum(len(tried["run_ids"]) for tried in case["tried"])
    for tried in case["tried"]:
        for run_id, value in zip(tried["run_ids"], tried["au_percent"], strict=True):
            record = store.record(run_id)
            assert record.params["accelerators"] == tried["accelerators"]
            assert record.metric("au_percent") == value
    assert report["cases"] == json.loads((out / "capacity.json").read_text())["cases"]
    assert list(place.iterdir()) == []
