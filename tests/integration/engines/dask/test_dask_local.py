"""A cluster of local processes: outputs, accounting, lost workers and limits."""

from __future__ import annotations

import os
import shutil
import signal
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from storlab.base.clock import sleep_s
from storlab.contracts.registry import get_engine
from storlab.engines.dask.costs import DASK
from storlab.engines.dask.tasks import ATTEMPT
from storlab.engines.dask.tree import FAN_IN
from storlab.model.result import RunOutcome
from storlab.workloads.preprocess.job import STAGES, PreprocessJob
from support.dask_clusters import is_there, worker_processes
from support.preprocess_runs import (
    assert_as_expected,
    clicks,
    expected_of,
    messy,
    order,
    outcome_of,
)

MIB = 1 << 20
SAME = ("rows", "lines", "malformed", "input_bytes", "output_bytes", "output")
VARIANTS: dict[str, dict[str, Any]] = {
    "keep all": {"threshold": 0, "numerical": "float32", "compression": "none", "workers": 2},
    "modulo": {"modulo": 97, "workers": 3, "malformed_samples": 3, "part_bytes": 1 << 16},
}


def of_cluster(outcome: RunOutcome) -> dict[str, Any]:
    found: dict[str, Any] = outcome.details["cluster"]
    return found


def binaries(directory: Path) -> dict[str, bytes]:
    return {
        str(path.relative_to(directory)): path.read_bytes()
        for name in ("binary", "vocabulary")
        for path in sorted((directory / name).rglob("*"))
        if path.is_file() and path.suffix != ".json"
    }


@pytest.mark.parametrize("variant", VARIANTS)
def test_every_byte_is_that_of_one_machine(tmp_path: Path, variant: str) -> None:
    inputs = messy(tmp_path / "raw")
    jobs = {
        engine: order(inputs, tmp_path / engine, **VARIANTS[variant])
        for engine in ("native", "pandas", "dask")
    }
    found = {
        engine: outcome_of(engine, job, tmp_path / f"{engine}-work") for engine, job in jobs.items()
    }
    assert_as_expected(found["dask"], jobs["dask"], expected_of(jobs["dask"]))
    for engine in ("native", "pandas"):
        assert {name: found[engine].details[name] for name in SAME} == {
            name: found["dask"].details[name] for name in SAME
        }
        assert binaries(tmp_path / engine) == binaries(tmp_path / "dask")
    parts = sorted((tmp_path / "dask" / "parquet").rglob("*.parquet"))
    for part in parts:
        inside = part.relative_to(tmp_path / "dask")
        assert part.read_bytes() == (tmp_path / "pandas" / inside).read_bytes()
        native = pq.read_table(tmp_path / "native" / inside)
        assert pq.read_table(part).to_pydict() == native.to_pydict()
    assert of_cluster(found["dask"])["lost_workers"] == 0


def test_stages_and_workers_are_accounted_for(tmp_path: Path) -> None:
    path = clicks(tmp_path, "day_0", 1500)
    job = order([path], tmp_path / "run", part_bytes=32768, threshold=2, workers=2)
    outcome = outcome_of("dask", job, tmp_path / "work")
    assert outcome.failure is None, outcome.raw["stderr.txt"]
    stages = outcome.details["stages"]
    assert tuple(stage["name"] for stage in stages) == STAGES
    assert outcome.totals["ingest"].operations == -(-path.stat().st_size // 32768)
    assert outcome.totals["ingest"].bytes == path.stat().st_size
    assert outcome.totals["vocabulary"].operations == 2 * 26  # leaves and roots
    for stage, later in pairwise(stages):
        assert stage["end_ns"] <= later["start_ns"]
    for stage, span in zip(stages, outcome.spans, strict=True):
        assert stage["rows"] == 1500
        assert stage["input_bytes"] == span.bytes > 0
        assert stage["cpu_ns"] > 0
    cluster = of_cluster(outcome)
    assert cluster["scheduler"] is None
    workers = cluster["workers"]
    assert len(workers) == 2
    units = sum(total.operations for total in outcome.totals.values())
    assert sum(worker["units"] for worker in workers) == units
    assert not any(worker["remote"] or worker["lost"] for worker in workers)
    used_ns = sum(worker["user_ns"] + worker["system_ns"] for worker in workers)
    own_ns = cluster["own_user_ns"] + cluster["own_system_ns"]
    assert used_ns > 0
    assert sum(stage["cpu_ns"] for stage in stages) <= used_ns + own_ns
    assert cluster["worker_limit_bytes"] == (job.memory_bytes - DASK.base_bytes) // 2
    assert 0 < cluster["worker_peak_bytes"] <= cluster["worker_limit_bytes"]
    assert outcome.cpu is not None
    assert outcome.engine.name == "dask"


def started(job: PreprocessJob, work: Path) -> Any:
    """Return a run whose workers are busy."""
    work.mkdir()
    going = get_engine("dask").start(job, work)
    while not list(Path(job.directory).glob("parquet/*/*.json")):
        outcome = going.wait(0.02)
        assert outcome is None, outcome.raw["stderr.txt"].decode()
    return going


@pytest.fixture
def long_job(tmp_path: Path) -> Iterator[PreprocessJob]:
    path = clicks(tmp_path, "day_0", 3000)
    yield order([path] * 16, tmp_path / "run", workers=2, part_bytes=1 << 18, threshold=2)


def test_what_a_killed_worker_was_at_is_done_again(
    tmp_path: Path, long_job: PreprocessJob, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Check that work lost with a worker is repeated, and that the live view has rates."""
    # Shorter than a worker's restart, like Dask's default on a busy machine.
    monkeypatch.setenv("DASK_DISTRIBUTED__DEPLOY__LOST_WORKER_TIMEOUT", "100ms")
    going = started(long_job, tmp_path / "work")
    ingest = tmp_path / "run"
    killed, rates = 0, []
    for left in ("parquet/*/*.json", "vocabulary/C*.json", "binary.partial/train/cat_0.bin"):
        while not list(ingest.glob(left)) and not (ingest / "binary").exists():
            assert going.wait(0.01) is None
        workers = worker_processes(going._process.pid)
        if workers:
            os.kill(workers[0], signal.SIGKILL)
            killed += 1
    assert killed
    while (outcome := going.wait(0.05)) is None:
        snapshot = going.snapshot()
        rates.append((snapshot.operations_s, snapshot.bytes_s))
    assert any(units and moved for units, moved in rates)
    assert_as_expected(outcome, long_job, expected_of(long_job))
    assert 1 <= of_cluster(outcome)["lost_workers"] <= killed
    assert not list(ingest.rglob(f"*{ATTEMPT}"))
    assert not (ingest / "vocabulary" / "trees").exists()


def test_a_cancelled_run_ends_and_its_workers_with_it(
    tmp_path: Path, long_job: PreprocessJob
) -> None:
    going = started(long_job, tmp_path / "work")
    workers = worker_processes(going._process.pid)
    assert going.snapshot().phase == "measure"
    going.cancel()
    outcome = going.wait(60)
    assert outcome is not None
    assert (outcome.status, outcome.failure) == ("cancelled", None)
    assert workers
    for _ in range(600):
        if not any(map(is_there, workers)):
            break
        sleep_s(0.1)
    assert not any(map(is_there, workers))


def test_workers_end_with_a_killed_coordinator(tmp_path: Path, long_job: PreprocessJob) -> None:
    going = started(long_job, tmp_path / "work")
    workers = worker_processes(going._process.pid)
    os.kill(going._process.pid, signal.SIGKILL)
    outcome = going.wait(60)
    assert outcome is not None
    assert outcome.status == "failed"
    for _ in range(600):
        if not any(map(is_there, workers)):
            break
        sleep_s(0.1)
    assert not any(map(is_there, workers))


@pytest.fixture(scope="module")
def complete(tmp_path_factory: pytest.TempPathFactory) -> PreprocessJob:
    """Provide a job whose run finished."""
    tmp_path = tmp_path_factory.mktemp("complete")
    job = order([clicks(tmp_path, "day_0", 800)], tmp_path / "run", part_bytes=1 << 15)
    first = outcome_of("dask", job, tmp_path / "first")
    assert first.failure is None, first.raw["stderr.txt"]
    return job


@pytest.mark.parametrize("left", ["vocabulary", "encode"])
def test_a_run_goes_on_where_it_was_left(
    tmp_path: Path, complete: PreprocessJob, left: str
) -> None:
    run = tmp_path / "run"
    shutil.copytree(complete.directory, run)
    (run / "binary").rename(run / "binary.partial")
    if left == "vocabulary":
        for path in (run / "vocabulary").glob("C1*"):
            path.unlink()
        (run / "vocabulary" / "trees").mkdir()
        (run / "vocabulary" / "trees" / "C1.0-0.values").write_bytes(b"half")
        (run / "vocabulary" / f"lost{ATTEMPT}").mkdir()
    again = complete.model_copy(update={"directory": str(run), "resume": True, "workers": 2})
    outcome = outcome_of("dask", again, tmp_path / "second")
    assert_as_expected(outcome, again, expected_of(again))
    resumed = [stage["resumed_parts"] for stage in outcome.details["stages"]]
    assert resumed[:2] == [
        outcome.details["stages"][0]["parts"],
        15 if left == "vocabulary" else 26,
    ]


def test_little_memory_makes_large_trees_and_gives_the_same(tmp_path: Path) -> None:
    """Check that workers with room for a few dozen values give the same vocabularies."""
    path = clicks(tmp_path, "day_0", 700)
    memory = DASK.base_bytes + 2 * DASK.worker_bytes + 8192
    changes = {"workers": 2, "memory_bytes": memory, "threshold": 1, "part_bytes": 1 << 14}
    job = order([path], tmp_path / "run", **changes)
    outcome = outcome_of("dask", job, tmp_path / "work")
    assert_as_expected(outcome, job, expected_of(job))
    cluster = of_cluster(outcome)
    assert 0 < cluster["worker_peak_bytes"] <= cluster["worker_limit_bytes"]
    leaves = outcome.details["stages"][0]["parts"]
    assert leaves > FAN_IN
    assert outcome.totals["vocabulary"].operations == 26 * (leaves + -(-leaves // FAN_IN) + 1)


def test_a_worker_that_takes_too_much_is_ended_and_the_run_fails(tmp_path: Path) -> None:
    path = clicks(tmp_path, "day_0", 3000)
    raw = path.read_bytes() * 110
    path.write_bytes(raw)
    memory = DASK.base_bytes + DASK.worker_bytes + 8 * MIB
    job = order([path], tmp_path / "run", memory_bytes=memory, part_bytes=len(raw), cold=False)
    outcome = outcome_of("dask", job, tmp_path / "work")
    assert outcome.status == "failed"
    assert outcome.failure is not None
    assert "4 workers" in outcome.failure.message
    assert "increase memory" in outcome.failure.fix


def test_memory_that_holds_no_worker_is_refused(tmp_path: Path) -> None:
    path = clicks(tmp_path, "day_0", 10)
    job = order([path], tmp_path / "run", memory_bytes=DASK.base_bytes + MIB)
    outcome = outcome_of("dask", job, tmp_path / "work")
    assert outcome.failure is not None
    assert "Dask and pandas" in outcome.failure.message
    assert "memory" in outcome.failure.fix


def test_malformed_lines_are_refused_where_the_order_says_so(tmp_path: Path) -> None:
    job = order(messy(tmp_path / "raw"), tmp_path / "run", malformed="refuse")
    outcome = outcome_of("dask", job, tmp_path / "work")
    assert outcome.failure is not None
    first = expected_of(job).samples[0]
    where = f"{first['file']}, line {first['line']}: {first['reason']}"
    assert where in outcome.failure.message
    assert not (tmp_path / "run" / "binary").exists()


def test_a_failing_disk_is_told_as_it_is(tmp_path: Path) -> None:
    """Check that a worker's error keeps its errno and path."""
    path = clicks(tmp_path, "day_0", 50)
    job = order([path, tmp_path / "gone"], tmp_path / "run")
    outcome = outcome_of("dask", job, tmp_path / "work")
    assert outcome.failure is not None
    assert str(tmp_path / "gone") in outcome.failure.message
