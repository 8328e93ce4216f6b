"""CPU time that a server started by storlab uses in a run's measure window.

The window is known only after the run, so the server's counters are sampled during the whole run.
"""

from __future__ import annotations

import os
from bisect import bisect_left
from collections.abc import Callable
from typing import NamedTuple

from storlab.model.result import CpuUse
from storlab.process.counters import CounterWatch


class CpuReading(NamedTuple):
    """CPU time of a process so far, and when it was read on the run's clock; all in ns."""

    time_ns: int
    user_ns: int
    system_ns: int


class ServerCpu(CounterWatch):
    """CPU time of a server, read every 50 ms inside a ``with`` block, until the server ends.

    The callable ``read`` returns user and system time in ns.
    """

    def __init__(self, read: Callable[[], tuple[int, int]]) -> None:
        super().__init__(read, "storlab-server-cpu")

    def within(self, start_ns: int, end_ns: int) -> CpuUse | None:
        """Return the server's CPU use between two times; None if readings do not span them."""
        readings = [CpuReading(reading.time_ns, *reading.values) for reading in self.readings]
        return cpu_between(readings, start_ns, end_ns)


def cpu_between(readings: list[CpuReading], start_ns: int, end_ns: int) -> CpuUse | None:
    """Return the CPU use of a process between two times, interpolated between readings.

    Args:
        readings: Readings in order of time.
        start_ns: The start on the run's clock.
        end_ns: The end on the run's clock.

    Returns:
        None if the readings do not span start and end.
    """
    if len(readings) < 2 or not readings[0].time_ns <= start_ns < end_ns <= readings[-1].time_ns:
        return None
    first, last = _at(readings, start_ns), _at(readings, end_ns)
    return CpuUse(
        user_ns=round(last[0] - first[0]),
        system_ns=round(last[1] - first[1]),
        cores=len(os.sched_getaffinity(0)),
    )


def _at(readings: list[CpuReading], time_ns: int) -> tuple[float, float]:
    """Return the user and system time at a given time, interpolated between readings."""
    place = max(1, bisect_left(readings, time_ns, key=lambda reading: reading.time_ns))
    before, after = readings[place - 1], readings[place]
    length = after.time_ns - before.time_ns
    part = (time_ns - before.time_ns) / length if length else 1.0
    return (
        before.user_ns + part * (after.user_ns - before.user_ns),
        before.system_ns + part * (after.system_ns - before.system_ns),
    )
