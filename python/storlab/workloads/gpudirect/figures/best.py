"""Find the best point of each target in a sweep."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from storlab.analysis.compare import Cell, Comparison
from storlab.analysis.points import Section, WorkloadPoint
from storlab.model.decision import Interval

THROUGHPUT = "throughput_mb_s.all"
EFFICIENCY = "efficiency_mb_s_w.all"


@dataclass(frozen=True, slots=True)
class Best:
    """Best point of one target in a sweep, by one metric."""

    target: str
    point: WorkloadPoint
    cell: Cell
    value: Interval
    at: str  # value of the swept parameter as text, such as "256 workers"


def best_points(
    comparison: Comparison, section: Section, facet: Any, key: str, *, most: bool = True
) -> list[Best]:
    """Return the best point of each target in a sweep, in the order of targets in the study.

    If means are equal, the one with the fewest workers is the best. Targets without a value are
    left out.

    Args:
        comparison: Comparison with the values.
        section: Section of one swept workload.
        facet: Block size (or other facet) of the points.
        key: Column key of the metric.
        most: Whether larger is better.
    """
    best: dict[str, Best] = {}
    points = section.of_facet(facet)
    for target in comparison.planned(points):
        for point in points:
            cell = comparison.row(point).cells[target]
            value = cell.values.get(key)
            if value is None:
                continue
            known = best.get(target)
            sign = 1 if most else -1
            if known is None or sign * value.estimate > sign * known.value.estimate:
                best[target] = Best(target, point, cell, value, section.at(point))
    return list(best.values())
