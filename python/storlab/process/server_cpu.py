"""CPU time of a server that storlab itself runs, inside a run's measure window.

The window is known only when the run has ended, so the server's counters are read all along.
"""

from __future__ import annotations

import os
from bisect import bisect_left
from collections.abc import Callable
from typing import NamedTuple

from storlab.model.result import CpuUse
from storlab.process.counters import CounterWatch


class CpuReading(NamedTuple):
    """What the counters said at a moment of the run's clock; all in ns."""

    time_ns: int
    user_ns: int
    system_ns: int


class ServerCpu(CounterWatch):
    """Reads ``read() -> (user_ns, system_ns)`` every 50 ms inside a ``with`` block.

    A server that has gone is read no more.
    """

    def __init__(self, read: Callable[[], tuple[int, int]]) -> None:
        super().__init__(read, "storlab-server-cpu")

    def within(self, start_ns: int, end_ns: int) -> CpuUse | None:
        """CPU used from ``start_ns`` to ``end_ns``; None where the readings do not span that."""
        readings = [CpuReading(reading.time_ns, *reading.values) for reading in self.readings]
        return cpu_between(readings, start_ns, end_ns)


def cpu_between(readings: list[CpuReading], start_ns: int, end_ns: int) -> CpuUse | None:
    """CPU used between two moments, from counters read around them, straight lines in between.

    ``readings`` are in the order of time. None where they do not reach from start to end.
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
    """User and system time at a moment that lies within the readings."""
    place = max(1, bisect_left(readings, time_ns, key=lambda reading: reading.time_ns))
    before, after = readings[place - 1], readings[place]
    length = after.time_ns - before.time_ns
    part = (time_ns - before.time_ns) / length if length else 1.0
    return (
        before.user_ns + part * (after.user_ns - before.user_ns),
        before.system_ns + part * (after.system_ns - before.system_ns),
    )
