"""Display names of runs while they are measured, such as "256 KiB 70/30, 8 jobs, run 2 of 3"."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Self

from storlab.analysis.points import (
    NBSP,
    Axes,
    WorkloadPoint,
    choose_axes,
    describe,
    sections_of,
    short_mix,
)
from storlab.model.point import Plan, PlannedRun, Point


class RunNames:
    """Names of the runs of a campaign by the parameters that distinguish its points.

    Points added later, as by a capacity search, are named like others of their workload.

    Args:
        points: Points of the campaign.
        repeats: Repeats of every point; 0 if not fixed in advance.
    """

    def __init__(self, points: Iterable[Point], repeats: int) -> None:
        self._repeats = repeats
        self._axes: dict[tuple[str, str, str], Axes] = {}
        self._prefixes: dict[tuple[str, str, str], str] = {}
        work = {point.key: point for point in map(WorkloadPoint.of, points)}
        for section in sections_of(list(work.values())):
            self._axes[section.family] = section.axes
            self._prefixes[section.family] = section.prefix

    @classmethod
    def of(cls, plan: Plan) -> Self:
        """Create the names of all runs of a plan."""
        return cls(plan.points.values(), max((run.repeat for run in plan.runs), default=0))

    def __call__(self, run: PlannedRun, point: Point) -> str:
        """Return the name of a run without its target."""
        count = f"run {run.repeat}" + (f" of {self._repeats}" if self._repeats else "")
        return f"{self.point(point)}, {count}"

    def point(self, point: Point) -> str:
        """Return the name of a run's point without its target."""
        work = WorkloadPoint.of(point)
        family = (work.kind, work.workload, work.engine)
        axes = self._axes.get(family) or choose_axes([work])
        words = _words(work, axes) or point.workload
        prefix = self._prefixes.get(family, "")
        return f"{prefix}: {words}" if prefix else words


def _words(work: WorkloadPoint, axes: Axes) -> str:
    page, params = work.page, work.params
    size, mix = (
        short_mix(page, describe(page, params, (name,))) if name in axes.varying else ""
        for name in (page.parameters.facet or "", page.parameters.mix or "")
    )
    if size and "/" in mix:  # "256 KiB 70/30", but "256 KiB, reads only"
        size, mix = f"{size} {mix}", ""
    rest = [
        name for name in axes.varying if name not in (page.parameters.facet, page.parameters.mix)
    ]
    words = ", ".join(filter(None, (size, mix, describe(page, params, rest))))
    return words.replace(NBSP, " ")
