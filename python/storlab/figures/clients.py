"""Figure of each client's throughput relative to the mean of all clients of a cluster."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import altair as alt

from storlab.analysis.clients import Balance, Seen, balance_of, by_client, clients_of
from storlab.analysis.compare import Comparison
from storlab.analysis.points import Section, WorkloadPoint
from storlab.figures.common import digits3, figure_name, last_point, place_at, point_ids
from storlab.figures.figure import Figure
from storlab.figures.lines import Rule, rule_layers
from storlab.figures.theme import HEIGHT, WIDTH, colour, configured, role, shape

FAIR = 0.8  # clients below this share are flagged
MOST_NAMES = 16  # most clients labelled by name; beyond this the axis shows numbers


def draw(comparison: Comparison, sections: Sequence[Section]) -> list[Figure]:
    """Draw one figure per block size, at the last point of the axis."""
    drawn = []
    for section in sections:
        for facet in section.facets():
            point = last_point(comparison, section, facet)
            if point is not None:
                drawn.append(_figure(comparison, section, facet, point))
    return [figure for figure in drawn if figure is not None]


def _figure(
    comparison: Comparison, section: Section, facet: Any, point: WorkloadPoint
) -> Figure | None:
    cells = comparison.row(point).cells
    balances = {
        target: balance
        for target in comparison.planned([point])
        if (balance := balance_of(cells[target])) is not None
    }
    if not balances:
        return None
    targets = list(balances)
    seen = {target: by_client(clients_of(cells[target])) for target in targets}
    names = list(dict.fromkeys(name for clients in seen.values() for name in clients))
    data = [
        datum
        for target in targets
        for name, runs in seen[target].items()
        if (datum := _datum(target, name, names.index(name) + 1, runs)) is not None
    ]
    where = place_at(section, facet, point)
    slowest = ", ".join(_words(t, b) for t, b in balances.items())
    title = f"{where}: the slowest of {len(names)} clients is {slowest}"
    chart = _chart(comparison, targets, names, data)
    return Figure(
        name=figure_name("balance", section, facet),
        kind="client_balance",
        title=title,
        alt="Markers: throughput of each client over the mean of all clients, one per target. "
        f"{title}",
        spec=configured(chart, {"clients": data}),
        columns=["client", "target", "share of a fair share", "least run", "most", "MB/s"],
        rows=[
            [d["client"], d["target"], *(digits3(d[k]) for k in ("value", "low", "high", "mb_s"))]
            for d in data
        ],
        point_ids=point_ids(comparison, [point]),
        note=where,
    )


def _words(target: str, balance: Balance) -> str:
    name, least = balance.least
    return f"{name} on {target} with {100 * least:.0f}\u00a0% of its fair share"


def _datum(target: str, name: str, number: int, runs: Sequence[Seen]) -> dict[str, Any] | None:
    shares = [share for run in runs if (share := run.share) is not None]
    if not shares:
        return None
    rates = [run.client.bytes_s for run in runs]
    return {
        "target": target,
        "client": name,
        "number": number,
        "value": float(f"{sum(shares) / len(shares):.6g}"),
        "low": float(f"{min(shares):.6g}"),
        "high": float(f"{max(shares):.6g}"),
        "mb_s": float(f"{sum(rates) / len(rates) / 1e6:.6g}"),
    }


def _chart(
    comparison: Comparison, targets: list[str], names: list[str], data: list[dict[str, Any]]
) -> alt.TopLevelMixin:
    colours = colour(comparison.targets, targets)
    place: dict[str, Any] = {
        "x": alt.X(
            "number:Q",
            title="client, in the order of the study",
            scale=alt.Scale(nice=False, zero=False),
            axis=alt.Axis(format="d", tickMinStep=1),
        )
    }
    if len(names) <= MOST_NAMES:
        beside = alt.Scale(domain=targets)
        place = {
            "x": alt.X("client:O", sort=names, title="client", axis=alt.Axis(labelOverlap=True)),
            "xOffset": alt.XOffset("target:N", sort=targets, bandPosition=0.5, scale=beside),
        }
    top = 1.1 * max(1.0, *(datum["high"] for datum in data))
    y = alt.Y(
        "value:Q",
        title="throughput / mean of all",
        scale=alt.Scale(domain=[0, top], nice=False),
        axis=alt.Axis(format="~r", tickCount=6),
    )
    tooltip = [
        alt.Tooltip("target:N"),
        alt.Tooltip("client:N"),
        alt.Tooltip("value:Q", title="of a fair share", format=".3r"),
        alt.Tooltip("mb_s:Q", title="MB/s", format=",.3~r"),
    ]
    base = alt.Chart(alt.NamedData("clients"))
    fair = alt.Chart(alt.Data(values=[{"fair": 1}])).mark_rule(color=role("fig-rule"))
    layers = [
        fair.encode(y=alt.Y("fair:Q")),
        *rule_layers(Rule(FAIR, "below: flagged")),
        base.mark_rule(strokeWidth=1.6).encode(
            **place, y=alt.Y("low:Q"), y2="high:Q", color=colours
        ),
        base.mark_point(size=52, filled=True, opacity=1).encode(
            **place, y=y, color=colours, shape=shape(comparison.targets, targets), tooltip=tooltip
        ),
    ]
    return alt.layer(*layers).properties(width=WIDTH, height=HEIGHT)
