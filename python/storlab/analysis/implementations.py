"""Comparison of several implementations (engines) of the same work on each target.

The compared points differ only in the implementation. Each value is divided by that of the native
implementation, or of the first one if native did not run.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from storlab.analysis.compare import Cell, Comparison, decisions_of
from storlab.analysis.points import WorkloadPoint, choose_axes, describe
from storlab.contracts.page import Implementations
from storlab.model.decision import Decision

NATIVE = "native"


@dataclass(frozen=True, slots=True)
class Entry:
    """Result of one implementation of a workload, such as native or fio, on one target."""

    implementation: str
    cell: Cell
    # by column key: ratio to the reference implementation; empty for the reference itself
    ratios: Mapping[str, Decision]


@dataclass(frozen=True, slots=True)
class SharedWork:
    """Work with equal parameters that several implementations (engines) did."""

    workload: str
    common: str  # parameters shared by the whole workload, such as "4,000,000 rows"
    own: str  # parameters that distinguish this work, such as "8 workers"; may be empty
    points: Mapping[str, WorkloadPoint]  # points by implementation
    presentation: Implementations  # how the workload family presents implementations

    @property
    def where(self) -> str:
        """Description of the work, such as ``4,000,000 rows, 8 workers``."""
        return ", ".join(text for text in (self.common, self.own) if text)

    @property
    def reference(self) -> str:
        """Implementation that ratios are divided by: the native one if present, else the first."""
        return NATIVE if NATIVE in self.points else next(iter(self.points))

    def entries(self, comparison: Comparison) -> Iterator[Entry]:
        """Yield each implementation on each target that it was planned for, with its ratios."""
        keys = list(self.presentation.ratios)
        base = comparison.row(self.points[self.reference]).cells
        for name, point in self.points.items():
            cells = comparison.row(point).cells
            for target in comparison.planned([point]):
                ratios = decisions_of(cells[target], base[target], keys)
                own = [k for k in keys if k in ratios and name != self.reference]
                known = {key: ratios[key] for key in own if ratios[key].interval is not None}
                yield Entry(name, cells[target], known)


def shared_works(comparison: Comparison) -> list[SharedWork]:
    """Return the work done by more than one implementation.

    Only workload families whose page compares implementations are considered.
    """
    workloads: dict[str, list[WorkloadPoint]] = {}
    for section in comparison.sections:
        if section.page.implementations is not None:
            workloads.setdefault(section.workload, []).extend(section.points)
    return [work for name, points in workloads.items() for work in _shared(name, points)]


def _shared(workload: str, points: Sequence[WorkloadPoint]) -> Iterator[SharedWork]:
    page = points[0].page
    presentation = page.implementations
    if presentation is None:
        return
    by_params: dict[str, dict[str, WorkloadPoint]] = {}
    for point in points:
        by_params.setdefault(_without(point, presentation.parameter), {})[point.engine] = point
    works = [alike for alike in by_params.values() if len(alike) > 1]
    params = [next(iter(work.values())).params for work in works]
    names = [name for name in choose_axes(points).varying if name != presentation.parameter]
    swept = [n for n in names if any(values.get(n) != params[0].get(n) for values in params)]
    common = describe(page, params[0], [n for n in names if n not in swept]) if params else ""
    for values, work in zip(params, works, strict=True):
        yield SharedWork(workload, common, describe(page, values, swept), work, presentation)


def _without(point: WorkloadPoint, name: str) -> str:
    shared: dict[str, Any] = {k: v for k, v in point.params.items() if k != name}
    return json.dumps(shared, sort_keys=True, default=str)
