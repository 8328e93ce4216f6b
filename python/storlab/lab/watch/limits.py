"""Monitoring of whether a run reached limits that cgroups set for the load generator."""

from __future__ import annotations

import resource
from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Self

from storlab.base.units import NS_PER_S, format_bytes_si
from storlab.model.result import READS, WRITES, Flag, RunOutcome
from storlab.process import cgroups
from storlab.process.counters import CounterWatch
from storlab.process.host_memory import host_memory_bytes
from storlab.stores.devices import Device
from storlab.workloads.common.metrics import CLIENT_BOUND_PERCENT

PERIOD_S = 0.25
_MEMINFO = Path("/proc/meminfo")
_THREADS_MAX = Path("/proc/sys/kernel/threads-max")


class LimitWatch:
    """Monitor of how often this process reaches limits of its cgroups, inside a ``with`` block.

    Nothing is read if no limit is set.

    Args:
        devices: Block devices of the target, which may have I/O limits.
    """

    def __init__(self, devices: Sequence[Device]) -> None:
        self._quotas = cgroups.quotas()
        self._memory = [
            (limit[0], str(group))
            for group in cgroups.groups_of("memory")
            if (limit := cgroups.memory_limit([group])) is not None
        ]
        self._io = limits_of(devices)
        self._watch: CounterWatch | None = None
        self._stack = ExitStack()

    def __enter__(self) -> Self:
        if self._quotas or self._memory:
            self._watch = CounterWatch(self._read, "storlab-limits", PERIOD_S)
            self._stack.enter_context(self._watch)
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def _read(self) -> tuple[int, ...]:
        throttled = [cgroups.throttled_ns(quota.group) for quota in self._quotas]
        return (*throttled, *(cgroups.memory_events(group) for _, group in self._memory))

    def judge(self, outcome: RunOutcome) -> None:
        """Add CPU quota and throttling to a run's CPU use, and flags for other limits reached.

        Call it after the ``with`` block.
        """
        start_ns, end_ns = outcome.window_start_ns, outcome.window_end_ns
        if end_ns <= start_ns:
            return
        counted, over_ns = self._around(start_ns, end_ns)
        if outcome.cpu is not None and self._quotas:
            throttled = max(counted[: len(self._quotas)], default=None)
            share = None if throttled is None else min(100.0, 100 * throttled / over_ns)
            quota = self._quotas[0]
            outcome.cpu = outcome.cpu.model_copy(
                update={"quota_cores": quota.cores, "throttled_percent": share}
            )
        events = counted[len(self._quotas) :]
        outcome.flags += [*self._memory_flags(events), *self._io_flags(outcome)]

    def _around(self, start_ns: int, end_ns: int) -> tuple[list[int], int]:
        """Return how much each counter grew around the measure window, and in how many ns."""
        readings = [] if self._watch is None else self._watch.readings
        if len(readings) < 2:
            return [], 1
        times = [reading.time_ns for reading in readings]
        first = max(0, bisect_right(times, start_ns) - 1)
        last = min(len(times) - 1, bisect_left(times, end_ns))
        before, after = readings[first].values, readings[last].values
        grown = [b - a for a, b in zip(before, after, strict=True)]
        return grown, max(1, times[last] - times[first])

    def _memory_flags(self, events: Sequence[int]) -> Iterator[Flag]:
        for (limit, group), count in zip(self._memory, events, strict=False):
            if count:
                yield Flag(
                    kind="cgroup-limit",
                    message=f"the memory limit of {group} ({format_bytes_si(limit)}) was reached "
                    f"{count:,} times during the run: the load waited while memory was freed",
                )

    def _io_flags(self, outcome: RunOutcome) -> Iterator[Flag]:
        seconds = (outcome.window_end_ns - outcome.window_start_ns) / NS_PER_S
        for limit, name, devices in self._io:
            kinds = READS if limit.direction == "reads" else WRITES
            totals = [outcome.totals[kind] for kind in kinds if kind in outcome.totals]
            done = sum(t.bytes if limit.unit == "bytes" else t.operations for t in totals)
            if 100 * done / seconds / devices >= CLIENT_BOUND_PERCENT * limit.per_second:
                yield Flag(
                    kind="cgroup-limit",
                    message=f"the control group {limit.group} limits {limit.direction} of {name} "
                    f"to {limit.text}, and the run reached this limit",
                )


def limits_of(devices: Sequence[Device]) -> list[tuple[cgroups.IoLimit, str, int]]:
    """Return the I/O limits that cgroups set on these devices or their whole disks.

    Returns:
        Each limit with the name of its device, such as "vda (254:0)", and the number of devices,
        because the load is spread over all devices of a target.
    """
    known = cgroups.io_limits()
    if not known:
        return []
    names = {
        part.number: f"{part.name} ({part.number})"
        for device in devices
        for part in (device, device.whole)
    }
    return [(x, names[x.device], len(devices)) for x in known if x.device in names]


def limit_facts() -> dict[str, Any]:
    """Return the limits of CPU, memory and threads of this process as JSON values.

    The value is None if a limit is not set.
    """
    quota = next(iter(cgroups.quotas()), None)
    memory = cgroups.memory_limit()
    return {
        "quota_cores": None if quota is None else quota.cores,
        "quota_group": "" if quota is None else quota.group,
        "memory_limit_bytes": None if memory is None else memory[0],
        "memory_group": "" if memory is None else memory[1],
        "memory_left_bytes": memory_left_bytes(),
        "threads": most_threads(),
    }


def memory_left_bytes() -> int:
    """Return the memory available to this process in bytes, on the machine and in its cgroups."""
    lines = (line.partition(":") for line in _MEMINFO.read_text().splitlines())
    machine = next((int(v.split()[0]) << 10 for n, _, v in lines if n == "MemAvailable"), None)
    known = [left for left in (machine, cgroups.memory_left()) if left is not None]
    return min(known, default=host_memory_bytes())


def most_threads() -> int:
    """Return how many threads this process may start, by the tightest limit."""
    group = cgroups.most_threads()
    soft = resource.getrlimit(resource.RLIMIT_NPROC)[0]
    bounds = [int(_THREADS_MAX.read_text())] if _THREADS_MAX.exists() else []
    bounds += [] if soft == resource.RLIM_INFINITY else [soft]
    bounds += [] if group is None else [group[0]]
    return min(bounds, default=1 << 22)  # the kernel's PID_MAX_LIMIT
