"""Engines with internal errors: a failed outcome, and no endless wait."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from storlab.base.errors import RunError
from storlab.engines.fio import run as fio_run
from storlab.engines.fio.run import FioRun
from storlab.engines.warp.run import WarpRun
from storlab.model.job import Member, WeightedSize
from storlab.model.result import EngineInfo, Failure, RunOutcome, Snapshot
from storlab.model.s3 import Credentials, S3Store
from storlab.process.child import ChildRun, Launch
from storlab.process.execution import StopRequest, finish
from storlab.process.session_cpu import SessionTrace
from storlab.workloads.block.job import BlockJob, Mix, Offsets
from storlab.workloads.object.job import ObjectJob, ObjectMix, ObjectSizes, Pool

INFO = EngineInfo(name="x", version="1")
SECRET = "secretOfThisTest"
SIZES = ObjectSizes(kind="fixed", sizes=[WeightedSize(bytes=4096)])
OBJECTS = ObjectJob(
    store=S3Store(
        endpoints=["http://127.0.0.1:9000"],
        bucket="bench",
        credentials=Credentials("AKIDofThisTest", SECRET, None),
    ),
    pool=Pool(prefix="p/", objects=1, sizes=SIZES),
    write_prefix="run/",
    sizes=SIZES,
    mix=ObjectMix(get=50, put=50),
    concurrency=1,
    window_ns=1,
)


class Breaks(ChildRun):
    def finish(self) -> RunOutcome:
        raise KeyError("start_ns")


class Escapes(ChildRun):
    def finish(self) -> RunOutcome:
        raise SystemExit


def child(kind: type[ChildRun], work_dir: Path, code: str = "pass") -> ChildRun:
    command = [sys.executable, "-c", code]
    return kind(Launch("child", command, {}, work_dir, kill_after_s=0.1), INFO)


def blocks(path: Path, **bound: int) -> BlockJob:
    return BlockJob(
        members=[Member(path=str(path), name=str(path), kind="file", size=1 << 20)],
        jobs=1,
        queue_depth=1,
        mix=Mix(read=100, write=0),
        block_sizes=[WeightedSize(bytes=4096)],
        offsets=Offsets(kind="uniform"),
        drain_timeout_ns=1,
        seed=1,
        **bound,
    )


def failure_of(run: FioRun | WarpRun | ChildRun) -> Failure:
    outcome = finish(run, StopRequest(), lambda _: None)
    assert outcome.status == "failed"
    assert outcome.failure is not None
    assert run.snapshot().phase == "done"
    return outcome.failure


def test_a_child_whose_result_is_damaged(tmp_path: Path) -> None:
    run = child(Breaks, tmp_path)
    assert "KeyError: 'start_ns'" in failure_of(run).message
    outcome = run.wait(1)
    assert outcome is not None
    assert b"in finish" in outcome.raw["defect.txt"]


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
def test_a_child_whose_watcher_ends_in_any_way_at_all(tmp_path: Path) -> None:
    assert "SystemExit" in failure_of(child(Escapes, tmp_path)).message


def test_a_child_that_nobody_can_watch_is_ended(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(_: SessionTrace) -> None:
        raise OSError(24, "Too many open files")

    monkeypatch.setattr(SessionTrace, "read", broken)
    run = child(Breaks, tmp_path, "import time; time.sleep(600)")
    assert "Too many open files" in failure_of(run).message
    assert run._process.wait() != 0


def test_a_warp_whose_files_are_gone(tmp_path: Path) -> None:
    command = ["sh", "-c", f"rm stdout.txt; echo {SECRET}"]
    launch = Launch("warp", command, {}, tmp_path, secrets={"WARP_SECRET_KEY": SECRET})
    run = WarpRun(OBJECTS, launch, INFO)
    assert "No such file" in failure_of(run).message
    outcome = run.wait(1)
    assert outcome is not None
    assert not any(SECRET.encode() in content for content in outcome.raw.values())


def test_a_fio_whose_files_are_gone(tmp_path: Path) -> None:
    launch = Launch("fio", ["sh", "-c", "echo no job file here"], {}, tmp_path)
    run = FioRun(blocks(tmp_path / "data", window_ns=1), launch, INFO)
    assert "job.fio" in failure_of(run).message


def test_a_fio_that_moves_nothing_more_has_a_limit_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fio_run, "_STALL_NS", 1)
    (tmp_path / "job.fio").touch()
    launch = Launch("fio", ["sleep", "600"], {}, tmp_path)
    run = FioRun(blocks(tmp_path / "data", window_bytes=1 << 20), launch, INFO)
    assert "did not end in time" in failure_of(run).message


class Silent:
    """Run that has ended without a result."""

    def snapshot(self) -> Snapshot:
        return Snapshot("done", 0)

    def cancel(self) -> None:
        pass

    def wait(self, timeout_s: float | None = None) -> None:
        return None


def test_an_engine_without_an_outcome_is_an_error() -> None:
    with pytest.raises(RunError, match="without an outcome"):
        finish(Silent(), StopRequest(), lambda _: None)
    stop = StopRequest()
    stop.ask()
    with pytest.raises(RunError, match="without an outcome"):
        finish(Silent(), stop, lambda _: None)
