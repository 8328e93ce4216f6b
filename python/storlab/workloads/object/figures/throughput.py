"""Throughput by mix: of all requests together, and of each kind that moves bytes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import altair as alt

from storlab.analysis.columns import Column
from storlab.analysis.compare import Comparison
from storlab.analysis.points import Section
from storlab.figures.common import (
    MISSING,
    digits3,
    interval_text,
    operations_of,
    sentence,
    times_text,
)
from storlab.figures.figure import Figure
from storlab.figures.mixes import Mixes, fill, mixes_of, series_of
from storlab.figures.theme import HEIGHT, configured, role

NAME = "throughput_mb_s"
MOST_LABELLED = 10  # more bars than this carry no number on top
NARROW = 275  # three of them stand in one row
BESIDE_PX = 7  # raw dots stand beside the interval, not under it


def draw(comparison: Comparison, sections: Sequence[Section]) -> list[Figure]:
    """Per small multiple a figure of the total and one per operation, on one vertical scale."""
    found = []
    for mixes in mixes_of(comparison, sections):
        every = [("all", "all requests"), *operations_of(mixes.section)]
        columns = [(comparison.column(f"{NAME}.{op}"), words) for op, words in every]
        known = [(column, words) for column, words in columns if column is not None]
        ceiling = max((_top(mixes, column) for column, _ in known), default=1.0)
        figures = [_one(mixes, column, words, ceiling) for column, words in known]
        found += [figure for figure in figures if figure is not None]
    return found


def _top(mixes: Mixes, column: Column) -> float:
    values = [
        value
        for _, _, cell in mixes.cells()
        if (interval := cell.values.get(column.key)) is not None
        for value in (interval.estimate, interval.high or 0.0, *cell.repeats(column))
    ]
    return max(values, default=1.0)


def _one(mixes: Mixes, column: Column, words: str, ceiling: float) -> Figure | None:
    bars, dots = _data(mixes, column)
    if not bars:
        return None
    title = f"{mixes.where(sentence(words))}: {_said(mixes, column, bars)}"
    return Figure(
        name=mixes.name("throughput-by-mix", column.operation),
        kind="object_throughput",
        title=title,
        alt=f"Bar chart of throughput of {words} in MB/s by mix. {title}",
        spec=configured(_chart(mixes, bars, ceiling), {"bars": bars, "dots": dots}),
        columns=["mix", "target", "MB/s, mean [95 %]", "single runs (MB/s)"],
        rows=[
            [
                mix,
                cell.target,
                interval_text(cell.values.get(column.key)),
                ", ".join(digits3(value) for value in cell.repeats(column)) or MISSING,
            ]
            for mix, _, cell in mixes.cells()
        ],
        point_ids=mixes.point_ids,
        note=mixes.place,
    )


def _data(mixes: Mixes, column: Column) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    bars, dots = [], []
    for mix, index, cell in mixes.cells():
        interval = cell.values.get(column.key)
        if interval is None:
            continue
        estimate = interval.estimate
        bars.append(
            {
                "x": mix,
                **series_of(cell, index),
                "value": round(estimate, 3),
                "low": round(estimate if interval.low is None else interval.low, 3),
                "high": round(estimate if interval.high is None else interval.high, 3),
                "label": digits3(estimate),
                "text": interval_text(interval),
            }
        )
        dots += [
            {"x": mix, "target": cell.target, "value": round(value, 3)}
            for value in cell.repeats(column)
        ]
    return bars, dots


def _chart(mixes: Mixes, bars: list[dict[str, Any]], ceiling: float) -> alt.TopLevelMixin:
    x, offset, centred = mixes.x(), mixes.offset(), mixes.offset(centred=True)
    y = alt.Y(
        "value:Q",
        title="throughput (MB/s)",
        scale=alt.Scale(domain=[0, ceiling * 1.12], nice=False),
        axis=alt.Axis(format=",~r", tickCount=6),
    )
    ink = alt.ColorValue(role("fig-ink"))
    tooltip = [
        alt.Tooltip(f"{name}:N", title=text)
        for name, text in (
            ("series", "target"),
            ("x", "mix"),
            ("text", "MB/s, mean [95 %]"),
            ("runs", "runs"),
        )
    ]
    base = alt.Chart(alt.NamedData("bars"))
    raw = alt.Chart(alt.NamedData("dots")).mark_point(
        size=14, strokeWidth=1, opacity=0.9, fill=role("fig-paper"), dx=BESIDE_PX
    )
    layers = [
        base.mark_bar().encode(x=x, xOffset=offset, y=y, fill=fill(bars), tooltip=tooltip),
        base.mark_rule(strokeWidth=1.4).encode(
            x=x, xOffset=centred, y=alt.Y("low:Q"), y2="high:Q", color=ink
        ),
        raw.encode(x=x, xOffset=centred, y=alt.Y("value:Q"), color=ink),
    ]
    if len(bars) <= MOST_LABELLED:
        text = base.mark_text(dy=-6, fontSize=11, baseline="bottom")
        layers.append(text.encode(x=x, xOffset=centred, y=alt.Y("high:Q"), text="label:N"))
    return alt.layer(*layers).properties(width=NARROW, height=HEIGHT)


def _said(mixes: Mixes, column: Column, bars: list[dict[str, Any]]) -> str:
    comparison, parts = mixes.comparison, []
    for target in comparison.others:
        found = [comparison.row(point).ratios[target].get(column.key) for point in mixes.points]
        ratios = sorted(ratio.interval.estimate for ratio in found if ratio is not None)
        if ratios:
            span = times_text(ratios[0])
            if len(ratios) > 1:
                span += f" to {times_text(ratios[-1])}"
            parts.append(f"{target} moves {span} as much as {comparison.baseline}")
    if parts:
        return "; ".join(parts)
    values = sorted(float(bar["value"]) for bar in bars)
    return f"{digits3(values[0])} to {digits3(values[-1])} MB/s"
