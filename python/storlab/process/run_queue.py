"""When load-generating threads waited for a core during a run, and CPU time that was stolen.

The engine reports only the total waiting time of its workers in the measure window; this module
records when they waited. Stolen time is what the hypervisor gave to other guests.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

from storlab.process.counters import CounterWatch
from storlab.process.machine_cpu import machine_ticks

PERIOD_S = 1.0
# Names of worker threads, set by crates/run. Names of other threads do not end with a number.
_WORKER = re.compile(r"storlab-[a-z]+\d")
_TASKS = Path("/proc/self/task")


class CoreWaits(CounterWatch):
    """Waits of worker threads for a core, read once per second inside a ``with`` block.

    There are no readings if the kernel does not count these waits.
    """

    def __init__(self, period_s: float = PERIOD_S) -> None:
        super().__init__(_RunQueues().read, "storlab-waits", period_s)

    def course(self, start_ns: int, end_ns: int, least: float, most: int) -> dict[str, list[int]]:
        """Return the readings in and around the measure window, by name of column.

        Columns are those of ``model.run_course.WAITS``.

        Args:
            start_ns: The start of the window on the run's clock.
            end_ns: The end of the window.
            least: The share of time below which waiting is negligible.
            most: The approximate number of readings to return.

        Returns:
            An empty dict if waits are negligible throughout.
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


class WorkerTasks:
    """Finder of this process's worker threads, by their directories in ``/proc/self/task``."""

    def __init__(self) -> None:
        self._ids: set[str] = set()  # thread ids

    def __iter__(self) -> Iterator[Path]:
        """Yield the directory of each worker thread."""
        for task in _TASKS.iterdir():
            if task.name not in self._ids:
                # A thread sets its name some time after its start, so check it again later.
                try:
                    if not _WORKER.match((task / "comm").read_text()):
                        continue
                except (FileNotFoundError, ProcessLookupError):
                    continue  # the thread has ended
                self._ids.add(task.name)
            yield task


class _RunQueues:
    """Reader of how long this process's worker threads have waited in run queues for a core."""

    def __init__(self) -> None:
        self._workers = WorkerTasks()
        self._before: dict[str, int] | None = None  # wait by thread id
        self._longest_ns = 0

    def read(self) -> tuple[int, int, int]:
        """Return three counters: waiting time in ns, the machine's stolen ticks, and all ticks.

        The waiting time grows at each reading by that of the thread that waited longest.
        """
        now = dict(self._waits())
        if self._before is not None:
            more = (waited - self._before.get(thread, 0) for thread, waited in now.items())
            self._longest_ns += max(more, default=0)
        self._before = now
        ticks = machine_ticks()
        return self._longest_ns, ticks.stolen, ticks.all

    def _waits(self) -> Iterator[tuple[str, int]]:
        for task in self._workers:
            try:
                # Fields: time on a core, time in run queues, number of time slices.
                yield task.name, int((task / "schedstat").read_text().split()[1])
            except (FileNotFoundError, ProcessLookupError):
                continue  # the thread has ended
