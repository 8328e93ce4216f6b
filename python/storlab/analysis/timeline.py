"""One run over time, everything that is known of it on one axis: why did this dip?

Latency histograms and throughput of its intervals, what the devices behind the target counted,
power and temperature; and the dips, where throughput fell far below what the run mostly had.
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
from storlab.analysis.points import page_of
from storlab.analysis.power_trace import Moment, power_trace
from storlab.base.errors import ResultError
from storlab.base.units import MB, NS_PER_S
from storlab.model.run_course import COURSE_FILE

DIP = 0.75  # of the median; an interval below that is one
LEAST_INTERVALS = 6
MOST_COLUMNS = 60  # of the axis; more intervals are put together
LATENCY_BINS = 16


@dataclass(frozen=True, slots=True)
class Stretch:
    """One column of the axis, in s from the window's start."""

    start_s: float
    end_s: float
    mb_s: float
    errors: int
    latency: Histogram

    @property
    def p99_ns(self) -> int | None:
        """None where nothing completed."""
        return self.latency.percentile(99.0) if self.latency.count else None


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
    stretches: list[Stretch]
    device: list[Counted]
    power: list[Moment]
    celsius: list[tuple[float, str, float]]  # time in s, drive, degrees

    @property
    def usual_mb_s(self) -> float:
        """The median over its columns."""
        return median(each.mb_s for each in self.stretches)

    @property
    def dips(self) -> list[Stretch]:
        """Columns far below the median."""
        return [each for each in self.stretches if each.mb_s < DIP * self.usual_mb_s]

    @property
    def depth(self) -> float:
        """How much of the median the deepest dip lacks, 0 to 1."""
        usual = self.usual_mb_s
        return 1 - min(each.mb_s for each in self.stretches) / usual if usual > 0 else 0.0

    def heat(self) -> list[Shade]:
        """The cells that are not empty, in bins of equal ratio."""
        known = [each.latency for each in self.stretches if each.latency.count]
        if not known:
            return []
        low = max(1, min(latency.min_ns for latency in known))
        high = max(2 * low, *(latency.max_ns for latency in known))
        step = math.log(high / low) / LATENCY_BINS
        shades = []
        for each in self.stretches:
            bins = [0] * LATENCY_BINS
            for least, most, count in each.latency.buckets():
                place = int(math.log(max(low, math.sqrt(max(1, least) * most)) / low) / step)
                bins[min(place, LATENCY_BINS - 1)] += count
            total = sum(bins)
            shades += [
                Shade(
                    each.start_s,
                    each.end_s,
                    low * math.exp(step * place),
                    low * math.exp(step * (place + 1)),
                    count / total,
                )
                for place, count in enumerate(bins)
                if count
            ]
        return shades


def timeline(run: RunData) -> Timeline | None:
    """The timeline of a finished run; None where its window has too few intervals to tell.

    Raises ResultError where its samples or what lies beside them are damaged.
    """
    stretches = _stretches(run)
    if len(stretches) < LEAST_INTERVALS or not any(each.mb_s for each in stretches):
        return None
    record = run.record
    window_s = (record.window_end_ns - record.window_start_ns) / NS_PER_S
    boundary = record.power_boundary
    power = power_trace(run, boundary) if boundary is not None else []
    beside = _beside(run)
    return Timeline(
        run,
        window_s,
        stretches,
        list(_counted(beside, record.window_start_ns)),
        [moment for moment in power if 0 <= moment.time_s <= window_s],
        list(_celsius(beside, record.window_start_ns, window_s)),
    )


def _stretches(run: RunData) -> list[Stretch]:
    page, start_ns = page_of(run.record.kind), run.record.window_start_ns
    moved = page.series or page.moved
    by_interval: dict[int, list[dict[str, Any]]] = {}
    columns = ["interval", "start_ns", "end_ns", "operation", "bytes", "errors", "latency_hist"]
    for row in run.store.samples(run.directory_name).select(columns).to_pylist():
        if row["operation"] in page.operations:
            by_interval.setdefault(row["interval"], []).append(row)
    intervals = [by_interval[number] for number in sorted(by_interval)]
    size = max(1, -(-len(intervals) // MOST_COLUMNS))
    groups = [intervals[i : i + size] for i in range(0, len(intervals), size)]
    found = [_stretch([r for rows in group for r in rows], start_ns, moved) for group in groups]
    usual_s = median(e.end_s - e.start_s for e in found) if found else 0.0
    # The last one may be cut short by the window's end, and tells little.
    return [each for each in found if each.end_s - each.start_s > usual_s / 2]


def _stretch(rows: Sequence[dict[str, Any]], window_ns: int, moved: Sequence[str]) -> Stretch:
    start_ns = min(row["start_ns"] for row in rows)
    end_ns = max(row["end_ns"] for row in rows)
    latency = Histogram()
    for row in rows:
        latency.add(Histogram.from_v2(row["latency_hist"]))
    transferred = sum(row["bytes"] for row in rows if row["operation"] in moved)
    length_s = max(1, end_ns - start_ns) / NS_PER_S
    return Stretch(
        (start_ns - window_ns) / NS_PER_S,
        (end_ns - window_ns) / NS_PER_S,
        transferred / MB / length_s,
        sum(row["errors"] or 0 for row in rows),
        latency,
    )


def _beside(run: RunData) -> dict[str, Any]:
    if COURSE_FILE not in run.record.raw:
        return {}
    content = run.store.raw(run.directory_name, COURSE_FILE)
    try:
        found: dict[str, Any] = json.loads(content)
    except ValueError as error:
        where = f"{run.directory_name}/raw/{COURSE_FILE}"
        raise ResultError(where, f"is not JSON: {error}", "restore it from a copy") from error
    return found


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
