"""Published beside measured, by mix: throughput, latency and time to first byte.

For families whose mixes are what a publication sweeps, and which has no axis beside them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import altair as alt

from storlab.analysis.columns import COLUMNS, Column
from storlab.analysis.compare import Comparison
from storlab.analysis.points import Section
from storlab.analysis.published import PublishedCell, published_words
from storlab.figures.common import MISSING, digits3, interval_text, latency_text, sentence
from storlab.figures.figure import Figure
from storlab.figures.mixes import Mixes, fill, mixes_of
from storlab.figures.theme import (
    HEIGHT,
    WIDTH,
    configured,
    fill_of,
    label_room,
    log_bounds,
    log_ticks,
    role,
)

SHOWN = ("throughput_mb_s", "latency_mean_ns", "ttfb_mean_ns")


def draw(comparison: Comparison, sections: Sequence[Section]) -> list[Figure]:
    """One figure per quantity that is published at these mixes, and per small multiple."""
    found: list[Figure] = []
    for family in dict.fromkeys(section.family for section in sections):
        of_family = [section for section in sections if section.family == family]
        if of_family[0].page.split:
            found += [
                _figure(mixes, column)
                for mixes in mixes_of(comparison, of_family)
                for column in COLUMNS
                if column.name in SHOWN and _cells(mixes, column)
            ]
    return found


def _cells(mixes: Mixes, column: Column) -> list[PublishedCell]:
    keys = {point.key for point in mixes.points}
    return [
        cell
        for cell in mixes.comparison.published
        if cell.point_key in keys and cell.key == column.key
    ]


def _text(column: Column, value: float) -> str:
    return latency_text(value) if column.unit == "ns" else digits3(value)


def _label(column: Column, value: float, digits: str = "") -> str:
    """On top of a bar there is no room for a unit: the axis has it."""
    value = value / 1e6 if column.unit == "ns" else value
    return f"{value:g}" if digits else digits3(value)


def _figure(mixes: Mixes, column: Column) -> Figure:
    cells = _cells(mixes, column)
    cells = sorted(cells, key=mixes.comparison.series_index)
    configs = list(dict.fromkeys(cell.label for cell in cells))
    data = [*_measured(mixes, column), *_printed(mixes, column, cells)]
    sources = list(dict.fromkeys(cell.source for cell in cells))
    names = " and ".join(config.removesuffix(" (published)") for config in configs)
    what = column.label
    title = (
        f"{mixes.where(sentence(what))}: {names} as published, hatched, beside what was measured "
        "here"
    )
    stated = all(cell.stated for cell in cells)
    unsaid = "" if stated else " The publication does not name its concurrency."
    return Figure(
        name=mixes.name("published", column.name, column.operation),
        kind="published_mixes",
        title=title,
        alt=f"Bar chart of {what} by mix, measured and published ({', '.join(sources)}), on a "
        f"logarithmic scale. {title}.{unsaid}",
        spec=configured(_chart(mixes, column, data, [*mixes.targets, *configs]), {"bars": data}),
        columns=["mix", "configuration", f"{what} ({_unit(column)})", "provenance", "source"],
        rows=[[d["x"], d["name"], d["text"], d["provenance"], d["source"]] for d in data],
        point_ids=mixes.point_ids,
        note=mixes.place,
        remark=published_words(cells),
    )


def _unit(column: Column) -> str:
    return "time" if column.unit == "ns" else column.unit


def _measured(mixes: Mixes, column: Column) -> list[dict[str, Any]]:
    data = []
    for mix, index, cell in mixes.cells():
        value = cell.values.get(column.key)
        data.append(
            {
                "x": mix,
                "series": cell.target,
                "name": cell.target,
                "fill": fill_of(index, cell.provenance),
                "value": None if value is None else value.estimate,
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
    mix_of = {point.key: section.mix for section, point in mixes.places}
    return [
        {
            "x": mix_of[cell.point_key],
            "series": cell.label,
            "name": cell.config,
            "fill": fill_of(mixes.comparison.series_index(cell), "published"),
            "value": cell.value,
            "label": cell.printed or _label(column, cell.value, digits="g"),
            "text": cell.printed or _text(column, cell.value),
            "provenance": "published",
            "source": f"{cell.source}, row {', '.join(cell.rows)}",
        }
        for cell in cells
    ]


def _chart(
    mixes: Mixes, column: Column, data: list[dict[str, Any]], series: list[str]
) -> alt.TopLevelMixin:
    """Logarithmic, because what is published and what is measured may be decades apart."""
    values = [float(d["value"]) for d in data if d["value"]]
    low, high = log_bounds([*values, min(values) / 2.5, max(values) * 1.4])
    used = [name for name in series if any(d["series"] == name for d in data)]
    is_time = column.unit == "ns"
    ticks = log_ticks(low, high)
    axis = (
        alt.Axis(values=ticks, labelExpr="format(datum.value / 1e6, ',~g')")
        if is_time
        else alt.Axis(values=ticks, format=",~r")
    )
    title = f"{column.label} (ms, log scale)" if is_time else f"{column.label} (MB/s, log scale)"
    y = alt.Y(
        "value:Q",
        title=title,
        scale=alt.Scale(type="log", domain=[low, high], nice=False),
        axis=axis,
    )
    for datum in data:
        datum["floor"] = low
    scale = alt.Scale(domain=used, paddingInner=0.1)
    base = alt.Chart(alt.NamedData("bars")).transform_filter("isValid(datum.value)")
    tooltip = [
        alt.Tooltip(f"{name}:N", title=text)
        for name, text in (
            ("series", "configuration"),
            ("x", "mix"),
            ("text", column.label),
            ("provenance", "provenance"),
            ("source", "source"),
        )
    ]
    x = mixes.x()
    bars = base.mark_bar().encode(
        x=x,
        xOffset=alt.XOffset("series:N", sort=used, scale=scale),
        y=y,
        y2="floor:Q",
        fill=fill(data),
        tooltip=tooltip,
    )
    words = base.mark_text(dy=-3, fontSize=10, baseline="bottom", color=role("fig-ink")).encode(
        x=x,
        xOffset=alt.XOffset("series:N", sort=used, bandPosition=0.5, scale=scale),
        y="value:Q",
        text="label:N",
    )
    layers = [bars, words] if label_room([d["label"] for d in data], WIDTH, 10) else [bars]
    return alt.layer(*layers).properties(width=WIDTH, height=HEIGHT)
