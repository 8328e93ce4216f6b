"""Line charts of throughput and of operation rate against the swept parameter, such as jobs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from storlab.analysis import digits
from storlab.analysis.columns import Column
from storlab.analysis.compare import Comparison
from storlab.analysis.points import CLIENTS, Section
from storlab.figures.axis_extent import in_sight
from storlab.figures.common import is_small, is_swept
from storlab.figures.figure import Figure, Place
from storlab.figures.over_sweep import Lines, Look, sweep_title
from storlab.figures.panels import over_facets, sweep_words
from storlab.words.figures import DOES, MOVES
from storlab.words.text import named

KEY = "throughput_mb_s.all"
GB_FROM = 20_000.0  # MB/s from which the axis is in GB/s


def draw(comparison: Comparison, sections: Sequence[Section]) -> list[Figure]:
    """Draw throughput, or operation rate for small blocks, with a panel per block size.

    Small blocks on a cluster are drawn by ``draw_clients``.
    """
    column = comparison.column(KEY)
    if column is None:
        return []

    def panel(place: Place) -> Figure | None:
        if not is_small(place.section, place.facet):
            return _figure(place, column)
        if _has_clients(place.section):
            return None
        return _rates(place) or _figure(place, column)

    return [
        figure for section in sections for figure in over_facets(comparison, section, panel, _title)
    ]


def _title(places: Sequence[Place]) -> str:
    """Return the title of a figure of several block sizes; the larger ones show throughput."""
    page = places[0].section.page
    if all(is_small(place.section, place.facet) for place in places):
        unit = page.operations.rate_short
        return sweep_words(places, page.operations.rate.key, unit, DOES)
    return sweep_words(places, KEY, "throughput", MOVES)


def draw_rates(comparison: Comparison, sections: Sequence[Section]) -> list[Figure]:
    """Draw charts of operation rate for the block sizes for which ``draw`` shows throughput."""

    def panel(place: Place) -> Figure | None:
        return None if is_small(place.section, place.facet) else _rates(place)

    def title(places: Sequence[Place]) -> str:
        operations = places[0].section.page.operations
        return sweep_words(places, operations.rate.key, operations.rate_short, DOES)

    return [
        figure
        for section in sections
        if not _has_clients(section)
        for figure in over_facets(comparison, section, panel, title)
    ]


def _has_clients(section: Section) -> bool:
    return any(point.clients for point in section.points)


def draw_clients(comparison: Comparison, sections: Sequence[Section]) -> list[Figure]:
    """Draw the total operation rate of a cluster's clients for small block sizes."""
    figures = (
        _rates(Place.along(comparison, section, facet), of_clients=True)
        for section in sections
        if is_swept(section) and _has_clients(section)
        for facet in section.facets()
        if is_small(section, facet)
    )
    return [figure for figure in figures if figure is not None]


def _rates(place: Place, *, of_clients: bool = False) -> Figure | None:
    comparison, section, facet = place.comparison, place.section, place.facet
    column = comparison.column(section.page.operations.rate.key)
    if column is None:
        return None
    lines = Lines.of(comparison, section, facet, column, size=place.size)
    if not lines.means:
        return None
    unit = section.page.operations.rate_short
    look = Look(
        kind="client_rates" if of_clients else "rates_vs_jobs",
        name="rate",
        words=f"{unit} of all clients together" if of_clients else unit,
        y_title=f"{unit}, all clients" if of_clients else unit,
        unit=unit,
        bounds=lines.bounds(),
    )
    text = scaling(comparison, section, facet, column.key) if of_clients else ""
    return lines.figure(look, text or sweep_title(lines.place, column, unit, DOES, unit))


def draw_swept(comparison: Comparison, sections: Sequence[Section]) -> list[Figure]:
    """Like ``draw``, but skip sections whose points all have one value of the sweep."""
    return draw(comparison, [section for section in sections if is_swept(section)])


def _ceiling(place: Place, column: Column) -> float:
    known = [
        (interval, cell.repeats(column))
        for point in place.points
        for cell in place.comparison.row(point).cells.values()
        if (interval := cell.values.get(KEY)) is not None
    ]
    values = [value for interval, runs in known for value in (interval.estimate, *runs)]
    highest = max(in_sight(values, [interval.high or 0.0 for interval, _ in known]), default=0.0)
    return highest or 1.0  # trims transfer no data, and an axis from 0 to 0 is invalid


def _figure(place: Place, column: Column) -> Figure:
    comparison, section, facet = place.comparison, place.section, place.facet
    ceiling = _ceiling(place, column)
    unit, factor = ("GB/s", 1e-3) if ceiling >= GB_FROM else ("MB/s", 1.0)
    look = Look(
        kind="throughput_vs_jobs",
        name="throughput",
        words=f"throughput in {unit}",
        y_title=f"throughput ({unit})",
        unit=unit,
        bounds=(0, ceiling * factor * 1.06),
    )
    lines = Lines.of(comparison, section, facet, column, factor, place.size)
    return lines.figure(look, sweep_title(lines.place, column, "throughput", MOVES))


def scaling(comparison: Comparison, section: Section, facet: Any, key: str) -> str:
    """Return a clause that compares a metric at the most clients with that at the fewest.

    It is empty if the number of clients is not swept or the metric was not measured.
    """
    points = section.of_facet(facet)
    if section.axes.x != CLIENTS or len(points) < 2:
        return ""
    rows = [comparison.row(points[0]).cells, comparison.row(points[-1]).cells]
    first, last = section.at(points[0]), section.at(points[-1])
    parts: list[str] = []
    for target in comparison.planned(points):
        few, many = (row[target].values.get(key) for row in rows)
        if few is not None and many is not None and few.estimate > 0:
            whose = "" if parts else f" the rate of {first}"
            parts.append(f"{digits.times(many.estimate / few.estimate)}{whose} on {named(target)}")
    return f"{last} reach {' and '.join(parts)}" if parts else ""
