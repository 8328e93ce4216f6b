"""Real PyTorch, if installed: its DataLoader and both its writers."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from conftest import need_torch
from storlab.contracts.registry import get_engine
from storlab.engines.torch.run import TorchRun
from storlab.model.place import DataPlace
from storlab.model.result import RunOutcome
from storlab.workloads.checkpoint.job import CheckpointFile, CheckpointJob
from storlab.workloads.training.metrics import au_percent, epochs_of
from support.torch_data import FILES, job_of, make_set

WAIT_S = 120
SIZES = (1_000_000, 10, 4096, 0)
FORMATS = ("torch", "torch_dcp")


@pytest.fixture(autouse=True)
def python(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("STORLAB_TORCH_PYTHON", need_torch())


@pytest.fixture
def home() -> Iterator[Path]:
    """Provide a directory on a file system with O_DIRECT, which /tmp may lack."""
    place = Path(__file__).parents[4] / "target" / f"torch-run-{os.getpid()}"
    place.mkdir(parents=True)
    yield place
    shutil.rmtree(place)


def start(job: Any, work_dir: Path, engine: str = "torch") -> TorchRun:
    work_dir.mkdir(exist_ok=True)
    run = get_engine(engine).start(job, work_dir)
    assert isinstance(run, TorchRun)
    return run


def run(job: Any, work_dir: Path, engine: str = "torch") -> RunOutcome:
    outcome = start(job, work_dir, engine).wait(WAIT_S)
    assert outcome is not None
    return outcome


def checkpoint(home: Path, **changes: Any) -> CheckpointJob:
    files = [
        CheckpointFile(name=f"rank{rank}/{n}.pt", rank=rank, bytes=size)
        for rank in range(2)
        for n, size in enumerate(SIZES)
    ]
    made: dict[str, Any] = {
        "place": DataPlace(directory=str(home / "checkpoints-x")),
        "files": files,
        "ranks": 2,
        "writes": 3,
        "restores": 1,
        "interval_ns": 100_000_000,
    }
    return CheckpointJob(**{**made, **changes})


@pytest.mark.parametrize("direct", [False, True])
def test_training_reads_every_sample_of_every_epoch(
    home: Path, tmp_path: Path, direct: bool
) -> None:
    records = make_set(home, "npz")
    place = DataPlace(directory=str(home), direct=direct)
    outcome = run(job_of(home, records, place=place), tmp_path / "work")
    assert (outcome.status, outcome.failure) == ("finished", None), outcome.raw["stderr.txt"]
    total = sum(path.stat().st_size for path in (home / "train").iterdir())
    epochs = outcome.details["epochs"]
    assert [epoch["bytes"] for epoch in epochs] == [total] * 3
    assert [epoch["samples"] for epoch in epochs] == [FILES] * 3
    assert outcome.totals["read"].operations == 3 * FILES
    assert outcome.totals["read"].bytes == 3 * total
    assert outcome.totals["step"].operations == 3 * FILES // 2
    assert [span.kind for span in outcome.spans] == ["epoch"] * 3
    au = au_percent(epochs_of(outcome))
    assert au is not None
    assert 0 < au <= 100
    for epoch in epochs:
        for each in epoch["accelerators"]:
            assert each["steps"] == 3
            assert each["compute_ns"] >= 3 * 2_000_000
            parts = each["wait_ns"] + each["compute_ns"] + each["barrier_ns"]
            assert parts <= each["end_ns"] - each["start_ns"]
    assert sum(sample.operations for sample in outcome.samples) == 3 * (FILES + FILES // 2)
    assert outcome.cpu is not None
    assert outcome.engine.backend == "DataLoader"


def test_records_and_uneven_batches_are_read_too(home: Path, tmp_path: Path) -> None:
    records = make_set(home, "tfrecord", 4, resize_bytes=512)
    job = job_of(home, records, batch=5, epochs=1, barrier=False, drop_caches=True)
    outcome = run(job, tmp_path / "work")
    assert outcome.failure is None, outcome.raw["stderr.txt"]
    (epoch,) = outcome.details["epochs"]
    assert epoch["samples"] == 2 * (FILES * 4 // 2 // 5) * 5
    assert outcome.totals["read"].operations == epoch["samples"]


@pytest.mark.parametrize("harm", ["missing", "cut"])
def test_a_file_that_is_not_there_or_damaged_fails_the_run(
    home: Path, tmp_path: Path, harm: str
) -> None:
    records = make_set(home, "npz")
    path = home / "train" / "img_05_of_12.npz"
    data = path.read_bytes()
    path.unlink()
    if harm == "cut":
        path.write_bytes(data[:3000])
    outcome = run(job_of(home, records), tmp_path / "work")
    assert outcome.status == "failed"
    assert outcome.failure is not None
    words = "img_05_of_12.npz" if harm == "missing" else "zip"
    assert words in outcome.failure.message


def test_a_cancelled_run_keeps_the_epochs_that_ended(home: Path, tmp_path: Path) -> None:
    records = make_set(home, "npz")
    work = tmp_path / "work"
    going = start(job_of(home, records, epochs=100_000), work)
    while not (work / "result.json").exists():
        assert going.wait(0.05) is None
    going.cancel()
    outcome = going.wait(WAIT_S)
    assert outcome is not None
    assert (outcome.status, outcome.failure) == ("cancelled", None)
    assert outcome.details["epochs"]
    assert outcome.totals["read"].operations >= FILES


@pytest.mark.parametrize("engine", FORMATS)
def test_checkpoints_are_published_kept_and_restored(
    home: Path, tmp_path: Path, engine: str
) -> None:
    outcome = run(checkpoint(home, keep_last=2), tmp_path / "work", engine)
    assert (outcome.status, outcome.failure) == ("finished", None), outcome.raw["stderr.txt"]
    kinds = [span.kind for span in outcome.spans]
    assert kinds == ["write", "write", "write", "delete", "restore"]
    names = sorted(path.name for path in (home / "checkpoints-x").iterdir())
    assert names == ["checkpoint-000002", "checkpoint-000003"]
    payload = 2 * sum(SIZES)
    for write in outcome.details["writes"]:
        assert payload < write["bytes"] < payload + 100_000
        assert write["start_ns"] < write["written_ns"] < write["durable_ns"]
        assert sum(rank["bytes"] for rank in write["ranks"]) == write["bytes"]
        if write["device_written_bytes"] is not None:
            assert write["device_written_bytes"] >= payload
    (restore,) = outcome.details["restores"]
    assert (restore["number"], restore["verified"]) == (3, True)
    assert restore["bytes"] == outcome.details["writes"][-1]["bytes"]
    assert restore["resident_before_bytes"] < restore["bytes"] / 10
    assert outcome.totals["write"].bytes == sum(w["bytes"] for w in outcome.details["writes"])
    assert outcome.totals["sync"].operations >= 3 * 2


def test_a_later_run_goes_on_counting_and_the_native_engine_cleans_up(
    home: Path, tmp_path: Path
) -> None:
    for turn in range(2):
        job = checkpoint(home, writes=1, sync="none", publish="in_place", verify=False)
        outcome = run(job, tmp_path / f"work{turn}")
        assert outcome.failure is None, outcome.raw["stderr.txt"]
    names = sorted(path.name for path in (home / "checkpoints-x").iterdir())
    assert names == ["checkpoint-000001", "checkpoint-000002"]
    (home / "checkpoints-x" / ".partial-000003").mkdir()
    clean = checkpoint(home, task="clean")
    ended = get_engine("native").start(clean, tmp_path).wait(WAIT_S)
    assert ended is not None
    assert (ended.status, ended.failure) == ("finished", None)
    assert not (home / "checkpoints-x").exists()


def test_a_failed_checkpoint_leaves_the_last_one_and_says_so(home: Path, tmp_path: Path) -> None:
    assert run(checkpoint(home, writes=1), tmp_path / "first").failure is None
    job = checkpoint(home, writes=1)
    # A directory of that name exists.
    files = [*job.files, CheckpointFile(name="rank1", rank=1, bytes=5)]
    outcome = run(job.model_copy(update={"files": files}), tmp_path / "second")
    assert outcome.status == "failed"
    assert outcome.failure is not None
    assert "rank1" in outcome.failure.message or "rank 1" in outcome.failure.message
    assert any("checkpoint 1 is the newest complete one" in note for note in outcome.notes)
    assert [path.name for path in (home / "checkpoints-x").iterdir()] == ["checkpoint-000001"]


@pytest.mark.parametrize("engine", FORMATS)
def test_content_that_changed_before_a_restore_is_found(
    home: Path, tmp_path: Path, engine: str
) -> None:
    job = checkpoint(home, writes=1, restores=100_000)
    going = start(job, tmp_path / "work", engine)
    place = home / "checkpoints-x" / "checkpoint-000001"
    while not place.exists():
        assert going.wait(0.02) is None
    largest = max((p for p in place.rglob("*") if p.is_file()), key=lambda p: p.stat().st_size)
    with largest.open("r+b") as file:
        file.seek(500_000)
        file.write(b"x" * 100)
    outcome = going.wait(WAIT_S)
    assert outcome is not None
    assert outcome.status == "failed"
    assert outcome.failure is not None
    assert outcome.failure.operation in ("verify", "restore")
