"""A time series from fio's status documents: each counts since the ramp's end, so differences
between two of them are intervals, histograms included."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from storlab.base.units import NS_PER_MS
from storlab.engines.fio.result import Direction, Figures, histogram
from storlab.model.result import Sample

_START_TOLERANCE_MS = 300


@dataclass(frozen=True, slots=True)
class Status:
    """One status document."""

    timestamp_ms: int  # UNIX time, by fio's clock
    figures: Figures


def window_start_ms(statuses: Sequence[Status]) -> int:
    """UNIX time of the ramp's end. Documents are late by up to a quarter second, never early.

    ``job_start`` says it exactly, but only in fio 3.34 and later, and there it may be the job's
    start instead; it is believed where the documents agree with it.
    """
    told = [s for s in statuses if s.figures.measuring and s.figures.runtime_ms > 0]
    if not told:
        return statuses[-1].timestamp_ms
    latest = min(s.timestamp_ms - s.figures.runtime_ms for s in told)
    start = told[-1].figures.job_start_ms
    if start is not None and latest - _START_TOLERANCE_MS <= start <= latest:
        return start
    return latest


def samples(
    statuses: Sequence[Status], window_start_ns: int, ns_of_unix_ms: int, interval_ns: int
) -> list[Sample]:
    """Samples that tile the window, on the run's clock.

    ``statuses`` are in order, the last one being the final result; ``ns_of_unix_ms`` is what to add
    to fio's UNIX time (in ns) to get the run's clock. Bytes follow the completed operations at
    the window's mean size, because fio's own byte counter lags behind in status documents.
    """
    final = statuses[-1].figures
    window_end_ns = window_start_ns + final.runtime_ms * NS_PER_MS
    kept: list[tuple[int, Figures]] = [(window_end_ns, final)]
    for status in reversed(statuses[:-1]):
        end_ns = status.timestamp_ms * NS_PER_MS + ns_of_unix_ms
        nearest_ns, nearest = kept[-1]
        if (
            status.figures.measuring
            and nearest_ns - end_ns >= interval_ns // 2
            and end_ns - window_start_ns >= interval_ns // 2
            and _grows(status.figures, nearest)
        ):
            kept.append((end_ns, status.figures))
    kept.reverse()
    edges = [window_start_ns, *(end_ns for end_ns, _ in kept)]
    result: list[Sample] = []
    before: Figures | None = None
    for interval, (_, after) in enumerate(kept):
        span = _Span(interval, edges[interval], edges[interval + 1])
        result += _interval(span, before, after, final)
        before = after
    return result


@dataclass(frozen=True, slots=True)
class _Span:
    interval: int
    start_ns: int
    end_ns: int


def _grows(early: Figures, late: Figures) -> bool:
    """False when a counter falls: then the early one belongs to the ramp."""
    if early.user_ns + early.system_ns > (late.user_ns + late.system_ns) * 1.001:
        return False
    for operation, direction in early.directions.items():
        after = late.directions.get(operation)
        if after is None or direction.operations > after.operations:
            return False
        bins, later = _bins(direction), _bins(after)
        if any(count > later.get(middle, 0) for middle, count in bins.items()):
            return False
    return True


def _interval(span: _Span, before: Figures | None, after: Figures, final: Figures) -> list[Sample]:
    cpu_ns = _cpu_ns(after) - (_cpu_ns(before) if before else 0)
    result: list[Sample] = []
    for operation, whole in final.directions.items():
        now = after.directions.get(operation)
        then = before.directions.get(operation) if before else None
        done = _done(now) - _done(then)
        result.append(
            Sample(
                interval=span.interval,
                start_ns=span.start_ns,
                end_ns=span.end_ns,
                operation=operation,
                operations=done,
                bytes=_bytes_at(whole, now) - _bytes_at(whole, then),
                latency=histogram(_difference(now, then)).to_v2(),
                worker_cpu_ns=max(0, round(cpu_ns)) if not result else 0,
            )
        )
    return result


def _cpu_ns(figures: Figures) -> float:
    return figures.user_ns + figures.system_ns


def _done(direction: Direction | None) -> int:
    """Completed operations, by the bins: the counters of a running fio race each other by one."""
    return sum(_bins(direction).values()) or (direction.operations if direction else 0)


def _bytes_at(whole: Direction, then: Direction | None) -> int:
    """Bytes of the operations completed by then: exact at the window's end."""
    done = _done(whole)
    return whole.bytes * _done(then) // done if done else 0


def _bins(direction: Direction | None) -> dict[int, int]:
    return direction.latency.bins if direction and direction.latency else {}


def _difference(now: Direction | None, then: Direction | None) -> dict[int, int]:
    before = _bins(then)
    return {middle: count - before.get(middle, 0) for middle, count in _bins(now).items()}


def whole_window(final: Figures, start_ns: int, window_ns: int) -> list[Sample]:
    """One sample per operation kind over the whole window."""
    return _interval(_Span(0, start_ns, start_ns + window_ns), None, final, final)
