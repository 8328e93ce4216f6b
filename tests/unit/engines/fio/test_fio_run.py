"""A process of fio: how long it may take, and what is kept of what it prints."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from storlab.base.units import NS_PER_S
from storlab.engines.fio import run as fio_run
from storlab.engines.fio.run import FioRun
from storlab.model.job import Member, WeightedSize
from storlab.model.result import EngineInfo
from storlab.process.child import Launch
from storlab.workloads.block.job import BlockJob, Mix, Offsets, Sync

WAIT_S = 60


def job(**changes: Any) -> BlockJob:
    fields: dict[str, Any] = {
        "members": [Member(path="/data/a", name="a", kind="file", size=64 << 30)],
        "jobs": 1,
        "queue_depth": 1,
        "direct": False,
        "mix": Mix(read=0, write=100),
        "block_sizes": [WeightedSize(bytes=1 << 20)],
        "offsets": Offsets(kind="uniform"),
        "window_ns": 60 * NS_PER_S,
        "sync": Sync(kind="fsync", final=True),
    }
    return BlockJob(**{**fields, **changes})


def ended(tmp_path: Path, made: BlockJob) -> FioRun:
    (tmp_path / "job.fio").touch()
    launch = Launch(name="fio", command=["true"], environment={}, work_dir=tmp_path)
    run = FioRun(made, launch, EngineInfo(name="fio", version="3.33"))
    assert run.wait(WAIT_S) is not None
    return run


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({}, False),
        ({"sync": Sync()}, True),
        ({"direct": True}, True),  # nothing of it lies in memory
        ({"members": [Member(path="/data/a", name="a", kind="file", size=1 << 20)]}, True),
    ],
)
def test_a_final_sync_may_take_what_memory_holds(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, changes: dict[str, Any], expected: bool
) -> None:
    """Its disk may be one of 5 MB/s."""
    monkeypatch.setattr(fio_run, "most_dirty_bytes", lambda: 4 << 30, raising=False)
    run = ended(tmp_path, job(**changes))
    now_ns = run.started_ns + 300 * NS_PER_S
    monkeypatch.setattr(fio_run, "monotonic_ns", lambda: now_ns)
    assert run.overdue() == expected
