"""Figure of data per joule against the swept axis: jobs, workers or queue depth."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from storlab.analysis.compare import Comparison
from storlab.analysis.points import Section
from storlab.figures.common import is_swept, last_point
from storlab.figures.efficiency_bars import SAY, WHAT
from storlab.figures.figure import Figure
from storlab.figures.over_sweep import Lines, Look
from storlab.figures.ratio_text import ratio_words

KEY = "efficiency_mb_s_w.all"


def draw(comparison: Comparison, sections: Sequence[Section]) -> list[Figure]:
    """Draw one figure per section and facet whose axis has more than one position."""
    figures = (
        _figure(comparison, section, facet)
        for section in sections
        if is_swept(section)
        for facet in section.facets()
    )
    return [figure for figure in figures if figure is not None]


def _figure(comparison: Comparison, section: Section, facet: Any) -> Figure | None:
    column = comparison.column(KEY)
    if column is None:
        return None
    lines = Lines.of(comparison, section, facet, column)
    if len({mean["x"] for mean in lines.means}) < 2:
        return None
    look = Look(
        kind="efficiency_vs_axis",
        name="efficiency-over",
        words="throughput per watt (MB/s/W)",
        y_title="MB/s/W = MB/J",
        unit="MB/s/W",
        bounds=(0, 1.06 * max(lines.values)),
    )
    return lines.figure(look, _title(comparison, section, facet))


def _title(comparison: Comparison, section: Section, facet: Any) -> str:
    point = last_point(comparison, section, facet)
    row = None if point is None else comparison.row(point)
    parts = [] if row is None else ratio_words(comparison, row, KEY, WHAT, SAY)
    if not parts or point is None:
        return "data moved per joule"
    return f"{'; '.join(parts)} at {section.at(point)}"
