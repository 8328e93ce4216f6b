"""One run over time, everything that is known of it on one axis: why did this dip?

Latency histograms and throughput of its intervals, what the devices behind the target counted,
power and temperature; and the dips, where throughput fell far below what the run mostly had. Dips
are found in the intervals as they were sampled; only then are those of a long run put together.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from statistics import median
from typing import Any

from storlab._native import Histogram
from storlab.analysis.dataset import RunData
from storlab.analysis.dips import LEAST_INTERVALS, find_dips
from storlab.analysis.points import page_of
from storlab.analysis.power_trace import Moment, power_trace
from storlab.base.errors import ResultError
from storlab.base.units import MB, NS_PER_S
from storlab.contracts.registry import FAMILIES
from storlab.lab.power.metering import power_gaps
from storlab.model.run_course import COURSE_FILE
from storlab.workloads.common.metrics import CLIENT_BOUND_PERCENT

MOST_COLUMNS = 60  # of the axis; more intervals are put together
MOST_DIPS = 8  # that are told, the deepest
LATENCY_BINS = 16
COLUMNS = [
    *("interval", "start_ns", "end_ns", "operation"),
    *("operations", "bytes", "errors", "latency_hist", "worker_cpu_ns"),
]
Span = tuple[float, float]


@dataclass(frozen=True, slots=True)
class Stretch:
    """Neighbouring intervals, in s from the window's start: a column of the axis, or a dip."""

    start_s: float
    end_s: float
    mb_s: float
    least_mb_s: float  # of its intervals
    errors: int
    latency: Histogram
    dips: bool  # a dip lies in it

    @property
    def p99_ns(self) -> int | None:
        """None where nothing completed."""
        return self.latency.percentile(99.0) if self.latency.count else None

    @property
    def drawn_mb_s(self) -> float:
        """That of the whole stretch, but of one with a dip the least, which it would hide."""
        return self.least_mb_s if self.dips else self.mb_s


@dataclass(frozen=True, slots=True)
class Shade:
    """A cell of the heat map: the share of its column's operations within these latencies."""

    start_s: float
    end_s: float
    low_ns: float
    high_ns: float
    share: float


@dataclass(frozen=True, slots=True)
class Counted:
    """What the devices behind the target moved over a stretch, in MB/s."""

    start_s: float
    end_s: float
    read_mb_s: float
    written_mb_s: float


@dataclass(frozen=True, slots=True)
class Timeline:
    """A run on one time axis. What is not known of it is empty."""

    run: RunData
    window_s: float
    usual_mb_s: float  # the median over its intervals
    stretches: list[Stretch]
    dips: list[Stretch]  # the deepest, in order of time; none of fixed work
    device: list[Counted]
    power: list[Moment]
    celsius: list[tuple[float, str, float]]  # time in s, drive, degrees
    flag_times: dict[str, list[Span]]  # by kind when it held; the others are of the whole run

    @property
    def is_fixed_work(self) -> bool:
        """Its stages come and go by design: nothing of it is called a dip."""
        return FAMILIES[self.run.record.kind].fixed_work

    @property
    def deepest(self) -> Stretch | None:
        """The dip with the interval that lacks most."""
        return min(self.dips, key=lambda dip: dip.least_mb_s, default=None)

    @property
    def depth(self) -> float:
        """How much of the median that interval lacks, 0 to 1; 0 where nothing dips."""
        return 1 - self.deepest.least_mb_s / self.usual_mb_s if self.deepest else 0.0

    def heat(self) -> list[Shade]:
        """The cells that are not empty, in bins of equal ratio."""
        known = [stretch.latency for stretch in self.stretches if stretch.latency.count]
        if not known:
            return []
        low = max(1, min(latency.min_ns for latency in known))
        high = max(2 * low, *(latency.max_ns for latency in known))
        step = math.log(high / low) / LATENCY_BINS
        shades = []
        for stretch in self.stretches:
            bins = [0] * LATENCY_BINS
            for least, most, count in stretch.latency.buckets():
                place = int(math.log(max(low, math.sqrt(max(1, least) * most)) / low) / step)
                bins[min(place, LATENCY_BINS - 1)] += count
            total = sum(bins)
            shades += [
                Shade(
                    stretch.start_s,
                    stretch.end_s,
                    low * math.exp(step * place),
                    low * math.exp(step * (place + 1)),
                    count / total,
                )
                for place, count in enumerate(bins)
                if count
            ]
        return shades


@dataclass(frozen=True, slots=True)
class _Interval:
    rows: list[dict[str, Any]]  # one for each operation
    start_s: float
    end_s: float
    moved_mb: float
    operations: int  # of those that moved it
    cores: float  # that the workers used

    @property
    def mb_s(self) -> float:
        return self.moved_mb / max(self.end_s - self.start_s, 1 / NS_PER_S)


def timeline(run: RunData, least: int = LEAST_INTERVALS) -> Timeline | None:
    """The timeline of a finished run; None where its window has fewer intervals than ``least``.

    Raises ResultError where its samples or what lies beside them are damaged.
    """
    intervals = _intervals(run)
    if len(intervals) < least or not any(interval.moved_mb for interval in intervals):
        return None
    record = run.record
    window_s = (record.window_end_ns - record.window_start_ns) / NS_PER_S
    boundary = record.power_boundary
    power = power_trace(run, boundary) if boundary is not None else []
    beside = _beside(run)
    usual_mb_s = median(interval.mb_s for interval in intervals)
    dips = [] if FAMILIES[record.kind].fixed_work else _dips(intervals)
    low = {id(interval) for dip in dips for interval in dip}
    size = -(-len(intervals) // MOST_COLUMNS)
    columns = [intervals[at : at + size] for at in range(0, len(intervals), size)]
    deepest = sorted(dips, key=lambda dip: min(interval.mb_s for interval in dip))[:MOST_DIPS]
    return Timeline(
        run,
        window_s,
        usual_mb_s,
        [_stretch(column, any(id(interval) in low for interval in column)) for column in columns],
        [_stretch(dip, True) for dip in sorted(deepest, key=lambda dip: dip[0].start_s)],
        list(_counted(beside, record.window_start_ns)),
        [moment for moment in power if 0 <= moment.time_s <= window_s],
        list(_celsius(beside, record.window_start_ns, window_s)),
        _flag_times(run, intervals),
    )


def _dips(intervals: Sequence[_Interval]) -> list[list[_Interval]]:
    rates, counts = (
        [interval.mb_s for interval in intervals],
        [interval.operations for interval in intervals],
    )
    return [[intervals[at] for at in places] for places in find_dips(rates, counts)]


def _flag_times(run: RunData, intervals: Sequence[_Interval]) -> dict[str, list[Span]]:
    """By kind of flag when it held, in s of the window, where that is known of single moments."""
    record, times = run.record, {}
    kinds = {flag.kind for flag in record.flags}
    if "client-bound" in kinds and record.cpu is not None:
        limit = record.cpu.cores * CLIENT_BOUND_PERCENT / 100
        times["client-bound"] = [
            (interval.start_s, interval.end_s) for interval in intervals if interval.cores > limit
        ]
    if "power-not-measured" in kinds:
        start, end = record.window_start_ns, record.window_end_ns
        gaps = power_gaps(record, run.store.power(run.directory_name))
        times["power-not-measured"] = [
            ((max(first, start) - start) / NS_PER_S, (min(last, end) - start) / NS_PER_S)
            for first, last in gaps
            if first < end and last > start
        ]
    return {kind: _joined(spans) for kind, spans in times.items() if spans}


def _joined(spans: list[Span]) -> list[Span]:
    """In order of time, those that touch as one."""
    joined: list[Span] = []
    for first, last in sorted(spans):
        if joined and first <= joined[-1][1] + 1e-3:
            joined[-1] = (joined[-1][0], max(last, joined[-1][1]))
        else:
            joined.append((first, last))
    return joined


def _intervals(run: RunData) -> list[_Interval]:
    page, window_ns = page_of(run.record.kind), run.record.window_start_ns
    moved = page.series or page.moved
    by_number: dict[int, list[dict[str, Any]]] = {}
    for row in run.store.samples(run.directory_name).select(COLUMNS).to_pylist():
        if row["operation"] in page.operations:
            by_number.setdefault(row["interval"], []).append(row)
    intervals = [_interval(by_number[number], window_ns, moved) for number in sorted(by_number)]
    usual_s = (
        median(interval.end_s - interval.start_s for interval in intervals) if intervals else 0.0
    )
    # The last one may be cut short by the window's end, and tells little.
    return [interval for interval in intervals if interval.end_s - interval.start_s > usual_s / 2]


def _interval(rows: list[dict[str, Any]], window_ns: int, moved: Sequence[str]) -> _Interval:
    own = [row for row in rows if row["operation"] in moved]
    return _Interval(
        rows,
        (min(row["start_ns"] for row in rows) - window_ns) / NS_PER_S,
        (max(row["end_ns"] for row in rows) - window_ns) / NS_PER_S,
        sum(row["bytes"] for row in own) / MB,
        sum(row["operations"] for row in own),
        sum(row["worker_cpu_ns"] for row in rows) / max(1, rows[0]["end_ns"] - rows[0]["start_ns"]),
    )


def _stretch(intervals: Sequence[_Interval], dips: bool) -> Stretch:
    latency = Histogram()
    rows = [row for interval in intervals for row in interval.rows]
    for row in rows:
        latency.add(Histogram.from_v2(row["latency_hist"]))
    start_s, end_s = intervals[0].start_s, intervals[-1].end_s
    return Stretch(
        start_s,
        end_s,
        sum(interval.moved_mb for interval in intervals) / max(end_s - start_s, 1 / NS_PER_S),
        min(interval.mb_s for interval in intervals),
        sum(row["errors"] or 0 for row in rows),
        latency,
        dips,
    )


def _beside(run: RunData) -> dict[str, Any]:
    if COURSE_FILE not in run.record.raw:
        return {}
    content = run.store.raw(run.directory_name, COURSE_FILE)
    try:
        document: dict[str, Any] = json.loads(content)
    except ValueError as error:
        where = f"{run.directory_name}/raw/{COURSE_FILE}"
        raise ResultError(where, f"is not JSON: {error}", "restore it from a copy") from error
    return document


def _counted(beside: dict[str, Any], window_ns: int) -> Iterator[Counted]:
    rows = zip(
        *(beside.get(name, []) for name in ("time_ns", "read_bytes", "written_bytes")), strict=True
    )
    for (start, read, written), (end, more_read, more_written) in pairwise(rows):
        length_s = (end - start) / NS_PER_S
        yield Counted(
            (start - window_ns) / NS_PER_S,
            (end - window_ns) / NS_PER_S,
            (more_read - read) / MB / length_s,
            (more_written - written) / MB / length_s,
        )


def _celsius(
    beside: dict[str, Any], window_ns: int, window_s: float
) -> Iterator[tuple[float, str, float]]:
    for drive, readings in beside.get("celsius", {}).items():
        for time_ns, value in readings:
            time_s = (time_ns - window_ns) / NS_PER_S
            if 0 <= time_s <= window_s:
                yield time_s, drive, value
