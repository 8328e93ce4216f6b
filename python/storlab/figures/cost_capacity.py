"""Figure of the declared total cost of each target against its raw capacity in TB."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import altair as alt

from storlab.analysis.compare import Comparison
from storlab.analysis.density import whole_cost
from storlab.analysis.points import Section
from storlab.base.units import TB, format_number
from storlab.figures.common import slug
from storlab.figures.figure import Figure
from storlab.figures.plot import Plot, linear
from storlab.figures.theme import colour, fill_of, shape


def draw(comparison: Comparison, _sections: Sequence[Section]) -> list[Figure]:
    """Draw a figure per currency in which at least two targets declare cost and capacity."""
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
        f"{d['target']} holds {format_number(d['tb'])}\u00a0TB for {currency} {d['cost']:,.0f}, "
        f"{format_number(d['per_tb'])} per TB"
        for d in data
    )
    return Figure(
        name=slug("cost-capacity", currency),
        kind="cost_capacity",
        title=f"As declared: {title}",
        shows=f"Markers: declared cost in {currency} against raw capacity in TB",
        spec=_plot(comparison, currency, data).spec(),
        columns=["target", "raw (TB)", "usable (TB)", f"cost ({currency})", "per TB raw"],
        rows=[
            [
                d["target"],
                format_number(d["tb"]),
                "–" if d["usable"] is None else format_number(d["usable"]),
                f"{d['cost']:,.0f}",
                format_number(d["per_tb"]),
            ]
            for d in data
        ],
        note="declared in the study",
    )


def _plot(comparison: Comparison, currency: str, data: list[dict[str, Any]]) -> Plot:
    targets, every = [d["target"] for d in data], comparison.targets
    right, top = 1.15 * max(d["tb"] for d in data), 1.2 * max(d["cost"] for d in data) or 1.0
    x = linear("tb", "raw capacity (TB)", right, to=alt.X)
    plot = Plot(x, linear("cost", f"cost ({currency}), declared", top, form=",~s"))
    fills = alt.Scale(domain=targets, range=[d["fill"] for d in data])
    plot.add(
        plot.source("targets", data).mark_point(size=110, strokeWidth=1.6, opacity=1),
        y=plot.y,
        color=colour(every, targets),
        fill=alt.Fill("target:N", title=None, scale=fills),
        shape=shape(every, targets),
        tooltip=[
            alt.Tooltip("target:N"),
            alt.Tooltip("tb:Q", title="raw TB", format=",.5~r"),
            alt.Tooltip("cost:Q", title=currency, format=",.0f"),
        ],
    )
    return plot
