"""Throughput against the axis, such as jobs: mean with interval, and every run as a dot."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from storlab.analysis.columns import Column
from storlab.analysis.compare import Comparison
from storlab.analysis.points import Section
from storlab.figures.common import (
    axis_title,
    digits3,
    figure_name,
    interval_text,
    is_swept,
    last_point,
    place_of,
    point_ids,
    ratio_words,
    x_text,
)
from storlab.figures.figure import Figure
from storlab.figures.lines import Axes, line_chart, line_data
from storlab.figures.theme import configured

KEY = "throughput_mb_s.all"


def draw(comparison: Comparison, sections: Sequence[Section]) -> list[Figure]:
    """One figure per block size; those of a section share the vertical scale."""
    column = comparison.column(KEY)
    if column is None:
        return []
    return [
        _one(comparison, section, facet, column)
        for section in sections
        for facet in section.facets()
    ]


def draw_swept(comparison: Comparison, sections: Sequence[Section]) -> list[Figure]:
    """The same, only where the axis has more than one place."""
    return draw(comparison, [section for section in sections if is_swept(section)])


def _ceiling(comparison: Comparison, section: Section, column: Column) -> float:
    values = [
        max(interval.estimate, interval.high or 0.0, *cell.repeats(column))
        for point in section.points
        for cell in comparison.row(point).cells.values()
        if (interval := cell.values.get(KEY)) is not None
    ]
    return max(values, default=1.0)


def _one(comparison: Comparison, section: Section, facet: Any, column: Column) -> Figure:
    points = section.of_facet(facet)
    rows = [comparison.row(point) for point in points]
    order = [x_text(section, point) for point in points]
    means, dots = line_data(section, rows, column)
    targets = comparison.planned(section.points)
    axes = Axes(
        order=order,
        x_title=axis_title(section),
        y_title="throughput (MB/s)",
        tooltip="MB/s, mean [95 %]",
        x_name=section.axes.x,
        bounds=(0, _ceiling(comparison, section, column) * 1.06),
    )
    chart = line_chart(comparison, targets, axes, means)
    place = place_of(section, facet)
    table = [
        [order[i], *(interval_text(row.cells[t].values.get(KEY)) for t in targets)]
        for i, row in enumerate(rows)
    ]
    title = _title(comparison, section, facet)
    return Figure(
        name=figure_name("throughput", section, facet),
        kind="throughput_vs_jobs",
        title=title,
        alt=f"Line chart of throughput in MB/s against {axis_title(section)}. {title}",
        spec=configured(chart, {"means": means, "runs": dots}),
        columns=[section.axes.x, *(f"{t} (MB/s)" for t in targets)],
        rows=table,
        point_ids=point_ids(comparison, points),
        note=place,
    )


def _title(comparison: Comparison, section: Section, facet: Any) -> str:
    place = place_of(section, facet)
    point = last_point(comparison, section, facet)
    if point is None:
        return f"{place}: not measured"
    row = comparison.row(point)
    where = section.at(point)
    said = ratio_words(comparison, row, KEY, "{target} moves {times} as much as {baseline}")
    if not said:
        known = [(t, c.values[KEY]) for t, c in row.cells.items() if KEY in c.values]
        said = [f"{t} moves {digits3(i.estimate)} MB/s" for t, i in known]
    return f"{place}: {'; '.join(said)} at {where}" if said else f"{place}: not measured"
