"""Times within a run's measure window at which its flags applied, as far as they are known."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Any

from storlab.analysis.dataset import RunData
from storlab.analysis.offered_load import offered_rate
from storlab.analysis.run_intervals import Interval, counted_beside, intervals_of
from storlab.base.units import NS_PER_S
from storlab.contracts.registry import FAMILIES
from storlab.model.run_course import WAITS
from storlab.power.metering import power_gaps
from storlab.workloads.common.metrics import (
    CLIENT_BOUND_PERCENT,
    STARVED_PERCENT,
    tolerated_backlog,
)

Span = tuple[float, float]
"""Start and end, in seconds from the start of the window."""


def flag_times(run: RunData) -> dict[str, list[Span]]:
    """Return the times in a run's window at which each of its flags applied, by kind of flag.

    Raises:
        ResultError: The stored data of the run is damaged.
    """
    return flag_times_in(run, intervals_of(run), counted_beside(run))


def flag_times_in(
    run: RunData, intervals: Sequence[Interval], beside: Mapping[str, Any]
) -> dict[str, list[Span]]:
    """Return the times at which each flag applied, in order, by kind of flag.

    If the kind of a flag is missing, the flag applied to the whole window or its times are unknown.

    Args:
        run: Run whose flags are located.
        intervals: Sampled intervals of the run.
        beside: Counters recorded next to the intervals.
    """
    finders = {
        "client-bound": lambda: _bound(run, intervals),
        "open-loop-behind": lambda: _behind(run, intervals),
        "starved": lambda: _waits(run, beside),
        "late-start": lambda: _late(run),
        "power-not-measured": lambda: _unmetered(run),
    }
    kinds = dict.fromkeys(flag.kind for flag in run.record.flags if flag.kind in finders)
    times = {kind: list(finders[kind]()) for kind in kinds}
    return {kind: _joined(spans) for kind, spans in times.items() if spans}


def _bound(run: RunData, intervals: Sequence[Interval]) -> Iterator[Span]:
    """Yield the intervals in which the workers reached the CPU limit (client-bound)."""
    if run.record.cpu is not None:
        limit = run.record.cpu.cores * CLIENT_BOUND_PERCENT / 100
        yield from ((i.start_s, i.end_s) for i in intervals if i.cores > limit)


def _behind(run: RunData, intervals: Sequence[Interval]) -> Iterator[Span]:
    """Yield the intervals at whose end the open loop had completed too few operations."""
    record = run.record
    offered, done = offered_rate(record), 0
    if offered is None or not intervals:
        return
    in_flight = 0.0 if record.concurrency is None else record.concurrency.configured
    for interval in intervals:
        done += interval.done
        due = offered * interval.end_s
        if done < due - tolerated_backlog(due, in_flight, record.params.get("arrival")):
            yield interval.start_s, interval.end_s


def _waits(run: RunData, beside: Mapping[str, Any]) -> Iterator[Span]:
    """Yield the times in which a worker or the whole machine waited for CPU (starved)."""
    known = beside.get(WAITS, {})
    names = ("time_ns", "waited_ns", "stolen", "ticks")
    for before, after in pairwise(zip(*(known.get(name, []) for name in names), strict=True)):
        length, waited, stolen, ticks = (b - a for a, b in zip(before, after, strict=True))
        if max(waited / max(1, length), stolen / max(1, ticks)) >= STARVED_PERCENT / 100:
            yield _within(run, before[0], after[0])


def _late(run: RunData) -> Iterator[Span]:
    """Yield the time from the common start of all clients to the last client's first operation.

    If the last client started during the ramp, the span is empty, at the start of the window.
    """
    record = run.record
    if record.cluster is None:
        return
    ramp_ns = 0 if FAMILIES[record.kind].fixed_work else run.store.study.study.ramp
    most_ns = max((c.first_io_late_ns or 0 for c in record.cluster.clients), default=0)
    yield 0.0, max(0, most_ns - ramp_ns) / NS_PER_S


def _unmetered(run: RunData) -> Iterator[Span]:
    """Yield the gaps in which a power sensor gave no reading."""
    record = run.record
    for start_ns, end_ns in power_gaps(record, run.store.power(run.directory_name)):
        if start_ns < record.window_end_ns and end_ns > record.window_start_ns:
            yield _within(run, start_ns, end_ns)


def _within(run: RunData, start_ns: int, end_ns: int) -> Span:
    """Convert times of the run's clock to seconds of its window, clipped to the window."""
    first_ns, last_ns = run.record.window_start_ns, run.record.window_end_ns
    start_ns, end_ns = max(start_ns, first_ns), min(end_ns, last_ns)
    return (start_ns - first_ns) / NS_PER_S, (end_ns - first_ns) / NS_PER_S


def _joined(spans: Sequence[Span]) -> list[Span]:
    """Sort spans by time and merge those that touch."""
    joined: list[Span] = []
    for first, last in sorted(spans):
        if joined and first <= joined[-1][1] + 1e-3:
            joined[-1] = (joined[-1][0], max(last, joined[-1][1]))
        else:
            joined.append((first, last))
    return joined
