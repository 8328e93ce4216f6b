"""Throughput against the axis, such as jobs: mean with interval, and every run as a dot."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from storlab.analysis.columns import Column
from storlab.analysis.compare import Comparison
from storlab.analysis.points import Section
from storlab.figures.common import (
    digits3,
    is_swept,
    last_point,
    ratio_words,
)
from storlab.figures.figure import Figure
from storlab.figures.over_sweep import Lines, Look

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
    look = Look(
        kind="throughput_vs_jobs",
        name="throughput",
        words="throughput in MB/s",
        y_title="throughput (MB/s)",
        unit="MB/s",
        bounds=(0, _ceiling(comparison, section, column) * 1.06),
    )
    lines = Lines.of(comparison, section, facet, column)
    return lines.figure(look, _said(comparison, section, facet))


def _said(comparison: Comparison, section: Section, facet: Any) -> str:
    point = last_point(comparison, section, facet)
    if point is None:
        return "not measured"
    row = comparison.row(point)
    where = section.at(point)
    said = ratio_words(comparison, row, KEY, "{target} moves {times} as much as {baseline}")
    if not said:
        known = [(t, c.values[KEY]) for t, c in row.cells.items() if KEY in c.values]
        said = [f"{t} moves {digits3(i.estimate)} MB/s" for t, i in known]
    return f"{'; '.join(said)} at {where}" if said else "not measured"
