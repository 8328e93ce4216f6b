"""Import of DLIO's result directories and MLPerf Storage's trees."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from storlab.base.errors import ResultError
from storlab.cli.main import main
from storlab.engines.dlio.importer import DlioImport
from storlab.engines.dlio.result import read_results
from storlab.exchange.importer import import_files
from storlab.model.result import RunRecord
from storlab.results.store import ResultStore

GOLDEN = Path(__file__).parents[3] / "golden" / "dlio"
GIB = 1 << 30


def imported(tmp_path: Path, *places: Path) -> ResultStore:
    return import_files(places, tmp_path / "result")


def only(tmp_path: Path, place: Path) -> RunRecord:
    (record,) = imported(tmp_path, place).records()
    return record


def checkpoint_run(place: Path, *, single: bool = True) -> Path:
    """Write results of two ranks with two writes and one read, in the format of DLIO's main branch.

    Made by hand from its source: 40 GiB in 10 s each, and the read in 5 s.
    """
    place.mkdir(parents=True)
    at = "2026-11-20T10:00:{:09.6f}".format
    metric = {
        "checkpoint_size_GB": 40.0,
        "save_checkpoint_io_mean_GB_per_second": 4.0,
        "save_checkpoint_duration_mean_seconds": 10.0,
        "load_checkpoint_io_mean_GB_per_second": 8.0,
        "load_checkpoint_duration_mean_seconds": 5.0,
    }
    summary = {"start": at(0), "num_accelerators": 2, "metric": metric}
    (place / "summary.json").write_text(json.dumps(summary))
    for rank in range(2):
        moved = {"save_ckpt1": (1, 11), "save_ckpt2": (12, 22), "load_ckpt1": (23, 28)}
        stats = {
            name: {"start": at(start + 0.5 * rank), "end": at(end), "duration": end - start}
            for name, (start, end) in moved.items()
        }
        if single:
            (place / f"{rank}_per_epoch_stats.json").write_text(json.dumps({"1": stats}))
    return place


def test_recorded_runs_are_computed_anew_from_the_steps(tmp_path: Path) -> None:
    record = only(tmp_path, GOLDEN / "unet3d-hot")
    assert (record.kind, record.target, record.engine.name) == ("training", "unet3d-hot", "dlio")
    assert record.params["profile"] == "unet3d-h100"
    assert (record.params["files"], record.params["accelerators"]) == (140, 1)
    assert record.metric("au_percent") == pytest.approx(97.85, abs=0.01)
    assert record.metric("au_with_first_percent") == pytest.approx(80.4, abs=0.1)
    assert record.metric("samples_s") == pytest.approx(140 / 8.07514, rel=1e-4)
    assert record.metric("nominal_mb_s") == pytest.approx(140 * 146.600628 / 8.07514, rel=1e-4)
    assert record.metric("step_wait_max_ns") == pytest.approx(1_447_355_747, rel=0.001)
    assert {m.provenance for m in record.metrics if m.name == "au_percent"} == {"emulated"}
    assert {flag.kind for flag in record.flags} >= {
        "medium-unproven",
        "few-steps",
        "data-set-small",
    }
    assert "page-cache" not in {flag.kind for flag in record.flags}  # it is unknown
    assert any("2,794.3 MB/s" in note for note in record.notes)
    assert record.started_at.startswith("2026-11-20T10:41:43.984")
    assert [span.name for span in record.spans] == ["epoch 1"]


def test_a_directory_of_runs_is_all_of_them_and_is_kept_as_it_is(tmp_path: Path) -> None:
    store = imported(tmp_path, GOLDEN)
    records = store.records()
    assert {r.target for r in records} == {path.name for path in GOLDEN.iterdir()}
    for record in records:
        assert record.status == "finished"
        for path in (GOLDEN / record.target).iterdir():
            assert store.raw(record.run_id, path.name) == path.read_bytes()


def test_a_profile_of_nobody_is_kept_in_full(tmp_path: Path) -> None:
    record = only(tmp_path, GOLDEN / "pypi-2.0.0-two-ranks")
    assert record.params["profile"] == "imported.toml"
    profile = record.params["profile_data"]
    assert profile["dataset"]["record_length_bytes"] == 200_000
    assert profile["reader"]["batch_size"] == 2
    assert profile["published"] is False
    assert record.params["accelerators"] == 2
    assert record.metric("au_percent") is not None


def test_a_tree_of_mlperf_storage_gives_repeats_of_one_point(tmp_path: Path) -> None:
    tree = tmp_path / "results" / "training" / "unet3d" / "run"
    for stamp in ("20261120_104143", "20261120_114143"):
        shutil.copytree(GOLDEN / "unet3d-hot", tree / stamp)
        (tree / stamp / ".hydra").mkdir()
        (tree / stamp / ".hydra" / "overrides.yaml").write_text("- ++workload.reader.odirect=True")
    with (tree / "20261120_114143" / "summary.json").open("a") as summary:
        summary.write("\n")  # otherwise the file would count as given twice
    (tree / "notes.txt").write_text("no run")
    records = imported(tmp_path, tmp_path / "results").records()
    assert [(r.repeat, r.target) for r in records] == [(1, "imported"), (2, "imported")]
    assert len({record.point_id for record in records}) == 1
    assert records[0].params["edition"] == "dlio-2.0-odirect"
    assert "page-cache" not in {flag.kind for flag in records[0].flags}


def test_what_is_not_told_of_the_page_cache_makes_no_target_of_its_own(tmp_path: Path) -> None:
    """Check that unknown direct I/O (DLIO checkpoints) does not split a target."""
    tree = tmp_path / "results"
    training = tree / "training" / "unet3d" / "run" / "20261120_104143"
    shutil.copytree(GOLDEN / "unet3d-hot", training)
    (training / ".hydra").mkdir()
    (training / ".hydra" / "overrides.yaml").write_text("- ++workload.reader.odirect=True")
    checkpoint_run(tree / "checkpointing" / "llama3-8b" / "20261120_100000")
    store = imported(tmp_path, tree)
    assert [(t.name, t.direct) for t in store.study.target] == [("imported", True)]
    flags = {r.kind: {flag.kind for flag in r.flags} for r in store.records()}
    assert "page-cache" not in flags["checkpoint"]  # direct I/O is unknown
    assert "medium-unproven" in flags["checkpoint"]
    assert "page-cache" not in flags["training"]


def test_checkpoints_are_told_one_by_one_in_powers_of_ten(tmp_path: Path) -> None:
    place = tmp_path / "results" / "checkpointing" / "llama3-8b" / "20261120_100000"
    record = only(tmp_path, checkpoint_run(place))
    assert (record.kind, record.params["profile"]) == ("checkpoint", "llama3-8b")
    assert (record.params["writes"], record.params["restores"]) == (2, 1)
    assert record.metric("write_time_s") == pytest.approx(10)
    assert record.metric("write_mb_s") == pytest.approx(4 * GIB / 1e6)
    assert record.metric("restore_time_s") == pytest.approx(5)
    assert record.metric("restore_mb_s") == pytest.approx(8 * GIB / 1e6)
    assert record.metric("durable_time_s") is None
    assert record.totals["write"].bytes == 80 * GIB
    assert "not-durable" in {flag.kind for flag in record.flags}
    assert [span.kind for span in record.spans] == ["write", "write", "restore"]
    assert any("GiB/s" in note for note in record.notes)


def test_means_alone_are_one_checkpoint_each_and_say_so(tmp_path: Path) -> None:
    record = only(tmp_path, checkpoint_run(tmp_path / "run", single=False))
    assert record.params["profile"] == "imported.toml"
    assert record.metric("write_time_s") == pytest.approx(10)
    assert record.metric("restore_mb_s") == pytest.approx(8 * GIB / 1e6)
    assert any("only means" in note for note in record.notes)
    assert record.started_at.startswith("2026-11-20T10:00:00")


def test_a_run_of_checkpoints_alone_has_steps_of_none(tmp_path: Path) -> None:
    """Check a DLIO run of checkpoints only, whose epoch has no steps."""
    place = checkpoint_run(tmp_path / "run")
    lists: dict[str, Any] = {name: {} for name in ("load", "proc", "throughput", "au", "compute")}
    for rank in range(2):
        epoch = lists if rank else {**lists, "load": {"block1": []}, "proc": {"block1": []}}
        epoch = epoch if rank else {**epoch, "compute": {"block1": []}}
        (place / f"{rank}_output.json").write_text(json.dumps({"1": epoch, "host_cpu_count": 2}))
    record = only(tmp_path, place)
    assert (record.kind, record.params["writes"]) == ("checkpoint", 2)
    assert record.metric("write_time_s") == pytest.approx(10)


def with_config(place: Path, text: str, name: str = ".hydra") -> None:
    (place / name).mkdir()
    (place / name / "config.yaml").write_text(text)


def misleading(tmp_path: Path) -> Path:
    """Write a run with a long first step: the wrong formula is closer to a whole batch."""
    place = tmp_path / "run"
    shutil.copytree(GOLDEN / "unet3d-hot", place)
    path = place / "0_output.json"
    document = json.loads(path.read_text())
    (begin_end,) = read_results(DlioImport().files(place)).times[1]
    seconds = (begin_end[1] - begin_end[0]) / 1e9
    share = 1 - 18 / 20 * 7.02 / 16
    document["1"]["proc"]["block1"][0] = share * seconds
    document["1"]["throughput"]["block1"] = 7.02 * 18 / (seconds * (1 - share))
    path.write_text(json.dumps(document))
    return place


def test_the_batch_size_is_that_of_files_and_steps(tmp_path: Path) -> None:
    record = only(tmp_path, misleading(tmp_path))
    assert record.params["profile"] == "unet3d-h100"
    assert record.metric("samples_s") == pytest.approx(140 / 8.07514, rel=1e-4)
    assert any("files and steps" in note for note in record.notes)


@pytest.mark.parametrize("folder", [".hydra", "dlio_config"])
def test_the_configuration_beside_it_says_the_batch_size(tmp_path: Path, folder: str) -> None:
    place = misleading(tmp_path)
    summary = json.loads((place / "summary.json").read_text())
    (place / "summary.json").write_text(json.dumps({**summary, "num_files_train": 1000}))
    with_config(place, CONFIG, folder)
    record = only(tmp_path, place)
    assert record.metric("samples_s") == pytest.approx(140 / 8.07514, rel=1e-4)
    assert any("its configuration" in note for note in record.notes)


CONFIG = """workload:
  model:
    name: unet3d
  reader:
    data_loader: pytorch
    batch_size: 7
    batch_size_eval: 3
  train:
    epochs: 1
    total_training_steps: 20
other:
  reader:
    batch_size: 9
"""


def refused(tmp_path: Path, place: Path) -> str:
    with pytest.raises(ResultError) as caught:
        imported(tmp_path, place)
    return str(caught.value)


def test_a_configuration_that_the_steps_contradict_is_refused(tmp_path: Path) -> None:
    place = misleading(tmp_path)
    with_config(place, "workload:\n  reader:\n    batch_size: 5\n")
    words = refused(tmp_path, place)
    assert "workload.reader.batch_size: is 5" in words
    assert "28 steps; there are 20" in words


def test_steps_that_leave_the_batch_size_open_are_refused(tmp_path: Path) -> None:
    place = misleading(tmp_path)
    summary = json.loads((place / "summary.json").read_text())
    (place / "summary.json").write_text(json.dumps({**summary, "num_files_train": 1000}))
    assert ".hydra/config.yaml" in refused(tmp_path, place)


def damaged(tmp_path: Path, name: str, change: Any) -> str:
    place = tmp_path / "run"
    shutil.copytree(GOLDEN / "unet3d-hot", place)
    path = place / name
    document = json.loads(path.read_text())
    change(document)
    path.write_text(json.dumps(document))
    with pytest.raises(ResultError) as caught:
        imported(tmp_path, place)
    assert not (tmp_path / "result").exists()
    return str(caught.value)


def test_a_directory_that_is_damaged_is_named_with_its_field(tmp_path: Path) -> None:
    def slow(document: Any) -> None:
        document["1"]["throughput"]["block1"] = 0.123

    words = damaged(tmp_path, "0_output.json", slow)
    assert str(tmp_path / "run") in words
    assert "batch size" in words


def test_a_directory_without_steps_or_checkpoints_is_refused(tmp_path: Path) -> None:
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "summary.json").write_text('{"metric": {}}')
    with pytest.raises(ResultError, match="neither steps nor checkpoints"):
        imported(tmp_path, tmp_path / "run")
    (tmp_path / "empty").mkdir()
    with pytest.raises(ResultError, match=r"contains no files"):
        imported(tmp_path, tmp_path / "empty")


def test_the_verb_reads_a_directory(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "result"
    assert main(["import", str(GOLDEN / "unet3d-odirect"), "--out", str(out)]) == 0
    printed = capsys.readouterr().out
    assert "AU 40.7 %" in printed
    assert "1 runs" in printed
