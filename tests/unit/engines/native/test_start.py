"""A hanging start is given up, and cancelled if it completes later."""

from __future__ import annotations

import errno
import json
import os
import time
from pathlib import Path

import pytest

from storlab import _native
from storlab.engines.native.start import start_in_thread
from support.block_jobs import MIB, make_job

WAITED_S = 60.0  # never reached


def _run(path: Path) -> _native.Run:
    job = make_job(path, backend="posix", size=MIB)
    return _native.Run("block", job.model_dump_json(), {}, False)


def test_a_run_that_starts_is_handed_over(tmp_path: Path) -> None:
    (tmp_path / "f").write_bytes(bytes(MIB))
    run = start_in_thread(lambda: _run(tmp_path / "f"))
    assert run.wait(WAITED_S)


def test_what_a_start_raises_is_raised(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        start_in_thread(lambda: _run(tmp_path / "absent"))
    with pytest.raises(ValueError, match="not a workload family"):
        start_in_thread(lambda: _native.Run("nothing", "{}", {}, False))


@pytest.mark.parametrize("kind", [MemoryError, TypeError, BaseException])
def test_whatever_a_start_raises_is_raised(kind: type[BaseException]) -> None:
    """Check that any exception of a start is raised, even a Rust panic (BaseException)."""

    def start() -> _native.Run:
        raise kind("no room")

    with pytest.raises(kind, match="no room"):
        start_in_thread(start)


def test_an_open_that_does_not_come_back_is_given_up(tmp_path: Path) -> None:
    """Check that a hanging open() is given up, by a pipe without a writer."""
    made: list[_native.Run] = []
    os.mkfifo(tmp_path / "f")

    def start() -> _native.Run:
        made.append(_run(tmp_path / "f"))
        return made[0]

    with pytest.raises(OSError, match="opening the files") as raised:
        start_in_thread(start, limit_s=0.2)
    assert raised.value.errno == errno.ETIMEDOUT
    other = os.open(tmp_path / "f", os.O_RDWR)
    try:
        while not made:
            time.sleep(0.01)
        assert made[0].wait(WAITED_S)
    finally:
        os.close(other)
    assert json.loads(made[0].outcome()[0])["status"] in ("cancelled", "failed")
