"""Line chart of a quantity against the swept parameter: a line per target, a dot per run."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import altair as alt

from storlab.analysis.columns import Column
from storlab.analysis.compare import Cell, Comparison
from storlab.analysis.density import scaled
from storlab.analysis.points import Section, WorkloadPoint
from storlab.base.units import format_number
from storlab.contracts.figure import OverSweep
from storlab.contracts.hook import load
from storlab.figures.axis_extent import cut_words, in_sight
from storlab.figures.common import axis_title, last_point
from storlab.figures.figure import WHOLE, Figure, Place, Size
from storlab.figures.plot import INK, Plot, Rule, logarithmic, tooltip
from storlab.figures.theme import colour, dash_of, log_bounds, role, shape
from storlab.model.decision import Interval
from storlab.words.figures import OF, ratio_title, values_on
from storlab.words.text import MISSING, interval_text

LABEL_PX = 22  # room for a label above a line in a panel
BESIDE_PX = 9  # distance from the mean at which the dots of single runs are drawn
CLOSE = 0.09  # fraction of the axis; labels closer than this are moved apart


@dataclass(frozen=True, slots=True)
class Look:
    """Labels, axis range and extra layers of a line chart over a sweep."""

    kind: str  # figure kind
    name: str  # part of the file name
    words: str  # text for the description: "throughput in MB/s"
    y_title: str
    unit: str
    bounds: tuple[float, float]  # of the vertical axis
    value: str = ""  # tooltip text; by default the unit
    head: str = ""  # text in table heads; by default the unit
    rules: Sequence[Rule] = ()
    log: bool = False
    below: Sequence[alt.Chart] = ()  # layers under the lines
    rings: Sequence[dict[str, Any]] = ()  # means to mark with a ring
    # data sets of the layers in ``below``, by name
    data: Mapping[str, list[dict[str, Any]]] = field(default_factory=dict)
    latencies: bool = False

    def in_panel(self, size: Size) -> Look:
        """Return the look with room for a label above the highest line, and a short title."""
        (low, high), room = self.bounds, 1 + LABEL_PX / size.height
        high = low * (high / low) ** room if self.log else high * room
        title = self.unit if size.low else self.y_title
        return replace(self, bounds=(low, high), y_title=title)

    def height(self, value: float) -> float:
        """Convert a value to its position on the vertical axis, from 0 to 1."""
        low, high = (math.log(b) if self.log else b for b in self.bounds)
        return ((math.log(value) if self.log else value) - low) / (high - low)


def mean_of(series: str, x: str, cell: Cell, column: Column, value: Interval) -> dict[str, Any]:
    """Return the chart data of one mean of a line with its interval."""
    low, high = (value.estimate if end is None else end for end in (value.low, value.high))
    provenance = cell.provenance_of(column)
    return {
        "target": series,
        "x": x,
        "mean": rounded(value.estimate),
        "low": rounded(low),
        "high": rounded(high),
        "text": interval_text(value),
        "label": format_number(value.estimate),
        "provenance": provenance,
        "dash": dash_of(provenance),
        "runs": ", ".join(cell.run_ids),
    }


def rounded(value: float) -> float:
    """Round a value to the precision that a chart can show."""
    return round(value, 2) if abs(value) >= 100 else float(f"{value:.5g}")


@dataclass(frozen=True, slots=True)
class Lines:
    """Values of a quantity at each point of a sweep, for a line per target."""

    place: Place
    column: Column
    means: list[dict[str, Any]]
    dots: list[dict[str, Any]]
    factor: float = 1.0  # factor from the column's unit to the drawn unit

    @classmethod
    def of(
        cls,
        comparison: Comparison,
        section: Section,
        facet: Any,
        column: Column,
        factor: float = 1.0,
        size: Size = WHOLE,
    ) -> Lines:
        """Collect a quantity's values at one mix and block size; multiply them by ``factor``."""
        place = Place.along(comparison, section, facet, size)
        means, dots = [], []
        for x, point in zip(place.order, place.points, strict=True):
            for target, cell in comparison.row(point).cells.items():
                value = scaled(cell.values.get(column.key), factor)
                if value is None:
                    continue
                means.append(mean_of(target, x, cell, column, value))
                dots += [
                    {"target": target, "x": x, "value": rounded(v * factor)}
                    for v in cell.repeats(column)
                ]
        return cls(place, column, means, dots, factor)

    @property
    def values(self) -> list[float]:
        """Values that the vertical axis must show: means, runs, and interval ends up to a limit."""
        return in_sight(
            [*(m["mean"] for m in self.means), *(d["value"] for d in self.dots)],
            [m["high"] for m in self.means],
        )

    def bounds(self, *, log: bool = False) -> tuple[float, float]:
        """Return the ends of a vertical axis for these lines, linear or logarithmic."""
        if not log:
            return (0, 1.06 * max(self.values))
        return log_bounds([*(m["low"] for m in self.means if m["low"] > 0), *self.values])

    def at(self, places: Mapping[str, str]) -> list[dict[str, Any]]:
        """Return each target's mean at the sweep value that ``places`` gives for the target."""
        return [mean for mean in self.means if places.get(mean["target"]) == mean["x"]]

    def figure(self, look: Look, text: str) -> Figure:
        """Make the figure; its title is mix and block size, followed by ``text``."""
        place = self.place
        section, comparison = place.section, place.comparison
        targets = comparison.planned(section.points)
        look = look.in_panel(place.size) if place.size.panel else look
        plot = line_plot(look, section, place.order, (self.means, self.dots), targets,
                         comparison.targets, panel=place.size.panel)  # fmt: skip
        return place.figure(
            kind=look.kind,
            name=look.name,
            text=text,
            shows=f"Line chart of {look.words} against {axis_title(section)}",
            spec=plot.spec(place.size.width, place.size.height),
            columns=[section.axes.x, *(f"{t} ({look.head or look.unit})" for t in targets)],
            rows=[
                [x, *(self._text(point, target) for target in targets)]
                for x, point in zip(place.order, place.points, strict=True)
            ],
            remark=cut_words(self.means, "mean", look.bounds[1]),
            latencies=look.latencies,
        )

    def _text(self, point: WorkloadPoint, target: str) -> str:
        cell = self.place.comparison.row(point).cells[target]
        return interval_text(scaled(cell.values.get(self.column.key), self.factor))


def line_plot(
    look: Look,
    section: Section,
    order: Sequence[str],
    data: tuple[list[dict[str, Any]], list[dict[str, Any]]],
    shown: Sequence[str],
    series: Sequence[str],
    series_word: str = "target",
    *,
    panel: bool = False,
) -> Plot:
    """Make a line chart with intervals and dots of runs.

    Args:
        look: Labels, axis range and extra layers.
        section: Section whose parameter is swept.
        order: Values of the swept parameter on the horizontal axis.
        data: Chart data of means and of runs.
        shown: Lines to draw, by name.
        series: Names of all lines, in the order of their colours.
        series_word: What a line stands for, such as ``target``.
        panel: Whether the chart is one of several panels, with little room beside the lines.
    """
    means, dots = data
    colours = colour(series, shown)
    low, high = look.bounds
    title: Any = axis_title(section).split(", ") if panel else axis_title(section)
    x = alt.X("x:O", sort=list(order), title=title, axis=alt.Axis(labelAngle=0, labelOverlap=True))
    if look.log:
        y = logarithmic("mean", look.y_title, look.bounds, expr="", format=",~r")
    else:
        y = alt.Y(
            "mean:Q",
            title=look.y_title,
            scale=alt.Scale(domain=[low, high], zero=False),
            axis=alt.Axis(format=_numbers(high), tickCount=6),
        )
    plot = Plot(x, y)
    plot.data |= {"means": means, "runs": dots, **look.data}
    plot.layers += look.below
    for rule in look.rules:
        plot.rule(rule)
    dash = alt.StrokeDash("dash:N", scale=None, legend=None)
    base = plot.source("means")
    line = base.mark_line(strokeWidth=2)
    plot.add(line, y=y, color=colours, detail="target:N", strokeDash=dash)
    if look.log:  # a logarithmic axis cannot show 0, where an interval may begin
        base = base.transform_calculate(low=f"max(datum.low, {low})")
    rule_mark = base.mark_rule(strokeWidth=1.8)
    plot.add(rule_mark, y=alt.Y("low:Q"), y2="high:Q", color=colours)
    raw = plot.source("runs").mark_point(size=22, strokeWidth=1.2, opacity=0.9, xOffset=BESIDE_PX)
    plot.add(raw, y=alt.Y("value:Q"), color=colours)
    tips = tooltip(
        {
            "target": series_word,
            "x": section.axes.x,
            "text": f"{look.value or look.unit}, mean [95 %]",
            "runs": "runs",
        }
    )
    plot.markers("means", colours, shape(series, shown), tips, 62)
    for place, (end, nudge) in enumerate(_ends(means, order, look)):
        label = alt.Chart(alt.Data(values=[{key: end[key] for key in ("x", "mean", "label")}]))
        if panel:  # above the upper line and below the lower one, instead of beside them
            look_of: dict[str, Any] = {"align": "right", "dx": 8, "dy": 15 if place else -13}
            ground = label.mark_text(stroke=role("fig-paper"), strokeWidth=4, **look_of)
            plot.add(ground, y="mean:Q", text="label:N")
        else:
            look_of = {"align": "left", "dx": 17, "dy": nudge}
        plot.add(label.mark_text(**look_of), y="mean:Q", text="label:N", color=INK)
    if look.rings:
        plot.rings("rings", look.rings, "mean", 260)
    return plot


def _numbers(high: float) -> str:
    """Return the number format of an axis; it has SI suffixes if values reach one million."""
    if high >= 1e6:
        return "~s"
    return ",d" if high >= 10 else "~r"


def _ends(
    means: list[dict[str, Any]], order: Sequence[str], look: Look
) -> list[tuple[dict[str, Any], int]]:
    """Return each target's last mean, with an offset in px so that labels do not overlap.

    Empty if there are more than two targets.
    """
    ends = sorted((m for m in means if order and m["x"] == order[-1]), key=lambda m: -m["mean"])
    if len(ends) > 2:
        return []
    heights = [look.height(end["mean"]) for end in ends]
    close = len(ends) == 2 and heights[0] - heights[1] < CLOSE
    return [(end, (-8, 8)[i] if close else 0) for i, end in enumerate(ends)]


def sweep_figure(kind: str, part: OverSweep, far: Place) -> Figure | None:
    """Draw the line chart of a quantity over the sweep; None if nothing was measured."""
    comparison, section, facet = far.comparison, far.section, far.facet
    columns = (comparison.column(key) for key in part.keys)
    column = next((candidate for candidate in columns if candidate is not None), None)
    if column is None:
        return None
    lines = Lines.of(comparison, section, facet, column)
    if not lines.means:
        return None
    ringed = load(part.rings)(comparison, section, facet) if part.rings else {}
    text = load(part.title)(comparison, section, facet) if part.title else ""
    noun = part.noun or column.label
    look = Look(
        kind=kind,
        name=part.name,
        words=f"{part.words} ({column.unit})",
        y_title=part.axis or f"{column.label} ({column.unit})",
        unit=column.unit,
        bounds=lines.bounds(log=part.log),
        log=part.log,
        rings=lines.at(ringed),
    )
    return lines.figure(look, text or sweep_title(far, column, noun, part.ratio or OF))


def sweep_title(far: Place, column: Column, noun: str, template: str = OF, unit: str = "") -> str:
    """Return a title: ratios to the baseline at the last point of the sweep.

    Without ratios the title gives each target’s highest mean.

    Args:
        far: Points of the figure.
        column: Quantity to compare.
        noun: Name of the quantity.
        template: Clause for a ratio, see ``storlab.words.figures``.
        unit: Unit to print, such as IOPS; by default that of the column.
    """
    comparison, section, facet = far.comparison, far.section, far.facet
    point = last_point(comparison, section, facet)
    if point is None:
        return MISSING
    ratios = ratio_title(comparison, [comparison.row(point)], column.key, noun, template)
    if ratios:
        return f"{ratios} at {section.at(point)}"
    highest: dict[str, tuple[float, str]] = {}
    points = section.of_facet(facet)
    for point in points:
        for target, cell in comparison.row(point).cells.items():
            interval = cell.values.get(column.key)
            if interval is not None and interval.estimate >= highest.get(target, (0.0, ""))[0]:
                highest[target] = (interval.estimate, section.at(point))
    values = values_on(((target, *place) for target, place in highest.items()), unit or column.unit)
    return f"{unit or column.label}, highest of {len(points)}: {values}"
