"""Implementations of the same work side by side: each over the native one, or over the first.

The comparison divides targets at one point. Here points are divided that differ in nothing but in
whose code did the work, on each target for itself.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from storlab.analysis.compare import Cell, Comparison, Ratio, ratios_of
from storlab.analysis.points import WorkloadPoint, choose_axes, describe
from storlab.contracts.page import Implementations

NATIVE = "native"


@dataclass(frozen=True, slots=True)
class Entry:
    """One implementation on one target."""

    implementation: str
    cell: Cell
    ratios: Mapping[str, Ratio]  # to the reference on the same target; the reference has none


@dataclass(frozen=True, slots=True)
class SharedWork:
    """One work that several implementations did, in the order of the study."""

    workload: str
    common: str  # what it shares with the others of its workload: "4,000,000 rows"
    own: str  # what tells it from them: "8 workers"; empty where it is the only one
    points: Mapping[str, WorkloadPoint]  # by implementation
    told: Implementations  # how its family has them told

    @property
    def where(self) -> str:
        """``4,000,000 rows, 8 workers``."""
        return ", ".join(text for text in (self.common, self.own) if text)

    @property
    def reference(self) -> str:
        """The implementation that ratios divide by."""
        return NATIVE if NATIVE in self.points else next(iter(self.points))

    def entries(self, comparison: Comparison) -> Iterator[Entry]:
        """Every implementation on every target that it was planned for, with its ratios."""
        keys = list(self.told.ratios)
        base = comparison.row(self.points[self.reference]).cells
        for name, point in self.points.items():
            cells = comparison.row(point).cells
            for target in comparison.planned([point]):
                ratios = ratios_of(cells[target], base[target], keys)
                own = [key for key in keys if key in ratios and name != self.reference]
                yield Entry(name, cells[target], {key: ratios[key] for key in own})


def shared_works(comparison: Comparison) -> list[SharedWork]:
    """What more than one implementation did, of families whose engines are what is compared."""
    workloads: dict[str, list[WorkloadPoint]] = {}
    for section in comparison.sections:
        if section.page.implementations is not None:
            workloads.setdefault(section.workload, []).extend(section.points)
    return [work for name, points in workloads.items() for work in _shared(name, points)]


def _shared(workload: str, points: Sequence[WorkloadPoint]) -> Iterator[SharedWork]:
    page = points[0].page
    told = page.implementations
    if told is None:
        return
    by_params: dict[str, dict[str, WorkloadPoint]] = {}
    for point in points:
        by_params.setdefault(_without(point, told.parameter), {})[point.engine] = point
    works = [alike for alike in by_params.values() if len(alike) > 1]
    params = [next(iter(work.values())).params for work in works]
    names = [name for name in choose_axes(points).varying if name != told.parameter]
    swept = [n for n in names if any(values.get(n) != params[0].get(n) for values in params)]
    common = describe(page, params[0], [n for n in names if n not in swept]) if params else ""
    for values, work in zip(params, works, strict=True):
        yield SharedWork(workload, common, describe(page, values, swept), work, told)


def _without(point: WorkloadPoint, name: str) -> str:
    shared: dict[str, Any] = {k: v for k, v in point.params.items() if k != name}
    return json.dumps(shared, sort_keys=True, default=str)
