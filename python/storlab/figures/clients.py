"""Figure of each cluster client's throughput relative to the mean of all clients."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import altair as alt

from storlab.analysis.clients import Balance, Seen, balance_of, by_client, clients_of
from storlab.base.units import format_number
from storlab.figures.figure import Figure, Place
from storlab.figures.plot import Plot, Rule, linear
from storlab.figures.theme import colour, role, shape
from storlab.words.text import named

FAIR = 0.8  # clients below this fraction of the mean are flagged
MOST_NAMES = 16  # most clients labelled by name; beyond this the axis shows numbers


def draw(far: Place) -> Figure | None:
    """Draw each client's throughput relative to the mean at one point; None if unknown."""
    balances = {
        target: balance
        for target, cell in far.cells.items()
        if (balance := balance_of(cell)) is not None
    }
    if not balances:
        return None
    seen = {target: by_client(clients_of(far.cells[target])) for target in balances}
    names = list(dict.fromkeys(name for clients in seen.values() for name in clients))
    data = [
        datum
        for target, clients in seen.items()
        for name, runs in clients.items()
        if (datum := _datum(target, name, names.index(name) + 1, runs)) is not None
    ]
    slowest = ", ".join(_words(t, b) for t, b in balances.items())
    return far.figure(
        kind="client_balance",
        name="balance",
        text=f"slowest client: {slowest}",
        shows="Markers: throughput of each client over the mean of all, one per target",
        spec=_plot(far, list(balances), names, data).spec(),
        columns=["client", "target", "share of the mean", "least run", "most", "MB/s"],
        rows=[
            [
                d["client"],
                d["target"],
                *(format_number(d[k]) for k in ("value", "low", "high", "mb_s")),
            ]
            for d in data
        ],
    )


def _words(target: str, balance: Balance) -> str:
    name, least = balance.least
    return f"{name} on {named(target)} ({100 * least:.0f}\u00a0% of the mean)"


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


def _plot(far: Place, targets: list[str], names: list[str], data: list[dict[str, Any]]) -> Plot:
    every = far.comparison.targets
    is_few = len(names) <= MOST_NAMES
    x = (
        alt.X("client:O", sort=names, title="client", axis=alt.Axis(labelOverlap=True))
        if is_few
        else alt.X(
            "number:Q",
            title="client, in the order of the study",
            scale=alt.Scale(nice=False, zero=False),
            axis=alt.Axis(format="d", tickMinStep=1),
        )
    )
    top = 1.1 * max(1.0, *(datum["high"] for datum in data))
    y = linear("value", "throughput / mean of all", top, form="~r")
    plot = Plot(x, y, targets if is_few else (), gap=0)
    fair = alt.Chart(alt.Data(values=[{"fair": 1}])).mark_rule(color=role("fig-rule"))
    plot.layers.append(fair.encode(y=alt.Y("fair:Q")))
    plot.rule(Rule(FAIR, "below: flagged"))
    colours = colour(every, targets)
    plot.source("clients", data)
    plot.intervals("clients", colours, 1.6)
    tips = [
        alt.Tooltip("target:N"),
        alt.Tooltip("client:N"),
        alt.Tooltip("value:Q", title="share of the mean", format=".3r"),
        alt.Tooltip("mb_s:Q", title="MB/s", format=",.3~r"),
    ]
    plot.markers("clients", colours, shape(every, targets), tips, 52)
    return plot
