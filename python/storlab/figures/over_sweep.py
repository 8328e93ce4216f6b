"""A quantity of a family against the axis that its study sweeps."""

from __future__ import annotations

from typing import Any

from storlab.analysis.columns import Column
from storlab.analysis.compare import Comparison
from storlab.analysis.points import Section
from storlab.contracts.figure import OverSweep
from storlab.contracts.hook import load
from storlab.figures.common import (
    axis_title,
    digits3,
    figure_name,
    interval_text,
    last_point,
    place_of,
    point_ids,
    ratio_words,
    x_text,
)
from storlab.figures.figure import Figure
from storlab.figures.lines import Axes, line_chart, line_data, ring_layer
from storlab.figures.theme import configured, log_bounds


def sweep_figure(
    kind: str, swept: OverSweep, comparison: Comparison, section: Section, facet: Any
) -> Figure | None:
    """Lines against the axis; None where nothing was measured."""
    columns = (comparison.column(key) for key in swept.keys)
    column = next((each for each in columns if each is not None), None)
    if column is None:
        return None
    points = section.of_facet(facet)
    rows = [comparison.row(point) for point in points]
    order = [x_text(section, point) for point in points]
    means, dots = line_data(section, rows, column)
    if not means:
        return None
    targets = comparison.planned(section.points)
    values = [*(m["high"] for m in means), *(d["value"] for d in dots)]
    lows = [m["low"] for m in means if m["low"] > 0]
    axes = Axes(
        order=order,
        x_title=axis_title(section),
        y_title=f"{column.label} ({column.unit})",
        tooltip=f"{column.unit}, mean [95 %]",
        x_name=section.axes.x,
        bounds=log_bounds([*lows, *values]) if swept.log else (0, 1.06 * max(values)),
        log=swept.log,
    )
    ringed = load(swept.rings)(comparison, section, facet) if swept.rings else {}
    rings = [mean for mean in means if ringed.get(mean["target"]) == mean["x"]]
    above = [ring_layer(order)] if rings else []
    chart = line_chart(comparison, targets, axes, means, above=above)
    said = load(swept.title)(comparison, section, facet) if swept.title else ""
    said = said or _said(comparison, section, facet, column, swept.ratio)
    title = f"{place_of(section, facet)}: {said}"
    return Figure(
        name=figure_name(swept.name, section, facet),
        kind=kind,
        title=title,
        alt=f"Line chart of {swept.words} ({column.unit}) against {axis_title(section)}. {title}",
        spec=configured(chart, {"means": means, "runs": dots, "rings": rings}),
        columns=[section.axes.x, *(f"{t} ({column.unit})" for t in targets)],
        rows=[
            [order[i], *(interval_text(row.cells[t].values.get(column.key)) for t in targets)]
            for i, row in enumerate(rows)
        ],
        point_ids=point_ids(comparison, points),
        note=place_of(section, facet),
    )


def _said(comparison: Comparison, section: Section, facet: Any, column: Column, ratio: str) -> str:
    point = last_point(comparison, section, facet)
    if point is None:
        return "not measured"
    parts = ratio_words(comparison, comparison.row(point), column.key, ratio)
    if not parts:
        found = _best(comparison, section, facet, column)
        return f"{column.label}: at most {', '.join(found)}"
    return f"{column.label}: {'; '.join(parts)} at {section.at(point)}"


def _best(comparison: Comparison, section: Section, facet: Any, column: Column) -> list[str]:
    """The largest mean of each target, where there is no ratio to tell."""
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
