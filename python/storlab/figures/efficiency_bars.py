"""Bar chart of throughput per watt by workload mix, with two vertical axes: MB/s/W and TB/kWh.

Both axes apply to the same bars, because 1 MB/s/W is 1 MB/J and exactly 3.6 TB/kWh.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import altair as alt

from storlab.analysis.compare import Cell, Comparison
from storlab.analysis.points import Section
from storlab.base.units import TB_KWH_PER_MB_J
from storlab.figures.axis_extent import cut_words
from storlab.figures.common import NOT_MEASURED
from storlab.figures.figure import Figure
from storlab.figures.mixes import LINES, Mixes, in_panels
from storlab.figures.panels import GAP
from storlab.figures.plot import Plot, groups, heights, series_of
from storlab.figures.theme import WIDTH, configured, role
from storlab.words.figures import ranges_title, ratios_of
from storlab.words.text import MISSING, all_named, and_list, interval_text

KEY = "efficiency_mb_s_w.all"
TB_KEY = "efficiency_tb_kwh.all"
WHAT = "throughput per watt"
SAY = "{larger} reaches {times} the throughput per watt of {smaller}"


def draw(comparison: Comparison, sections: Sequence[Section]) -> list[Figure]:
    """Draw the last point of each sweep, with a panel per block size (or other facet)."""
    if comparison.column(KEY) is None:
        return []
    return in_panels(comparison, sections, _figure, _title, 2 * GAP)


def _figure(mixes: Mixes) -> Figure | None:
    data, missing = _data(mixes)
    if not data:  # only other facets have data
        return None
    place, mix = mixes.whole_place, mixes.section.page.parameters.mix
    return mixes.figure(
        name=mixes.name("efficiency"),
        kind="efficiency_bars",
        title=_title([mixes]),
        shows="Bar chart of throughput per watt (MB/s/W, and the same as TB/kWh) by workload "
        f"at {place}",
        spec=_spec(mixes, data, missing),
        columns=[
            "mix" if mix else "workload",
            "target",
            "MB/s/W",
            "TB/kWh",
            "mean power (W)",
            "boundary",
            "provenance",
        ],
        rows=[_row(mix, cell) for mix, _, cell in mixes.cells()],
        note=place,
        remark="; ".join(filter(None, (_power_words(mixes), cut_words(data)))),
    )


def _data(mixes: Mixes) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    apart = len({cell.power.label for _, _, cell in mixes.cells() if cell.power}) > 1
    data: list[dict[str, Any]] = []
    missing: list[dict[str, Any]] = []
    for mix, index, cell in mixes.cells():
        value, account = cell.values.get(KEY), cell.power
        if value is None or account is None:
            missing.append({"x": mix, "target": cell.target, "text": MISSING})
            continue
        own = series_of(cell, index, account.provenance)
        own["series"] += f", {account.label}" if apart else ""
        data.append(
            {
                "x": mix,
                **own,
                **heights(value),
                "tb": interval_text(cell.values.get(TB_KEY)),
                "boundary": account.label,
            }
        )
    return data, missing


def _spec(
    mixes: Mixes, data: list[dict[str, Any]], missing: list[dict[str, Any]]
) -> dict[str, Any]:
    top = max((d["high"] for d in data), default=1.0) * 1.12
    ticks = _ticks(top)
    y = alt.Y(
        "value:Q",
        title="MB/s/W = MB/J",
        scale=alt.Scale(domain=[0, top], nice=False),
        axis=alt.Axis(values=ticks, format=",~r"),
    )
    axis = alt.Axis(labelExpr=LINES, labelLimit=220)
    plot = Plot(groups(mixes.order, mixes.x_title, axis), y, mixes.targets)
    words = {
        "series": "target",
        "x": "workload",
        "text": "MB/s/W [95 %]",
        "tb": "TB/kWh [95 %]",
        "boundary": "power at",
        "provenance": "provenance",
    }
    plot.bars("bars", data, words)
    width = mixes.size.width if mixes.size.panel else WIDTH - 30
    plot.labels("bars", width)
    if missing:
        gap = plot.source("missing", missing).mark_text(
            angle=270, align="left", baseline="middle", fontStyle="italic",
            color=role("fig-muted"), dx=4,
        )  # fmt: skip
        plot.add(gap, y=alt.Y(datum=0), text="text:N")
    for layer in plot.layers[1:]:
        layer.encoding.y.axis = None
    plot.layers.append(_energy_axis(top, ticks))
    chart = plot.chart(width, mixes.size.height).resolve_axis(y="independent")
    return configured(chart, plot.data)


def _energy_axis(top: float, ticks: list[float]) -> alt.Chart:
    """Return an invisible chart layer that adds the axis in TB/kWh on the right."""
    expression = f"format(datum.value * {TB_KWH_PER_MB_J}, ',~r')"
    axis = alt.Axis(orient="right", values=ticks, labelExpr=expression, grid=False, title="TB/kWh")
    rule = alt.Chart(alt.Data(values=[{"none": 0}])).mark_rule(opacity=0)
    axis_only: alt.Chart = rule.encode(
        y=alt.Y("none:Q", scale=alt.Scale(domain=[0, top], nice=False), axis=axis)
    )
    return axis_only


def _ticks(top: float) -> list[float]:
    """Return four to eight ticks of an axis from 0, in steps of 1, 2 or 5 times a power of ten."""
    power = 10.0 ** math.floor(math.log10(top))
    step = next(s for s in (power / 10, power / 5, power / 2, power, 2 * power) if top / s <= 7)
    return [round(step * i, 12) for i in range(int(top / step) + 1)]


def _row(mix: str, cell: Cell) -> list[str]:
    account = cell.power
    if account is None:
        return [mix, cell.target, MISSING, MISSING, MISSING, cell.power_missing or "–", "–"]
    texts = [interval_text(cell.values.get(key)) for key in (KEY, TB_KEY, "power_w.all")]
    return [mix, cell.target, *texts, account.label, account.provenance]


def _title(some: Sequence[Mixes]) -> str:
    """Return the ratios of all mixes and block sizes; which are not compared, and why."""
    comparison = some[0].comparison
    rows = [comparison.row(point) for mixes in some for point in mixes.points]
    for target in comparison.others:
        if any(target in row.refused for row in rows):
            sides = all_named((target, comparison.baseline))
            return f"{sides} are not compared: the meters cover different equipment"
    return ranges_title(ratios_of(comparison, rows, KEY), comparison.baseline, WHAT, SAY) or WHAT


def _power_words(mixes: Mixes) -> str:
    """Describe power that was not measured, or is of different equipment; empty if neither."""
    accounts = {cell.target: cell.power for _, _, cell in mixes.cells() if cell.power}
    weak = {t: account.provenance for t, account in accounts.items()
            if account.provenance in NOT_MEASURED}  # fmt: skip
    places = {account.label for account in accounts.values()}
    who = "" if len(weak) == len(accounts) else f" of {and_list([*weak])}"
    words = f"Power{who} is {and_list(list(dict.fromkeys(weak.values())))}" if weak else ""
    apart = f"{words}, at" if words else "Power at"
    return f"{apart} unequal boundaries" if len(places) > 1 else words
