"""Runs whose load starts at a given time, as for clients of a cluster."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from storlab import _native
from storlab.engines.native.engine import NativeEngine, NativeRun
from storlab.workloads.block.job import BlockJob
from support.block_jobs import MIB, make_job


@pytest.fixture
def data(tmp_path: Path) -> Path:
    path = tmp_path / "data"
    path.write_bytes(os.urandom(8 * MIB))
    return path


def hold(job: BlockJob, tmp_path: Path) -> NativeRun:
    run = NativeEngine().hold(job, tmp_path)
    while not run.armed():
        time.sleep(0.001)
    return run


def test_a_held_run_starts_at_its_time(data: Path, tmp_path: Path) -> None:
    job = make_job(data, jobs=2, ramp_ns=50_000_000)
    run = hold(job, tmp_path)
    assert run.snapshot().phase == "armed"
    assert run.wait(0.05) is None
    assert run.snapshot().phase == "armed"
    start_ns = _native.monotonic_ns() + 3_000_000_000
    run.open_at(start_ns)
    with pytest.raises(RuntimeError, match="already has a start time"):
        run.open_at(start_ns)
    outcome = run.wait(60)
    assert outcome is not None
    assert outcome.status == "finished", outcome.failure
    assert outcome.window_start_ns == start_ns + 50_000_000
    assert outcome.window_end_ns - outcome.window_start_ns == 200_000_000
    first, last = outcome.first_io_late_ns, outcome.last_worker_late_ns
    assert first is not None
    assert last is not None
    assert 0 <= first <= last
    run.open_at(start_ns)  # no effect on a finished run


def test_a_held_run_that_is_cancelled_ends_without_io(data: Path, tmp_path: Path) -> None:
    run = hold(make_job(data), tmp_path)
    run.cancel()
    outcome = run.wait(60)
    assert outcome is not None
    assert outcome.status == "cancelled"
    assert outcome.totals["read"].operations == 0
    assert outcome.first_io_late_ns is None


def test_a_held_run_that_fails_never_is_armed(tmp_path: Path) -> None:
    run = NativeEngine().hold(make_job(tmp_path / "missing"), tmp_path)
    outcome = run.wait(60)
    assert outcome is not None
    assert (outcome.status, run.armed()) == ("failed", False)


def test_a_run_that_is_not_held_cannot_be_told_when_to_start(data: Path, tmp_path: Path) -> None:
    run = NativeEngine().start(make_job(data), tmp_path)
    with pytest.raises(RuntimeError, match="not held"):
        run.open_at(0)
    outcome = run.wait(60)
    assert outcome is not None
    assert outcome.first_io_late_ns is not None
