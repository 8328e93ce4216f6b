"""Timeline of one run: throughput, latency, device counters, power and temperature on one axis.

Dips (intervals whose throughput is far below the run's median) are detected in the sampled
intervals; only then are the intervals of a long run merged into columns.
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

MOST_COLUMNS = 60  # columns of the axis; more intervals are merged
MOST_READINGS = 240  # of the temperature of a drive; of more, the highest in each stretch is drawn
MOST_DIPS = 8  # dips that are reported, the deepest first
LATENCY_BINS = 16


@dataclass(frozen=True, slots=True)
class Stretch:
    """Consecutive intervals, drawn as one column or found to be a dip; times from window start."""

    start_s: float
    end_s: float
    mb_s: float
    least_mb_s: float  # smallest throughput of its intervals
    errors: int
    latency: Histogram
    dips: bool  # whether it contains a dip

    @property
    def p99_ns(self) -> int | None:
        """99th percentile of the latency; None if no operation completed."""
        return self.latency.percentile(99.0) if self.latency.count else None

    @property
    def drawn_mb_s(self) -> float:
        """Throughput to draw: the mean, or the minimum if the mean would hide a dip."""
        return self.least_mb_s if self.dips else self.mb_s


@dataclass(frozen=True, slots=True)
class Shade:
    """Cell of the latency heat map; ``share`` is its fraction of the column's operations."""

    start_s: float
    end_s: float
    low_ns: float
    high_ns: float
    share: float


@dataclass(frozen=True, slots=True)
class Counted:
    """Throughput over a stretch of time in MB/s, from counters of the devices behind a target."""

    start_s: float
    end_s: float
    read_mb_s: float
    written_mb_s: float


@dataclass(frozen=True, slots=True)
class Timeline:
    """Course of one run on a time axis; data that was not recorded is empty."""

    run: RunData
    window_s: float
    usual_mb_s: float  # median throughput over the intervals
    stretches: list[Stretch]
    dips: list[Stretch]  # deepest dips in order of time; empty for fixed work
    device: list[Counted]
    power: list[Moment]
    celsius: list[tuple[float, str, float]]  # time in seconds, drive, degrees
    flag_times: dict[str, list[Span]]  # times by kind of flag; other flags apply to the whole run

    @property
    def is_fixed_work(self) -> bool:
        """Whether the run did a fixed amount of work; pauses between its stages are not dips."""
        return FAMILIES[self.run.record.kind].fixed_work

    @property
    def deepest(self) -> Stretch | None:
        """Dip that contains the interval with the lowest throughput; None without dips."""
        return min(self.dips, key=lambda dip: dip.least_mb_s, default=None)

    @property
    def depth(self) -> float:
        """Share of the median throughput missing in the deepest dip, 0 to 1; 0 without dips."""
        return 1 - self.deepest.least_mb_s / self.usual_mb_s if self.deepest else 0.0

    def heat(self) -> list[Shade]:
        """Return the non-empty cells of the latency heat map, in logarithmic latency bins."""
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
    """Build the timeline of a finished run; None if its window has fewer than ``least`` intervals.

    Raises:
        ResultError: The samples or the recorded device counters are damaged.
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
        size = -(-len(readings) // MOST_READINGS)
        for at in range(0, len(readings), size or 1):
            time_ns, value = max(readings[at : at + size], key=lambda reading: reading[1])
            time_s = (time_ns - window_ns) / NS_PER_S
            if 0 <= time_s <= window_s:
                yield time_s, drive, value
