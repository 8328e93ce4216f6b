"""Workers waiting for a core: delayed threads, and which readings are kept."""

from __future__ import annotations

import ctypes
import hashlib
import os
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from storlab.process.counters import CounterReading
from storlab.process.run_queue import CoreWaits, _RunQueues

PR_SET_NAME = 15
MS = 1_000_000


@contextmanager
def working(name: str, after: threading.Event | None = None) -> Iterator[None]:
    """Run a thread that shares one core with a busy program.

    It gets this name once ``after`` is set.
    """
    core = min(os.sched_getaffinity(0))
    named, end = threading.Event(), threading.Event()

    def work() -> None:
        if after is not None:
            after.wait()
        ctypes.CDLL(None).prctl(PR_SET_NAME, name.encode(), 0, 0, 0)
        named.set()
        os.sched_setaffinity(0, {core})
        while not end.is_set():
            hashlib.sha256(bytes(1 << 20))  # without the GIL

    loop = f"import os; os.sched_setaffinity(0, {{{core}}})\nwhile True: pass"
    with subprocess.Popen([sys.executable, "-c", loop]) as other:
        thread = threading.Thread(target=work)
        thread.start()
        try:
            if after is None:
                named.wait()
            yield
        finally:
            end.set()
            if after is not None:
                after.set()
            thread.join()
            other.kill()


def test_a_worker_that_shares_its_core_waits() -> None:
    with working("storlab-job0"):
        queues = _RunQueues()
        begin = queues.read()
        while queues.read()[0] < begin[0] + 20 * MS:
            pass
        assert queues.read()[2] >= begin[2]


def test_a_worker_that_has_no_name_yet_is_one_all_the_same() -> None:
    begun = threading.Event()
    with working("storlab-job0", begun):
        queues = _RunQueues()
        assert queues.read()[0] == queues.read()[0] == 0
        begun.set()
        deadline_s = time.monotonic() + 60
        while queues.read()[0] < 20 * MS:
            assert time.monotonic() < deadline_s


def test_threads_that_make_no_load_do_not_count() -> None:
    with working("storlab-live"):
        queues, workers = _RunQueues(), _RunQueues()
        workers._workers._ids |= {task.name for task in Path("/proc/self/task").iterdir()}
        while workers.read()[0] < 20 * MS:
            assert queues.read()[0] == 0


def watch(*readings: tuple[int, int, int, int]) -> CoreWaits:
    made = CoreWaits()
    made._readings += [CounterReading(time, tuple(values)) for time, *values in readings]
    return made


def test_the_readings_around_the_window_are_kept() -> None:
    times = [(10, 0, 0, 0), (20, 5, 0, 1), (30, 5, 0, 2), (40, 5, 1, 3), (50, 5, 1, 4)]
    found = watch(*times).course(25, 35, 0.02, 200)
    assert found == {"time_ns": [20, 30, 40], "waited_ns": [5, 5, 5], "stolen": [0, 0, 1],
                     "ticks": [1, 2, 3]}  # fmt: skip
    assert watch(*times).course(5, 15, 0.02, 200)["time_ns"] == [10, 20]
    thinned = watch(*times).course(0, 60, 0.02, 3)["time_ns"]
    assert thinned == [10, 30, 50]


@pytest.mark.parametrize(
    ("waited", "stolen", "kept"), [(19, 1, False), (20, 0, True), (0, 2, True)]
)
def test_nothing_is_kept_of_a_run_that_had_its_cores(waited: int, stolen: int, kept: bool) -> None:
    readings = [(0, 0, 0, 0), (1000, waited, stolen, 100)]
    assert bool(watch(*readings).course(0, 1000, 0.02, 200)) is kept


def test_nothing_was_read() -> None:
    assert watch().course(0, 1, 0.02, 200) == {}
