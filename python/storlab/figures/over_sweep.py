"""Line figure of a family's quantity against the swept axis of its study."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import altair as alt

from storlab.analysis.columns import Column
from storlab.analysis.compare import Comparison
from storlab.analysis.density import scaled
from storlab.analysis.points import Section, WorkloadPoint
from storlab.contracts.figure import OverSweep
from storlab.contracts.hook import load
from storlab.figures.axis_extent import cut_words, in_sight
from storlab.figures.common import (
    axis_title,
    digits3,
    figure_name,
    interval_text,
    last_point,
    place_of,
    point_ids,
    x_text,
)
from storlab.figures.figure import Figure
from storlab.figures.lines import Axes, Rule, line_chart, line_data, ring_layer
from storlab.figures.ratio_text import ratio_words
from storlab.figures.theme import configured, log_bounds


@dataclass(frozen=True, slots=True)
class Look:
    """Labels, bounds and extra layers of a line figure over the swept axis."""

    kind: str  # figure kind
    name: str  # part of the file name
    words: str  # text for the description: "throughput in MB/s"
    y_title: str
    unit: str
    bounds: tuple[float, float]
    value: str = ""  # tooltip text; by default the unit
    head: str = ""  # text in table heads; by default the unit
    rules: list[Rule] = field(default_factory=list)
    log: bool = False
    below: Sequence[alt.Chart] = ()
    above: Sequence[alt.Chart] = ()
    # Data sets of the extra layers.
    data: Mapping[str, list[dict[str, Any]]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Lines:
    """Values of a quantity at every position of the axis, from which lines are drawn."""

    comparison: Comparison
    section: Section
    facet: Any
    column: Column
    points: list[WorkloadPoint]
    order: list[str]
    means: list[dict[str, Any]]
    dots: list[dict[str, Any]]
    factor: float = 1.0  # from the column's unit to the drawn unit

    @classmethod
    def of(
        cls,
        comparison: Comparison,
        section: Section,
        facet: Any,
        column: Column,
        factor: float = 1.0,
    ) -> Lines:
        """Collect the values of one section and facet of the comparison."""
        points = section.of_facet(facet)
        rows = [comparison.row(point) for point in points]
        order = [x_text(section, point) for point in points]
        means, dots = line_data(section, rows, column, factor)
        return cls(comparison, section, facet, column, points, order, means, dots, factor)

    @property
    def values(self) -> list[float]:
        """Values that must fit below the end of the vertical axis."""
        return in_sight(
            [*(m["mean"] for m in self.means), *(d["value"] for d in self.dots)],
            [m["high"] for m in self.means],
        )

    def figure(self, look: Look, text: str) -> Figure:
        """Return the figure with a line per target; ``text`` follows the place in its title."""
        section, place = self.section, place_of(self.section, self.facet)
        targets = self.comparison.planned(section.points)
        axes = Axes(
            order=self.order,
            x_title=axis_title(section),
            y_title=look.y_title,
            tooltip=f"{look.value or look.unit}, mean [95 %]",
            x_name=section.axes.x,
            bounds=look.bounds,
            rules=look.rules,
            log=look.log,
        )
        chart = line_chart(self.comparison, targets, axes, self.means, look.below, look.above)
        title = f"{place}: {text}"
        return Figure(
            name=figure_name(look.name, section, self.facet),
            kind=look.kind,
            title=title,
            alt=f"Line chart of {look.words} against {axis_title(section)}. {title}",
            spec=configured(chart, {"means": self.means, "runs": self.dots, **look.data}),
            columns=[section.axes.x, *(f"{t} ({look.head or look.unit})" for t in targets)],
            rows=[
                [x, *(self._text(point, target) for target in targets)]
                for x, point in zip(self.order, self.points, strict=True)
            ],
            point_ids=point_ids(self.comparison, self.points),
            note=place,
            remark=cut_words(self.means, "mean", look.bounds[1]),
        )

    def _text(self, point: WorkloadPoint, target: str) -> str:
        cell = self.comparison.row(point).cells[target]
        return interval_text(scaled(cell.values.get(self.column.key), self.factor))


def sweep_figure(
    kind: str, part: OverSweep, comparison: Comparison, section: Section, facet: Any
) -> Figure | None:
    """Return the line figure of a quantity over the axis, or None if nothing was measured."""
    columns = (comparison.column(key) for key in part.keys)
    column = next((candidate for candidate in columns if candidate is not None), None)
    if column is None:
        return None
    lines = Lines.of(comparison, section, facet, column)
    if not lines.means:
        return None
    lows = [m["low"] for m in lines.means if m["low"] > 0]
    ringed = load(part.rings)(comparison, section, facet) if part.rings else {}
    rings = [mean for mean in lines.means if ringed.get(mean["target"]) == mean["x"]]
    text = load(part.title)(comparison, section, facet) if part.title else ""
    look = Look(
        kind=kind,
        name=part.name,
        words=f"{part.words} ({column.unit})",
        y_title=f"{column.label} ({column.unit})",
        unit=column.unit,
        bounds=log_bounds([*lows, *lines.values]) if part.log else (0, 1.06 * max(lines.values)),
        log=part.log,
        above=[ring_layer(lines.order)] if rings else [],
        data={"rings": rings},
    )
    return lines.figure(look, text or _title(comparison, section, facet, column, part.ratio))


def _title(comparison: Comparison, section: Section, facet: Any, column: Column, ratio: str) -> str:
    point = last_point(comparison, section, facet)
    if point is None:
        return "not measured"
    parts = ratio_words(comparison, comparison.row(point), column.key, column.label, ratio)
    if not parts:
        highest = _best(comparison, section, facet, column)
        points = len(section.of_facet(facet))
        return f"{column.label}, highest mean of {points}: {', '.join(highest)}"
    return f"{'; '.join(parts)} at {section.at(point)}"


def _best(comparison: Comparison, section: Section, facet: Any, column: Column) -> list[str]:
    """Return the largest mean of each target as text, used if there is no ratio."""
    best: dict[str, tuple[float, str]] = {}
    for point in section.of_facet(facet):
        for target, cell in comparison.row(point).cells.items():
            interval = cell.values.get(column.key)
            if interval is not None and interval.estimate >= best.get(target, (0.0, ""))[0]:
                best[target] = (interval.estimate, section.at(point))
    return [
        f"{digits3(value)}\u00a0{column.unit} on {target} with {at}"
        for target, (value, at) in best.items()
    ]
