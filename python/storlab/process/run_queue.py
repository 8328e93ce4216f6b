"""What was kept from its core along a run: the threads that make the load, and the whole machine.

The engine tells how long its workers waited in the whole window; this tells when that was.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

from storlab.process.counters import CounterWatch
from storlab.process.machine_cpu import machine_ticks

PERIOD_S = 1.0
_WORKER = re.compile(r"storlab-[a-z]+\d")  # as crates/run names them; others have no number
_TASKS = Path("/proc/self/task")


class CoreWaits(CounterWatch):
    """Reads once a second inside a ``with`` block; nothing where the kernel does not tell."""

    def __init__(self, period_s: float = PERIOD_S) -> None:
        super().__init__(_RunQueues().read, "storlab-waits", period_s)

    def course(self, start_ns: int, end_ns: int, least: float, most: int) -> dict[str, list[int]]:
        """The readings around a window, ``most`` of them, as ``model.run_course.WAITS`` says.

        Empty where nobody was kept from a core for the ``least`` share of any stretch.
        """
        times = [reading.time_ns for reading in self.readings]
        first = max((n for n, time in enumerate(times) if time <= start_ns), default=0)
        last = min((n for n, time in enumerate(times) if time >= end_ns), default=len(times) - 1)
        inside = self.readings[first : last + 1]
        kept = inside[:: max(1, -(-len(inside) // most))]
        counted = [(reading.time_ns, *reading.values) for reading in kept]
        if not any(_is_kept(a, b, least) for a, b in pairwise(counted)):
            return {}
        names = ("time_ns", "waited_ns", "stolen", "ticks")
        return dict(zip(names, map(list, zip(*counted, strict=True)), strict=True))


def _is_kept(before: tuple[int, ...], after: tuple[int, ...], least: float) -> bool:
    length, waited, stolen, ticks = (b - a for a, b in zip(before, after, strict=True))
    return max(waited / max(1, length), stolen / max(1, ticks)) >= least


class _RunQueues:
    """Of this process's workers, which come and go."""

    def __init__(self) -> None:
        self._workers: set[str] = set()  # threads
        self._before: dict[str, int] | None = None  # by thread
        self._longest_ns = 0

    def read(self) -> tuple[int, int, int]:
        """Counted until now: the longest wait of each stretch, and ticks stolen and in all."""
        now = dict(self._waits())
        if self._before is not None:
            more = (waited - self._before.get(thread, 0) for thread, waited in now.items())
            self._longest_ns += max(more, default=0)
        self._before = now
        ticks = machine_ticks()
        return self._longest_ns, ticks.stolen, ticks.all

    def _waits(self) -> Iterator[tuple[str, int]]:
        for task in _TASKS.iterdir():
            try:
                if task.name not in self._workers:
                    # A thread names itself, some time after it has begun: others are asked again.
                    if not _WORKER.match((task / "comm").read_text()):
                        continue
                    self._workers.add(task.name)
                # On a core, in run queues, turns.
                yield task.name, int((task / "schedstat").read_text().split()[1])
            except (FileNotFoundError, ProcessLookupError):
                continue  # it has ended
