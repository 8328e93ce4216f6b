"""Figure of measured and published throughput, latency or time to first byte by mix.

It is for workload families whose publications only vary the mix.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import altair as alt

from storlab.analysis.columns import COLUMNS, Column
from storlab.analysis.compare import Comparison
from storlab.analysis.points import Section
from storlab.analysis.published import PublishedCell, published_words
from storlab.base.units import exact_number, format_number
from storlab.figures.axis_extent import edge_words, ends_within, log_reach
from storlab.figures.figure import Figure
from storlab.figures.mixes import Mixes, mixes_of
from storlab.figures.plot import Plot, logarithmic, tooltip
from storlab.figures.theme import (
    SHAPES,
    fill_of,
    legend_columns,
    series_role,
)
from storlab.model.decision import Interval
from storlab.words.text import MISSING, interval_text, latency_text, sentence_case

MS_LABELS = "format(datum.value / 1e6, ',~g')"
SHOWN = ("throughput_mb_s", "latency_mean_ns", "ttfb_mean_ns")


def draw(comparison: Comparison, sections: Sequence[Section]) -> list[Figure]:
    """Draw a figure for each published quantity and block size (or other facet)."""
    figures: list[Figure] = []
    for family in dict.fromkeys(section.family for section in sections):
        of_family = [section for section in sections if section.family == family]
        if of_family[0].page.operations.by_operation:
            figures += [
                _figure(mixes, column)
                for mixes in mixes_of(comparison, of_family)
                for column in COLUMNS
                if column.name in SHOWN and _cells(mixes, column)
            ]
    return figures


def _cells(mixes: Mixes, column: Column) -> list[PublishedCell]:
    keys = {point.key for point in mixes.points}
    return [
        cell
        for cell in mixes.comparison.published
        if cell.point_key in keys and cell.key == column.key
    ]


def _text(column: Column, value: float) -> str:
    return latency_text(value) if column.unit == "ns" else format_number(value)


def _label(column: Column, value: float, digits: str = "") -> str:
    """Format a value without its unit, which the title of the axis states."""
    value = value / 1e6 if column.unit == "ns" else value
    return exact_number(value) if digits else format_number(value)


def _figure(mixes: Mixes, column: Column) -> Figure:
    cells = _cells(mixes, column)
    cells = sorted(cells, key=mixes.comparison.series_index)
    configs = list(dict.fromkeys(cell.label for cell in cells))
    bounds = _bounds(mixes, column, cells)
    data = [*_measured(mixes, column, bounds), *_printed(mixes, column, cells)]
    sources = list(dict.fromkeys(cell.source for cell in cells))
    names = " and ".join(config.removesuffix(" (published)") for config in configs)
    label = column.label
    shown = sentence_case(label)
    title = f"{shown}: {names} as published, hatched, beside what was measured here"
    stated = all(cell.stated for cell in cells)
    unsaid = "" if stated else " The publication does not name its concurrency"
    cut = edge_words(_intervals(mixes, column), bounds)
    return mixes.figure(
        kind="published_mixes",
        name=mixes.name("published", column.name, column.operation),
        title=title,
        shows=f"{'Markers' if column.unit == 'ns' else 'Bars'}: {label} by mix, measured and "
        f"published ({', '.join(sources)}), on a logarithmic scale.{unsaid}",
        spec=_plot(mixes, column, data, [*mixes.targets, *configs], bounds).spec(),
        columns=["mix", "configuration", f"{label} ({_unit(column)})", "provenance", "source"],
        rows=[[d["x"], d["name"], d["text"], d["provenance"], d["source"]] for d in data],
        remark=". ".join(part for part in (published_words(cells), cut) if part),
        latencies=column.name.startswith("latency"),
    )


def _intervals(mixes: Mixes, column: Column) -> list[Interval]:
    return [c.values[column.key] for _, _, c in mixes.cells() if column.key in c.values]


def _bounds(mixes: Mixes, column: Column, cells: Sequence[PublishedCell]) -> tuple[float, float]:
    """Return the ends of a logarithmic axis with space for labels and for the smallest bar."""
    intervals = _intervals(mixes, column)
    values = [
        value for value in (*(i.estimate for i in intervals), *(c.value for c in cells)) if value
    ]
    return log_reach([*values, min(values) / 2.5, max(values) * 1.4], intervals)


def _unit(column: Column) -> str:
    return "time" if column.unit == "ns" else column.unit


def _measured(mixes: Mixes, column: Column, bounds: tuple[float, float]) -> list[dict[str, Any]]:
    data = []
    for mix, index, cell in mixes.cells():
        value = cell.values.get(column.key)
        data.append(
            {
                "x": mix,
                "series": cell.target,
                "name": cell.target,
                "index": index,
                "fill": fill_of(index, cell.provenance),
                "value": None if value is None else value.estimate,
                **({} if value is None else ends_within(value, bounds)),
                "label": "" if value is None else _label(column, value.estimate),
                "text": MISSING
                if value is None
                else interval_text(value, lambda v: _text(column, v)),
                "provenance": cell.provenance,
                "source": "this campaign",
            }
        )
    return data


def _printed(mixes: Mixes, column: Column, cells: list[PublishedCell]) -> list[dict[str, Any]]:
    mix_of = {p.key: mix for mix, p in zip(mixes.order, mixes.points, strict=True)}
    index = mixes.comparison.series_index
    return [
        {
            "x": mix_of[cell.point_key],
            "series": cell.label,
            "name": cell.config,
            "index": index(cell),
            "fill": fill_of(index(cell), "published"),
            "value": cell.value,
            "low": cell.value,
            "high": cell.value,
            "label": cell.printed or _label(column, cell.value, digits="g"),
            "text": cell.printed or _text(column, cell.value),
            "provenance": "published",
            "source": f"{cell.source}, row {', '.join(cell.rows)}",
        }
        for cell in cells
    ]


def _plot(
    mixes: Mixes,
    column: Column,
    data: list[dict[str, Any]],
    series: list[str],
    bounds: tuple[float, float],
) -> Plot:
    """Make the chart, with a logarithmic axis, as published and measured values may differ much."""
    used = [name for name in series if any(d["series"] == name for d in data)]
    is_time = column.unit == "ns"
    unit, label = ("ms", MS_LABELS) if is_time else (column.unit, "format(datum.value, ',~r')")
    y = logarithmic("value", [column.label, f"({unit}, log scale)"], bounds, expr=label)
    for datum in data:
        datum["floor"] = bounds[0]
    plot = Plot(mixes.x(), y, used, by="series")
    words = {
        "series": "configuration",
        "x": "mix",
        "text": column.label,
        "provenance": "provenance",
        "source": "source",
    }
    if is_time:
        _points(plot, data, used, tooltip(words))
    else:
        plot.bars("values", data, words, y2="floor:Q")
    plot.labels("values")
    return plot


def _points(
    plot: Plot, data: list[dict[str, Any]], used: list[str], tips: list[alt.Tooltip]
) -> None:
    """Add markers with intervals; those of values that were not measured are hatched."""
    first = {d["series"]: d for d in reversed(data)}

    def scale(values: list[str]) -> alt.Scale:
        return alt.Scale(domain=used, range=values)

    colours = alt.Color(
        "series:N",
        title=None,
        scale=scale([series_role(first[name]["index"]) for name in used]),
        legend=alt.Legend(columns=legend_columns(used), symbolOpacity=1),
    )
    shapes = scale([SHAPES[first[name]["index"] % len(SHAPES)] for name in used])
    fills = scale([first[name]["fill"] for name in used])
    plot.source("values", data)
    plot.intervals("values", colours, 2.4)
    plot.add(
        plot.source("values").mark_point(size=90, strokeWidth=1.6, opacity=1),
        y=plot.y,
        color=colours,
        fill=alt.Fill("series:N", title=None, scale=fills),
        shape=alt.Shape("series:N", title=None, scale=shapes),
        tooltip=tips,
    )
