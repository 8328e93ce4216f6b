"""Stacked bars, one per target, with the confidence interval of the total."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import altair as alt

from storlab.analysis.columns import Column
from storlab.analysis.compare import Cell, Comparison
from storlab.base.units import format_number
from storlab.contracts.figure import StackOverSweep
from storlab.figures.bars import provenance_of
from storlab.figures.common import axis_title, last_point
from storlab.figures.figure import Figure, Place
from storlab.figures.plot import (
    Plot,
    fill,
    heights,
    key_of_shades,
    linear,
    runs_of,
    series_of,
    tooltip,
)
from storlab.figures.theme import series_role
from storlab.model.decision import Interval
from storlab.words.figures import ratio_title, values_on
from storlab.words.text import MISSING, interval_text

PALE = 0.25  # opacity of the last part


@dataclass(slots=True)
class Stacks:
    """Chart data of stacked bars: parts, totals and single runs."""

    comparison: Comparison
    parts: list[dict[str, Any]] = field(default_factory=list)
    wholes: list[dict[str, Any]] = field(default_factory=list)
    dots: list[dict[str, Any]] = field(default_factory=list)

    def add(
        self,
        cell: Cell,
        x: str,
        pieces: dict[str, float],
        whole: Interval,
        column: Column,
        provenance: str,
    ) -> None:
        """Add a target's bar at position ``x``.

        Args:
            cell: Results of the target.
            x: Position on the horizontal axis.
            pieces: Parts of the bar from bottom to top; they need not add up to ``whole``.
            whole: Mean of the total with its interval.
            column: Column of the total, whose single runs are drawn as dots.
            provenance: Provenance of the total.
        """
        index, start = self.comparison.targets.index(cell.target), 0.0
        common = {"x": x, **series_of(cell, index, provenance)}
        for name, value in pieces.items():
            self.parts.append(
                {
                    **common,
                    "part": name,
                    "from": float(f"{start:.6g}"),
                    "to": float(f"{start + value:.6g}"),
                    "stroke": series_role(index),
                    "text": format_number(value),
                    "whole": interval_text(whole),
                }
            )
            start += value
        self.wholes.append({**common, **heights(whole)})
        self.dots += runs_of(cell, column, x)

    def known(self, names: Sequence[str]) -> tuple[str, ...]:
        """Return the names in ``names`` that are parts of any bar, in the given order."""
        return tuple(name for name in names if any(part["part"] == name for part in self.parts))

    def spec(
        self,
        targets: Sequence[str],
        order: Sequence[str],
        parts: Sequence[str],
        titles: tuple[str, str],
        unit: str,
    ) -> dict[str, Any]:
        """Return the Vega-Lite specification of the chart.

        Args:
            targets: Targets, side by side at each position.
            order: Positions on the horizontal axis.
            parts: Names of the parts from bottom to top, drawn from solid to pale.
            titles: Titles of the horizontal and the vertical axis.
            unit: Unit of the values.
        """
        steps = max(len(parts) - 1, 1)
        for part in self.parts:
            part["shade"] = round(1 - (1 - PALE) * parts.index(part["part"]) / steps, 3)
        ends = [*(d["high"] for d in self.wholes), *(d["to"] for d in self.parts)]
        x = alt.X(
            "x:O",
            sort=list(order),
            title=titles[0] or None,
            scale=alt.Scale(paddingInner=0.2, paddingOuter=0.1),
            axis=alt.Axis(labelAngle=0),
        )
        plot = Plot(x, linear("from", titles[1], 1.12 * max(ends)), targets, gap=0.12)
        plot.data |= {"parts": self.parts, "wholes": self.wholes}
        if len(parts) > 1:
            shades = {part: 1 - (1 - PALE) * number / steps for number, part in enumerate(parts)}
            key_of_shades(plot, "parts", "part", shades)
        tips = {
            "series": "target",
            "x": titles[0] or "of",
            "part": "part",
            "text": unit,
            "whole": f"whole, {unit}, mean [95 %]",
            "runs": "runs",
        }
        plot.add(
            plot.source("parts").mark_bar(strokeWidth=1),
            **plot.band,
            y=plot.y,
            y2="to:Q",
            fill=fill(self.parts),
            fillOpacity=alt.FillOpacity("shade:Q", scale=None, legend=None),
            stroke=alt.Stroke("stroke:N", scale=None, legend=None),
            tooltip=tooltip(tips),
        )
        plot.intervals("wholes")
        plot.runs(self.dots)
        plot.labels("wholes")
        return plot.spec()


def stack_figure(kind: str, part: StackOverSweep, far: Place) -> Figure | None:
    """Draw stacked bars for each point of a sweep; None if the total was not measured."""
    comparison, section = far.comparison, far.section
    column = comparison.column(part.whole)
    if column is None:
        return None
    place, unit = Place.along(comparison, section, far.facet), column.unit
    cells = [
        (x, comparison.row(point).cells[target])
        for x, point in zip(place.order, place.points, strict=True)
        for target in place.targets
    ]
    stacks = Stacks(comparison)
    for x, cell in cells:
        whole = cell.values.get(part.whole)
        if whole is not None:
            pieces = _pieces(part, cell, whole.estimate)
            stacks.add(cell, x, pieces, whole, column, provenance_of(cell, column))
    if not stacks.wholes:
        return None
    axis = axis_title(section)
    names = stacks.known((part.undivided, *part.keys))
    titles = (axis, f"{part.axis} ({unit})")
    return place.figure(
        kind=kind,
        name=part.name,
        text=_title(part, unit, place),
        shows=f"Stacked bars: {part.words}, against {axis}",
        spec=stacks.spec(place.targets, place.order, names, titles, unit),
        columns=[section.axes.x, "target", *(f"{word} ({unit})" for word in ("run", *part.keys))],
        rows=[
            [
                x,
                cell.target,
                interval_text(cell.values.get(part.whole)),
                *(mean_text(cell, key) for key in part.keys.values()),
            ]
            for x, cell in cells
        ],
    )


def _pieces(part: StackOverSweep, cell: Cell, whole: float) -> dict[str, float]:
    """Return the parts of a bar; if one was not measured, the total is the only part."""
    if any(key not in cell.values for key in part.keys.values()):
        return {part.undivided: whole}
    return {word: cell.values[key].estimate for word, key in part.keys.items()}


def mean_text(cell: Cell, key: str) -> str:
    """Return the mean of a column as text."""
    interval = cell.values.get(key)
    return MISSING if interval is None else format_number(interval.estimate)


def _title(part: StackOverSweep, unit: str, place: Place) -> str:
    """Return a title: the ratio at the last point of the sweep, and each target's lowest value."""
    comparison, section = place.comparison, place.section
    point = last_point(comparison, section, place.facet)
    words = []
    if point is not None:
        ratios = ratio_title(comparison, [comparison.row(point)], part.whole, part.what)
        words = [f"{ratios} at {section.at(point)}"] if ratios else []
    least: dict[str, tuple[float, str]] = {}
    for shown in place.points:
        for target, cell in comparison.row(shown).cells.items():
            interval = cell.values.get(part.whole)
            if interval is not None and interval.estimate < least.get(target, (float("inf"),))[0]:
                least[target] = (interval.estimate, section.at(shown))
    lowest = values_on(((target, *place) for target, place in least.items()), unit)
    return "; ".join([*words, f"least {part.what}: {lowest}"])
