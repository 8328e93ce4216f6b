"""Bar chart of measured throughput beside published throughput at the same points."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import altair as alt

from storlab.analysis.compare import Comparison
from storlab.analysis.points import Section, WorkloadPoint
from storlab.analysis.published import PublishedCell, published_words
from storlab.base.units import format_number
from storlab.figures.common import axis_title, x_text
from storlab.figures.figure import Figure, Place
from storlab.figures.plot import Plot, groups, linear
from storlab.figures.theme import (
    fill_of,
)
from storlab.words.text import MISSING, interval_text

KEY = "throughput_mb_s.all"


def draw(comparison: Comparison, sections: Sequence[Section]) -> list[Figure]:
    """Draw a figure for each mix and block size with published throughput.

    If a publication does not state a value of the swept parameter, its bars come last on the axis,
    with the label that the table of published results has.
    """
    swept = [section for section in sections if not section.page.operations.by_operation]
    figures = [
        _figure(comparison, section, facet) for section in swept for facet in section.facets()
    ]
    return [figure for figure in figures if figure is not None]


def _figure(comparison: Comparison, section: Section, facet: Any) -> Figure | None:
    beside = {
        point.key: cells
        for point in section.of_facet(facet)
        if (cells := _cells(comparison, point))
    }
    points = [point for point in section.of_facet(facet) if point.key in beside]
    if not points:
        return None
    configs = list(dict.fromkeys(cell.label for cells in beside.values() for cell in cells))
    series = [*comparison.targets, *configs]
    data = [d for p in points for d in _data(comparison, section, p, beside[p.key])]
    places = [*(x_text(section, p) for p in points), *dict.fromkeys(d["x"] for d in data)]
    place = replace(Place.along(comparison, section, facet), points=points)
    sources = list(dict.fromkeys(cell.source for cells in beside.values() for cell in cells))
    return place.figure(
        kind="published_bars",
        name="published",
        text=f"{' and '.join(c.removesuffix(' (published)') for c in configs)} as published, "
        "hatched, beside what was measured here",
        shows=f"Bar chart of throughput in MB/s by {axis_title(section)}, measured and published "
        f"({', '.join(sources)})",
        spec=_plot(data, section, list(dict.fromkeys(places)), series).spec(),
        columns=[section.axes.x, "configuration", "throughput (MB/s)", "provenance", "source"],
        rows=[[d["x"], d["name"], d["text"], d["provenance"], d["source"]] for d in data],
        remark=published_words(cell for cells in beside.values() for cell in cells),
    )


def _cells(comparison: Comparison, point: WorkloadPoint) -> list[PublishedCell]:
    return [
        cell for cell in comparison.published if cell.point_key == point.key and cell.key == KEY
    ]


def _data(
    comparison: Comparison,
    section: Section,
    point: WorkloadPoint,
    published: list[PublishedCell],
) -> list[dict[str, Any]]:
    x, data = x_text(section, point), []
    for index, target in enumerate(comparison.targets):
        cell = comparison.row(point).cells[target]
        value = cell.values.get(KEY)
        data.append(
            {
                "x": x,
                "series": target,
                "name": target,
                "fill": fill_of(index, cell.provenance),
                "value": None if value is None else value.estimate,
                "label": MISSING if value is None else format_number(value.estimate),
                "text": interval_text(value),
                "provenance": cell.provenance,
                "source": "this campaign",
            }
        )
    return data + [
        {
            "x": bar.at or x,
            "series": bar.label,
            "name": bar.config,
            "fill": fill_of(comparison.series_index(bar), "published"),
            "value": bar.value,
            "label": bar.printed or format_number(bar.value),
            "text": bar.printed or format_number(bar.value),
            "provenance": "published",
            "source": f"{bar.source}, row {', '.join(bar.rows)}",
        }
        for bar in published
    ]


def _plot(
    data: list[dict[str, Any]], section: Section, places: list[str], series: list[str]
) -> Plot:
    used = [name for name in series if any(d["series"] == name for d in data)]
    top = max((d["value"] for d in data if d["value"] is not None), default=1.0) * 1.1
    plot = Plot(
        groups(places, axis_title(section), alt.Axis()),
        linear("value", "throughput (MB/s)", top, form=",d", ticks=5),
        used,
        by="series",
    )
    words = {
        "series": "configuration",
        "x": section.axes.x,
        "text": "MB/s",
        "provenance": "provenance",
        "source": "source",
    }
    plot.bars("bars", sorted(data, key=lambda d: used.index(d["series"])), words)
    plot.labels("bars", at="value")
    return plot
