"""Figure of the declared costs of each target: servers, network and storage, stacked."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import altair as alt

from storlab.analysis.compare import Comparison
from storlab.analysis.density import costs
from storlab.analysis.points import Section
from storlab.base.units import TB, format_number
from storlab.figures.common import slug
from storlab.figures.figure import Figure
from storlab.figures.plot import Plot
from storlab.figures.theme import WIDTH, configured, part_fill, role

PARTS = ("servers", "network", "storage")
BAR = 22
LINE = 13  # line height in px of the text below a bar


def draw(comparison: Comparison, _sections: Sequence[Section]) -> list[Figure]:
    """Draw a figure per currency, because amounts in two currencies cannot share an axis."""
    targets = comparison.dataset.targets
    costed = [(i, column) for i, column in enumerate(targets) if costs(column.target)]
    currencies = list(dict.fromkeys(column.target.currency for _, column in costed))
    return [
        _figure(currency, [(i, c) for i, c in costed if c.target.currency == currency])
        for currency in currencies
    ]


def _figure(currency: str, columns: list[tuple[int, Any]]) -> Figure:
    data = [datum for index, column in columns for datum in _data(index, column, currency)]
    ends = [_end(column, currency) for _, column in columns]
    title = f"Cost as declared: {'; '.join(e['clause'] for e in ends)}"
    return Figure(
        name=slug("cost", currency),
        kind="cost_stack",
        title=title,
        shows=f"Stacked bar chart of declared costs in {currency}: {' + '.join(PARTS)}",
        spec=_spec(data, ends, currency),
        columns=["target", *(f"{part} ({currency})" for part in PARTS), "together", "per TB"],
        rows=[_row(column) for _, column in columns],
        note="declared in the study",
    )


def _data(index: int, column: Any, currency: str) -> list[dict[str, Any]]:
    data, start = [], 0.0
    for name, value in costs(column.target):
        data.append(
            {
                "target": column.label,
                "part": name,
                "from": start,
                "to": start + value,
                "fill": part_fill(index, PARTS.index(name)),
                "text": f"{currency} {value:,.0f} (declared)",
            }
        )
        start += value
    return data


def _end(column: Any, currency: str) -> dict[str, Any]:
    parts = costs(column.target)
    total = sum(value for _, value in parts)
    end = f"{total:,.0f}"
    per_tb = _per_tb(column, total)
    words = " + ".join(f"{name} {value:,.0f}" for name, value in parts)
    words = words.replace(f" + {PARTS[-1]}", f"|+ {PARTS[-1]}")  # position of the line break
    absent = [part for part in PARTS if part not in dict(parts)]
    if absent:
        words += f"|{' and '.join(absent)} not declared"
    return {
        "target": column.label,
        "total": total,
        "label": end,
        "words": f"{words}; {per_tb} per TB" if per_tb else words,
        "clause": f"{column.label} {currency} {end}" + (f" ({per_tb} per TB)" if per_tb else ""),
    }


def _per_tb(column: Any, total: float) -> str:
    capacity = column.target.capacity
    return format_number(total / (capacity / TB)) if capacity else ""


def _row(column: Any) -> list[str]:
    parts = dict(costs(column.target))
    total = sum(parts.values())
    amounts = [f"{parts[part]:,.0f}" if part in parts else "not declared" for part in PARTS]
    return [column.label, *amounts, f"{total:,.0f}", _per_tb(column, total) or "–"]


def _row_height(ends: list[dict[str, Any]]) -> float:
    """Return the height in px of a row: a bar, text lines below it, and equal space above it."""
    lines: int = max(end["words"].count("|") + 1 for end in ends)
    return BAR + 2 * (6 + LINE * lines)


def _spec(data: list[dict[str, Any]], ends: list[dict[str, Any]], currency: str) -> dict[str, Any]:
    order = [end["target"] for end in ends]
    top = max(end["total"] for end in ends) * 1.3
    y = alt.Y(
        "target:N",
        sort=order,
        title=None,
        axis=alt.Axis(domain=False, ticks=False, labelLimit=120, labelColor=role("fig-ink")),
    )
    x = alt.X(
        "from:Q",
        title=f"{currency}, declared in the study",
        scale=alt.Scale(domain=[0, top], nice=False),
        axis=alt.Axis(format=",~s", tickCount=5, grid=True),
    )
    tips = [alt.Tooltip(f"{name}:N") for name in ("target", "part", "text")]
    plot = Plot(x, y)
    bars = plot.source("parts", data).mark_bar(
        height=BAR, stroke=role("fig-paper"), strokeWidth=1.5
    )
    fills = alt.Fill("fill:N", scale=None, legend=None)
    plot.add(bars, y=y, x2="to:Q", fill=fills, tooltip=tips)
    names = plot.source("ends", ends)
    plot.add(names.mark_text(align="left", dx=6), y=y, x="total:Q", text="label:N")
    words = names.mark_text(
        align="left", dy=BAR / 2 + 10, dx=1, lineBreak="|", color=role("fig-muted")
    )
    plot.add(words, y=y, x=alt.X(datum=0), text="words:N")
    chart = plot.chart(WIDTH - 80, _row_height(ends) * len(order))
    return configured(chart, plot.data, beside=order)
