"""One run over time, everything that is known of it on one axis: why did this dip?

Latency histograms and throughput of its intervals, what the devices behind the target counted,
power and temperature; and the dips, where throughput fell far below what the run mostly had. Dips
are found in the intervals as they were sampled; only then are those of a long run put together.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from statistics import median
from typing import Any

from storlab._native import Histogram
from storlab.analysis.dataset import RunData
from storlab.analysis.dips import LEAST_INTERVALS, find_dips
from storlab.analysis.flag_times import Span, flag_times_in
from storlab.analysis.power_trace import Moment, power_trace
from storlab.analysis.run_intervals import Interval, counted_beside, intervals_of
from storlab.base.units import MB, NS_PER_S
from storlab.contracts.registry import FAMILIES

MOST_COLUMNS = 60  # of the axis; more intervals are put together
MOST_DIPS = 8  # that are told, the deepest
LATENCY_BINS = 16


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


def timeline(run: RunData, least: int = LEAST_INTERVALS) -> Timeline | None:
    """The timeline of a finished run; None where its window has fewer intervals than ``least``.

    Raises ResultError where its samples or what lies beside them are damaged.
    """
    intervals = intervals_of(run)
    if len(intervals) < least or not any(interval.moved_mb for interval in intervals):
        return None
    record = run.record
    window_s = (record.window_end_ns - record.window_start_ns) / NS_PER_S
    boundary = record.power_boundary
    power = power_trace(run, boundary) if boundary is not None else []
    beside = counted_beside(run)
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
        flag_times_in(run, intervals, beside),
    )


def _dips(intervals: Sequence[Interval]) -> list[list[Interval]]:
    rates = [interval.mb_s for interval in intervals]
    counts = [interval.operations for interval in intervals]
    return [[intervals[at] for at in places] for places in find_dips(rates, counts)]


def _stretch(intervals: Sequence[Interval], dips: bool) -> Stretch:
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
