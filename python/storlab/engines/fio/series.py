"""Time series of a run, computed from fio's status documents.

Counters and histograms of a document count from the end of the ramp. The difference between two
consecutive documents gives the values of the interval between them.
"""

from __future__ import annotations

import gzip
import json
from collections.abc import Sequence
from dataclasses import dataclass, replace

from storlab.base.units import NS_PER_MS
from storlab.engines.fio.result import Direction, Figures, histogram, merge, read_document
from storlab.model.result import Sample

_START_TOLERANCE_MS = 300


@dataclass(frozen=True, slots=True)
class Status:
    """Parsed status document of fio: counters since the end of the ramp."""

    timestamp_ms: int  # UNIX time by fio's clock
    figures: Figures


@dataclass(frozen=True, slots=True)
class PackedStatus:
    """Status document of fio as gzipped text.

    Its parsed form would need some twenty times the memory.
    """

    timestamp_ms: int
    packed: bytes

    @property
    def figures(self) -> Figures:
        """Results in this document; it is parsed again at every access."""
        return merge(self.parts)

    @property
    def parts(self) -> list[Figures]:
        """Results of each job or reporting group of this document, parsed at every access."""
        return read_document(json.loads(gzip.decompress(self.packed)))


Statuses = Sequence[Status | PackedStatus]


def window_start_ms(statuses: Statuses) -> int:
    """Return the UNIX time at which the ramp ended and the measure window began, in ms.

    The time stamps of documents are up to 250 ms late but never early. fio's ``job_start`` is
    exact, but exists only in fio 3.34 and later and may be the start of the job instead. It is used
    if it is consistent with the time stamps.
    """
    latest, start = None, None
    for status in statuses:
        figures = status.figures
        if figures.measuring and figures.runtime_ms > 0:
            begun = status.timestamp_ms - figures.runtime_ms
            latest = begun if latest is None else min(latest, begun)
            start = figures.job_start_ms
    if latest is None:
        return statuses[-1].timestamp_ms
    if start is not None and latest - _START_TOLERANCE_MS <= start <= latest:
        return start
    return latest


def samples(
    statuses: Statuses, window_start_ns: int, ns_of_unix_ms: int, interval_ns: int
) -> list[Sample]:
    """Return consecutive samples that cover the measure window, on the run's clock.

    Bytes are completed operations times the mean size in the window, because fio's byte counter is
    late in status documents.

    Args:
        statuses: Status documents in order; the last one is the final result.
        window_start_ns: The start of the window on the run's clock.
        ns_of_unix_ms: Run's clock minus fio's UNIX time, in ns.
        interval_ns: The nominal length of a sample; a document that follows another one in less
            than half of it is skipped.
    """
    final = after = statuses[-1].figures
    end_ns = window_start_ns + final.runtime_ms * NS_PER_MS
    intervals: list[list[Sample]] = []  # last interval first
    for status in reversed(statuses[:-1]):
        start_ns = status.timestamp_ms * NS_PER_MS + ns_of_unix_ms
        figures = status.figures
        if (
            figures.measuring
            and end_ns - start_ns >= interval_ns // 2
            and start_ns - window_start_ns >= interval_ns // 2
            and _grows(figures, after)
        ):
            intervals.append(_interval(start_ns, end_ns, figures, after, final))
            end_ns, after = start_ns, figures
    intervals.append(_interval(window_start_ns, end_ns, None, after, final))
    return [
        replace(sample, interval=number)
        for number, interval in enumerate(reversed(intervals))
        for sample in interval
    ]


def _grows(early: Figures, late: Figures) -> bool:
    """Return whether no counter is smaller in the later of two documents.

    If a counter is smaller, the early document is from before the end of the ramp.
    """
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


def _interval(
    start_ns: int, end_ns: int, before: Figures | None, after: Figures, final: Figures
) -> list[Sample]:
    cpu_ns = _cpu_ns(after) - (_cpu_ns(before) if before else 0)
    result: list[Sample] = []
    for operation, whole in final.directions.items():
        now = after.directions.get(operation)
        then = before.directions.get(operation) if before else None
        done = _done(now) - _done(then)
        result.append(
            Sample(
                interval=0,
                start_ns=start_ns,
                end_ns=end_ns,
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
    """Return the completed operations as the sum of the histogram's bins.

    While fio runs, its counters of operations may be off by one.
    """
    return sum(_bins(direction).values()) or (direction.operations if direction else 0)


def _bytes_at(whole: Direction, then: Direction | None) -> int:
    """Return the bytes of the operations in ``then``, by the mean size of those in ``whole``.

    The estimate is exact at the end of the window.
    """
    done = _done(whole)
    return whole.bytes * _done(then) // done if done else 0


def _bins(direction: Direction | None) -> dict[int, int]:
    return direction.latency.bins if direction and direction.latency else {}


def _difference(now: Direction | None, then: Direction | None) -> dict[int, int]:
    before = _bins(then)
    return {middle: count - before.get(middle, 0) for middle, count in _bins(now).items()}


def whole_window(final: Figures, start_ns: int, window_ns: int) -> list[Sample]:
    """Return one sample per kind of operation, which spans the whole measure window."""
    return _interval(start_ns, start_ns + window_ns, None, final, final)
