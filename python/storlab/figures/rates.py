"""Figure of operations per second of all clients together against the axis."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from storlab.analysis.compare import Comparison
from storlab.analysis.points import CLIENTS, Section
from storlab.figures.common import digits3, is_small, is_swept, last_point, times_text
from storlab.figures.figure import Figure
from storlab.figures.over_sweep import Lines, Look
from storlab.figures.ratio_text import ratio_words


def draw(comparison: Comparison, sections: Sequence[Section]) -> list[Figure]:
    """Draw one figure per small block size of a client cluster, if the axis is swept."""
    figures = (
        _figure(comparison, section, facet)
        for section in sections
        if is_swept(section) and any(point.clients for point in section.points)
        for facet in section.facets()
        if is_small(section, facet)
    )
    return [figure for figure in figures if figure is not None]


def _figure(comparison: Comparison, section: Section, facet: Any) -> Figure | None:
    page = section.page
    column = comparison.column(page.operations.rate.key)
    if column is None:
        return None
    lines = Lines.of(comparison, section, facet, column)
    if not lines.means:
        return None
    unit = page.operations.rate_short
    look = Look(
        kind="client_rates",
        name="rate",
        words=f"{unit} of all clients together",
        y_title=f"{unit}, all clients",
        unit=unit,
        bounds=(0, 1.06 * max(lines.values)),
    )
    text = scaling(comparison, section, facet, column.key)
    return lines.figure(look, text or far_rates(comparison, section, facet, column.key, unit))


def scaling(comparison: Comparison, section: Section, facet: Any, key: str) -> str:
    """Return a clause on the scaling from the fewest to the most clients.

    Empty if the axis is not the number of clients.
    """
    points = section.of_facet(facet)
    if section.axes.x != CLIENTS or len(points) < 2:
        return ""
    rows = [comparison.row(points[0]).cells, comparison.row(points[-1]).cells]
    parts = []
    for target in comparison.planned(points):
        few, many = (row[target].values.get(key) for row in rows)
        if few is not None and many is not None and few.estimate > 0:
            parts.append(f"{times_text(many.estimate / few.estimate)} on {target}")
    if not parts:
        return ""
    first, last = section.at(points[0]), section.at(points[-1])
    return f"{last} do {' and '.join(parts)} of what {first} {_does(points[0].clients)}"


def _does(clients: int | None) -> str:
    return "does" if clients == 1 else "do"


def far_rates(comparison: Comparison, section: Section, facet: Any, key: str, unit: str) -> str:
    """Return a clause that compares rates at the last point of the axis."""
    point = last_point(comparison, section, facet)
    if point is None:
        return "not measured"
    row = comparison.row(point)
    parts = ratio_words(comparison, row, key, unit, "{larger} does {times} the {what} of {smaller}")
    if not parts:
        known = [(t, c.values[key]) for t, c in row.cells.items() if key in c.values]
        parts = [f"{digits3(value.estimate)} {unit} on {target}" for target, value in known]
    return f"{'; '.join(parts)} at {section.at(point)}" if parts else "not measured"
