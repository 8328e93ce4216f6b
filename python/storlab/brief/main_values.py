"""Build the compact table of main values: throughput, tail latency and efficiency."""

from __future__ import annotations

from collections.abc import Sequence

from storlab.analysis.columns import Column, short_of
from storlab.analysis.compare import Comparison
from storlab.analysis.points import Section, title_of
from storlab.brief.model import DataTable, Number
from storlab.brief.tables import (
    Leaf,
    Scale,
    Scales,
    known_columns,
    mean_words,
    number_of,
    table_of,
)
from storlab.figures.common import far_places, latency_kind
from storlab.words.text import sentence_case

EFFICIENCY = "efficiency_mb_s_w.all"


def main_values(comparison: Comparison, scales: Scales) -> list[DataTable]:
    """Build a table per workload with a row for each mix, size and target.

    It has the headline metric at the first and the last point of the sweep, and at the last point
    the 99th percentiles (or the metrics of the family's findings) and throughput per watt.
    """
    families = dict.fromkeys(section.family for section in comparison.sections)
    return [
        _table(comparison, [s for s in comparison.sections if s.family == family], scales)
        for family in families
    ]


def _table(comparison: Comparison, sections: Sequence[Section], scales: Scales) -> DataTable:
    first, scale = sections[0], scales[sections[0].kind]
    headline = known_columns(comparison, sections, first.page.metrics.headline)[:1]
    others = known_columns(comparison, sections, _others(comparison, first, headline))
    places = [
        (section, facet, section.of_facet(facet)[0], last)
        for section, facet, last in far_places(comparison, sections)
    ]
    swept = any(start is not last for _, _, start, last in places)
    sized = len({section.facet_text(facet) for section, facet, _, _ in places}) > 1
    leaves = []
    for section, facet, start, last in places:
        heads = [section.mix, *([section.facet_text(facet)] if sized else [])]
        for target in comparison.planned([last]):
            cell, low = (comparison.row(point).cells[target] for point in (last, start))
            numbers: list[Number] = []
            if swept:
                numbers += [number_of(low, column, scale) for column in headline]
            numbers += [number_of(cell, column, scale) for column in (*headline, *others)]
            leaves.append(Leaf(heads, cell, numbers))
    ends = [
        _shared({section.at(point) for section, _, *ends in places for point in ends[i : i + 1]})
        for i in (0, 1)
    ]
    starts = [("least", ends[0]), ("most", ends[1])] if swept else [("", "")]
    columns = [
        _head(first, column, scale, place or f"{word} load" if word else "")
        for word, place in starts
        for column in headline
    ]
    columns += [_head(first, column, scale) for column in others]
    head = [title_of(first.page, first.page.parameters.mix or "mix")]
    head += [title_of(first.page, first.axes.facet)] if sized and first.axes.facet else []
    at = f"at {ends[1]} unless named: " if swept and ends[1] else ""
    name = f"{first.prefix}: " if first.prefix else ""
    caption = sentence_case(f"{name}{at}{mean_words(leaves)}")
    return table_of(comparison, caption, head, columns, leaves)


def _others(comparison: Comparison, section: Section, headline: Sequence[Column]) -> list[str]:
    """Return the keys of the columns after the headline."""
    page = section.page
    if page.metrics.findings:
        keys = [*page.metrics.findings]
    else:
        prefix, _ = latency_kind(comparison, section)
        keys = [f"{prefix}_p99_ns.{operation}" for operation in page.operations.moved]
    return [key for key in (*keys, EFFICIENCY) if key not in {c.key for c in headline}]


def _shared(places: set[str]) -> str:
    """Return the only one of several places on the axis, or an empty text if they differ."""
    return places.pop() if len(places) == 1 else ""


def _head(section: Section, column: Column, scale: Scale, place: str = "") -> tuple[str, str]:
    words = short_of(section.page, column)
    return (f"{words}, {place}" if place else words), scale.of(column)[0]
