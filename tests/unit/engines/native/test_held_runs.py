"""Native runs that wait for their start time."""

from __future__ import annotations

from pathlib import Path

import pytest

from storlab import _native
from storlab.contracts.engine import HeldRun, HoldsRuns
from storlab.engines.fio.engine import FioEngine
from storlab.engines.native.engine import NativeEngine
from storlab.engines.warp.engine import WarpEngine
from storlab.workloads.block.job import BlockJob

JOB = BlockJob.model_validate(
    {
        "members": [{"path": "null:", "name": "null", "kind": "null", "size": 1 << 20}],
        "direct": False,
        "jobs": 2,
        "queue_depth": 1,
        "mix": {"read": 100, "write": 0},
        "block_sizes": [{"bytes": 4096}],
        "offsets": {"kind": "uniform"},
        "window_ns": 20_000_000,
        "interval_ns": 10_000_000,
    }
)


def test_engines_that_can_hold_a_run_are_told_apart() -> None:
    assert isinstance(NativeEngine(), HoldsRuns)
    assert isinstance(FioEngine(), HoldsRuns)
    assert not isinstance(WarpEngine(), HoldsRuns)


def test_a_start_in_the_past_is_at_once_and_late(tmp_path: Path) -> None:
    run: HeldRun = NativeEngine().hold(JOB, tmp_path)
    past_ns = _native.monotonic_ns() - 1_000_000_000
    run.open_at(past_ns)
    outcome = run.wait(60)
    assert outcome is not None
    assert outcome.status == "finished", outcome.failure
    assert outcome.window_start_ns > past_ns + 1_000_000_000
    assert outcome.first_io_late_ns is not None
    assert outcome.first_io_late_ns >= 1_000_000_000


def test_a_time_before_the_clock_began_is_refused(tmp_path: Path) -> None:
    run = NativeEngine().hold(JOB, tmp_path)
    with pytest.raises(OverflowError):
        run.open_at(-1)
    run.cancel()
    outcome = run.wait(60)
    assert outcome is not None
    assert outcome.status == "cancelled"
