"""Latency of a target against offered load in open loop, and the knee of that curve."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median
from typing import Any

from storlab.analysis.columns import PERCENTS, STATISTICS, TIMES, Column
from storlab.analysis.compare import Cell, Comparison, value_of
from storlab.analysis.offered_load import offered_rate
from storlab.analysis.points import Section, WorkloadPoint
from storlab.model.decision import Interval, outcome_of

OVERLOADED = "open-loop-behind"
"""Kind of the flag of runs that completed fewer operations than they offered."""
KNEE_FACTOR = 2.0
"""Multiple of the latency at low load that defines the knee."""
LOW_LOADS = 3
"""Number of lowest loads whose median latency is the latency at low load."""
FEWEST_LOADS = 5
"""Smallest number of loads of a curve with a knee."""


@dataclass(frozen=True, slots=True)
class LoadPoint:
    """Finished open-loop runs of one target at one offered load."""

    point: WorkloadPoint
    cell: Cell
    rate_s: float  # offered operations per second, of all clients together

    @property
    def level(self) -> float | None:
        """Load level in percent of the target's maximum; None if the study sets the rate."""
        level: float | None = self.point.params.get(self.point.page.load.level)
        return level

    @property
    def overloaded(self) -> bool:
        """Whether any run completed fewer operations than it offered."""
        return any(flag.kind == OVERLOADED for flag in self.cell.flags)

    @property
    def achieved(self) -> Interval | None:
        """Operations per second that were completed."""
        return self.cell.values.get(self.point.page.operations.rate.key)

    def latency(self, statistic: str, operation: str, fewest: int = 0) -> Interval | None:
        """Return a percentile of the latency from the intended start, over all repeats.

        Args:
            statistic: Name of the percentile, such as ``p99``.
            operation: Operation whose latency is returned.
            fewest: Operations that must lie beyond the percentile; with fewer, the result is None.
        """
        time = "intended_latency"
        label = f"{operation} {TIMES[time]}, {STATISTICS[statistic]}"
        name, percent = f"{time}_{statistic}_ns", PERCENTS[statistic]
        column = Column(name, operation, label, "ns", "less", percent)
        count = self.cell.count(column)
        if count is not None and count * (1 - percent / 100) < fewest:
            return None
        return value_of(self.cell, column)


@dataclass(frozen=True, slots=True)
class Knee:
    """Knee of a curve: the highest load that is reached with a 99th percentile within a limit.

    The limit is ``KNEE_FACTOR`` times the latency at low load. docs/method says why.
    """

    limit_ns: float
    last: LoadPoint | None  # highest load within the limit; None if all exceed it
    beyond: LoadPoint | None  # next load, which exceeds it; None if no load does
    is_clear: bool  # whether the intervals of both loads exclude the limit

    def as_dict(self) -> dict[str, Any]:
        """Return the loads on both sides of the knee, in operations per second, for JSON."""
        return {
            "limit_ns": self.limit_ns,
            "last_s": None if self.last is None else self.last.rate_s,
            "beyond_s": None if self.beyond is None else self.beyond.rate_s,
            "is_clear": self.is_clear,
        }


def is_load_curve(section: Section) -> bool:
    """Return whether the points of a section differ in their offered load."""
    load = section.page.load
    return section.axes.x in (load.level, load.open_loop)


def load_curve(
    comparison: Comparison, section: Section, facet: Any, target: str
) -> list[LoadPoint]:
    """Return the open-loop points of a target at one block size (or other facet), by load."""
    curve = []
    for point in section.of_facet(facet):
        cell = comparison.row(point).cells[target]
        rates = [rate for run in cell.runs if (rate := offered_rate(run.record)) is not None]
        if rates:
            curve.append(LoadPoint(point, cell, rates[0]))
    return sorted(curve, key=lambda load: load.rate_s)


def measured_curve(
    comparison: Comparison, section: Section, facet: Any, target: str, operation: str
) -> list[LoadPoint]:
    """Return the points of :func:`load_curve` at which the latency of an operation is known."""
    curve = load_curve(comparison, section, facet, target)
    return [load for load in curve if load.latency("p99", operation) is not None]


def knee_of(curve: Sequence[LoadPoint], operation: str) -> Knee | None:
    """Return the knee of a curve; None if it has too few loads.

    Args:
        curve: Points of one target, from the lowest load.
        operation: Operation whose latency from the intended start is judged.
    """
    low = [load.latency("p99", operation) for load in curve[:LOW_LOADS] if not load.overloaded]
    values = [value.estimate for value in low if value is not None]
    if len(curve) < FEWEST_LOADS or not values:
        return None
    limit_ns = KNEE_FACTOR * median(values)
    kept = [n for n, load in enumerate(curve, 1) if _keeps(load, limit_ns, operation)]
    number = max(kept, default=0)
    last = curve[number - 1] if number else None
    beyond = curve[number] if number < len(curve) else None
    is_below = last is None or _outcome(last, limit_ns, operation) == "better"
    is_above = (
        beyond is None or beyond.overloaded or _outcome(beyond, limit_ns, operation) == "worse"
    )
    return Knee(limit_ns, last, beyond, is_below and is_above)


def curve_documents(comparison: Comparison) -> list[dict[str, Any]]:
    """Return each curve with its knee as plain values for JSON.

    There is one for each section and facet that varies the load, target, and operation that
    transfers data.
    """
    return [
        {
            "target": target,
            "workload": section.workload,
            "where": section.own,
            "facet": facet,
            "operation": operation,
            "points": [_point_document(load, operation) for load in curve],
            "knee": None if (knee := knee_of(curve, operation)) is None else knee.as_dict(),
        }
        for section in comparison.sections
        if is_load_curve(section)
        for facet in section.facets()
        for target in comparison.targets
        for operation in section.page.operations.moved
        if (curve := measured_curve(comparison, section, facet, target, operation))
    ]


def _point_document(load: LoadPoint, operation: str) -> dict[str, Any]:
    intervals = {"achieved_s": load.achieved} | {
        f"intended_latency_{statistic}_ns": load.latency(statistic, operation)
        for statistic in ("p50", "p99", "p999")
    }
    return {
        "point_id": load.cell.point_id,
        "load_percent": load.level,
        "offered_s": load.rate_s,
        "overloaded": load.overloaded,
        **{name: None if v is None else v.as_dict() for name, v in intervals.items()},
    }


def _keeps(load: LoadPoint, limit_ns: float, operation: str) -> bool:
    value = load.latency("p99", operation)
    return not load.overloaded and value is not None and value.estimate <= limit_ns


def _outcome(load: LoadPoint, limit_ns: float, operation: str) -> str:
    return outcome_of(load.latency("p99", operation), limit_ns, "less")
