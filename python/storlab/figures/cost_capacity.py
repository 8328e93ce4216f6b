"""Figure of the total declared cost of each configuration against its raw capacity in TB."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import altair as alt

from storlab.analysis.compare import Comparison
from storlab.analysis.density import whole_cost
from storlab.analysis.points import Section
from storlab.base.units import TB
from storlab.figures.common import digits3, slug
from storlab.figures.figure import Figure
from storlab.figures.theme import HEIGHT, WIDTH, colour, configured, fill_of, shape


def draw(comparison: Comparison, _sections: Sequence[Section]) -> list[Figure]:
    """Draw one figure per currency for which at least two targets declare cost and capacity."""
    by_currency: dict[str, list[dict[str, Any]]] = {}
    for column in comparison.dataset.targets:
        target, cost = column.target, whole_cost(column.target)
        if cost is None or not target.capacity:
            continue
        tb = target.capacity / TB
        fill = fill_of(comparison.targets.index(column.label), "declared")
        datum = {"target": column.label, "tb": tb, "cost": cost, "per_tb": cost / tb, "fill": fill}
        usable = None if target.usable is None else target.usable / TB
        by_currency.setdefault(target.currency, []).append(datum | {"usable": usable})
    return [
        _figure(comparison, currency, data)
        for currency, data in by_currency.items()
        if len(data) > 1
    ]


def _figure(comparison: Comparison, currency: str, data: list[dict[str, Any]]) -> Figure:
    title = "; ".join(
        f"{d['target']} holds {digits3(d['tb'])}\u00a0TB for {currency} {d['cost']:,.0f}, "
        f"{d['per_tb']:,.0f} per TB"
        for d in data
    )
    return Figure(
        name=slug("cost-capacity", currency),
        kind="cost_capacity",
        title=f"As declared: {title}",
        alt=f"Markers: declared cost in {currency} against raw capacity in TB. {title}",
        spec=configured(_chart(comparison, currency, data), {"targets": data}),
        columns=["target", "raw (TB)", "usable (TB)", f"cost ({currency})", "per TB raw"],
        rows=[
            [
                d["target"],
                digits3(d["tb"]),
                "–" if d["usable"] is None else digits3(d["usable"]),
                f"{d['cost']:,.0f}",
                f"{d['per_tb']:,.0f}",
            ]
            for d in data
        ],
        note="declared in the study",
    )


def _chart(comparison: Comparison, currency: str, data: list[dict[str, Any]]) -> alt.TopLevelMixin:
    targets = [d["target"] for d in data]
    right, top = 1.15 * max(d["tb"] for d in data), 1.2 * max(d["cost"] for d in data) or 1.0
    x = alt.X(
        "tb:Q",
        title="raw capacity (TB)",
        scale=alt.Scale(domain=[0, right], nice=False),
        axis=alt.Axis(format=",~r", tickCount=6, labelOverlap=True),
    )
    y = alt.Y(
        "cost:Q",
        title=f"cost ({currency}), declared",
        scale=alt.Scale(domain=[0, top], nice=False),
        axis=alt.Axis(format=",~s", tickCount=6),
    )
    base = alt.Chart(alt.NamedData("targets")).encode(x=x, y=y)
    fills = alt.Scale(domain=targets, range=[d["fill"] for d in data])
    marks = base.mark_point(size=110, strokeWidth=1.6, opacity=1).encode(
        color=colour(comparison.targets, targets),
        fill=alt.Fill("target:N", title=None, scale=fills),
        shape=shape(comparison.targets, targets),
        tooltip=[
            alt.Tooltip("target:N"),
            alt.Tooltip("tb:Q", title="raw TB", format=",.5~r"),
            alt.Tooltip("cost:Q", title=currency, format=",.0f"),
        ],
    )
    chart: alt.TopLevelMixin = marks.properties(width=WIDTH, height=HEIGHT)
    return chart
