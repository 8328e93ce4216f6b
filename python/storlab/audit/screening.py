"""Selection of the points of a large campaign to which the rules for tables are applied.

These rules compare all numbers of a table with each other, which is too slow for thousands of
points. So each point is first checked alone. Points whose numbers contradict each other are
selected first, then the extremes of each target, then points spread evenly over the rest.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

from storlab.analysis.columns import STATISTICS
from storlab.analysis.compare import Cell, Comparison
from storlab.analysis.points import WorkloadPoint
from storlab.base.units import NS_PER_S

MOST_POINTS = 120  # maximum number of points passed to the rules for tables
OFF = 0.02  # relative difference between two ways to the same number that selects a point
QUEUE_OFF = 1.8  # factor for operations in flight that selects a point; the rule itself uses 2


@dataclass(frozen=True, slots=True)
class Selection:
    """Selected points, number of all points, and number of points with contradictory values."""

    points: list[WorkloadPoint]
    of: int
    suspicious: int

    @property
    def is_all(self) -> bool:
        """Whether all points of the campaign were selected."""
        return len(self.points) == self.of


def select(comparison: Comparison, most: int = MOST_POINTS) -> Selection:
    """Select at most ``most`` points of a campaign for the audit, in page order."""
    points = [point for section in comparison.sections for point in section.points]
    if len(points) <= most:
        return Selection(points, len(points), 0)
    odd = [place for place, point in enumerate(points) if is_odd(comparison, point)]
    chosen = dict.fromkeys(odd[:most])
    for place in (*_extremes(comparison, points), *spread(len(points), most)):
        if len(chosen) < most:
            chosen.setdefault(place)
    return Selection([points[place] for place in sorted(chosen)], len(points), len(odd))


def spread(count: int, wanted: int) -> list[int]:
    """Return ``wanted`` indices spread evenly from 0 to ``count`` - 1.

    Returns all indices if ``count`` is smaller; ``wanted`` must be at least 2.
    """
    if count <= wanted:
        return list(range(count))
    return list(dict.fromkeys(round(i * (count - 1) / (wanted - 1)) for i in range(wanted)))


def _extremes(comparison: Comparison, points: Sequence[WorkloadPoint]) -> Iterator[int]:
    """Yield the indices of the points with the extreme values of each target and metric."""
    extremes: dict[tuple[str, str], tuple[tuple[float, int], tuple[float, int]]] = {}
    for place, point in enumerate(points):
        for label, cell in comparison.row(point).cells.items():
            for key, interval in cell.values.items():
                here = (interval.estimate, place)
                low, high = extremes.get((label, key), (here, here))
                extremes[label, key] = (min(low, here), max(high, here))
    for low, high in extremes.values():
        yield low[1]
        yield high[1]


def is_odd(comparison: Comparison, point: WorkloadPoint) -> bool:
    """Return whether a point's numbers contradict each other in a quick check."""
    cells = comparison.row(point).cells.values()
    return any(_is_odd(point, cell) for cell in cells if cell.measured)


def _is_odd(point: WorkloadPoint, cell: Cell) -> bool:
    page = point.page
    if page.metrics.quantities:
        return False  # fixed work is not part of the table
    known = {key: interval.estimate for key, interval in cell.values.items()}
    rate, moved = known.get(f"{page.operations.rate.name}.all"), known.get("throughput_mb_s.all")
    size = point.params.get(page.parameters.facet or "")
    parts = [known[k] for op in page.operations.moved if (k := f"throughput_mb_s.{op}") in known]
    only_moved = not any(
        f"{page.operations.rate.name}.{op}" in known
        for op in page.operations.main
        if op not in page.operations.moved
    )
    if (
        only_moved
        and isinstance(size, int)
        and _differ((moved or 0) * 1e6, (rate or 0) * size, OFF)
    ):
        return True
    if (
        moved is not None
        and len(parts) == len(page.operations.moved) > 1
        and _differ(moved, sum(parts), OFF)
    ):
        return True
    return _is_disordered(known, page.operations.main) or _is_elsewhere(
        cell, known, page.operations.moved
    )


def _differ(first: float, other: float, share: float) -> bool:
    return abs(first - other) > share * max(abs(first), abs(other))


def _is_disordered(known: dict[str, float], operations: Sequence[str]) -> bool:
    """Return whether a higher percentile of latency has a lower value than a lower percentile."""
    names = [name for name in STATISTICS if name != "mean"]
    for operation in operations:
        latencies = [known.get(f"latency_{name}_ns.{operation}") for name in names]
        values = [value for value in latencies if value is not None]
        if any(low > high for low, high in pairwise(values)):
            return True
    return False


def _is_elsewhere(cell: Cell, known: dict[str, float], moved: Sequence[str]) -> bool:
    """Return whether rate x mean latency is far from the configured operations in flight."""
    flight = 0.0
    for run in cell.runs:
        window_s = (run.record.window_end_ns - run.record.window_start_ns) / NS_PER_S
        for operation, totals in run.record.totals.items():
            mean_ns = known.get(f"latency_mean_ns.{operation}")
            if operation in moved and mean_ns is not None and window_s > 0:
                flight += totals.operations / window_s * mean_ns / NS_PER_S / len(cell.runs)
    if not cell.configured or flight <= 0:
        return False
    ratio = flight / cell.configured
    return ratio > QUEUE_OFF or ratio < 1 / QUEUE_OFF
