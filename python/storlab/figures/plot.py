"""Builder of Vega-Lite charts from layers such as bars, intervals, dots and labels."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import altair as alt

from storlab.analysis.columns import Column
from storlab.analysis.compare import Cell
from storlab.base.units import format_number
from storlab.figures.common import plotted
from storlab.figures.theme import (
    HEIGHT,
    LATENCY_LABELS,
    WIDTH,
    configured,
    fill_of,
    label_room,
    legend_columns,
    log_ticks,
    role,
    series_label,
)
from storlab.model.decision import Interval
from storlab.words.text import interval_text

Records = Sequence[Mapping[str, Any]]
INK = alt.ColorValue(role("fig-ink"))
BESIDE_PX = 7  # distance from the interval at which the dots of single runs are drawn


@dataclass(frozen=True, slots=True)
class Rule:
    """Horizontal line with a caption, such as a threshold."""

    value: float
    text: str


def linear(
    field: str,
    title: Any,
    top: float,
    *,
    form: str = ",~r",
    ticks: int = 6,
    to: Any = alt.Y,
    **axis: Any,
) -> Any:
    """Make a linear axis from 0 to ``top``; ``to`` is ``alt.X`` or ``alt.Y``.

    ``axis`` are further arguments of ``alt.Axis``.
    """
    return to(
        f"{field}:Q",
        title=title,
        scale=alt.Scale(domain=[0, top], nice=False),
        axis=alt.Axis(format=form, tickCount=ticks, **axis),
    )


def logarithmic(
    field: str,
    title: Any,
    bounds: tuple[float, float],
    *,
    expr: str = LATENCY_LABELS,
    room: float = 2.2,
    most: int = 9,
    to: Any = alt.Y,
    **axis: Any,
) -> Any:
    """Make a logarithmic axis, by default a vertical one of times in ns.

    Args:
        field: Field of the data.
        title: Title of the axis.
        bounds: Ends of the axis.
        expr: Vega expression for a tick's label; empty if ``axis`` has a number format.
        room: Most decades at which ticks at 2 and 5 times a power of ten are drawn.
        most: Largest number of ticks.
        to: ``alt.X`` or ``alt.Y``.
        axis: Further arguments of ``alt.Axis``.
    """
    low, high = bounds
    text: dict[str, Any] = {"labelExpr": expr} if expr else {}
    return to(
        f"{field}:Q",
        title=title,
        scale=alt.Scale(type="log", domain=[low, high], nice=False),
        axis=alt.Axis(values=log_ticks(low, high, room, most), **text, **axis),
    )


def groups(order: Sequence[Any], title: Any, axis: alt.Axis, field: str = "x") -> alt.X:
    """Make a horizontal axis with a group of bars at each value of ``order``."""
    return alt.X(
        f"{field}:O",
        sort=list(order),
        title=title or None,
        scale=alt.Scale(paddingInner=0.24, paddingOuter=0.14),
        axis=axis,
    )


def tooltip(words: Mapping[str, str]) -> list[alt.Tooltip]:
    """Make a tooltip from names of data fields and their titles."""
    return [alt.Tooltip(f"{name}:N", title=title) for name, title in words.items()]


def fill(data: Records) -> alt.Fill:
    """Make the fill colours of bars and their legend from the fields ``series`` and ``fill``."""
    fills = {d["series"]: d["fill"] for d in data}
    return alt.Fill(
        "series:N",
        title=None,
        scale=alt.Scale(domain=list(fills), range=list(fills.values())),
        legend=alt.Legend(
            symbolType="square",
            symbolOpacity=1,
            symbolStrokeWidth=0,
            columns=legend_columns(list(fills)),
        ),
    )


def series_of(cell: Cell, index: int, provenance: str = "") -> dict[str, str]:
    """Return the chart data that all bars of a target share: names, fill, provenance, run ids.

    Args:
        cell: Results of the target.
        index: Index of the target, which selects its colour.
        provenance: Provenance of the values; by default that of the cell.
    """
    provenance = provenance or cell.provenance
    return {
        "target": cell.target,
        "series": series_label(cell.target, provenance),
        "fill": fill_of(index, provenance),
        "provenance": provenance,
        "runs": ", ".join(cell.run_ids),
    }


def heights(interval: Interval) -> dict[str, Any]:
    """Return the chart data of a bar's height: mean, ends of the interval, and texts.

    Without an interval, ``low`` and ``high`` equal the mean.
    """
    estimate = interval.estimate
    low = estimate if interval.low is None else interval.low
    high = estimate if interval.high is None else interval.high
    whisker = {"value": estimate, "low": low, "high": high}
    return {
        **{name: plotted(value) for name, value in whisker.items()},
        "label": format_number(estimate),
        "text": interval_text(interval),
    }


def runs_of(cell: Cell, column: Column, x: str) -> list[dict[str, Any]]:
    """Return the chart data of a dot per run, to be drawn beside the bar at ``x``."""
    return [
        {"x": x, "target": cell.target, "value": plotted(value)} for value in cell.repeats(column)
    ]


def key_of_shades(plot: Plot, name: str, field: str, shades: Mapping[str, float]) -> None:
    """Add an invisible layer whose only purpose is a legend of shades, from solid to pale.

    Vega-Lite does not draw a legend if only the opacity of the fill differs.

    Args:
        plot: Chart with a data set ``name``.
        name: Data set of the bars.
        field: Field with the text of the legend.
        shades: Opacity of each text.
    """
    key = plot.source(name).mark_square(size=0, strokeWidth=0, color=role("fig-ink"))
    shade = alt.Opacity(
        f"{field}:N",
        title=None,
        sort=list(shades),
        scale=alt.Scale(domain=list(shades), range=list(shades.values())),
        legend=alt.Legend(
            orient="bottom",
            symbolType="square",
            symbolFillColor=role("fig-ink"),
            symbolStrokeColor=role("fig-ink"),
            symbolStrokeWidth=1,
        ),
    )
    plot.layers.append(key.encode(x=plot.middle["x"], y=plot.y, opacity=shade))


class Plot:
    """Chart under construction: layers and their data; most methods add a layer on top."""

    def __init__(
        self, x: Any, y: Any, beside: Sequence[str] = (), *, by: str = "target", gap: float = 0.1
    ) -> None:
        """Make an empty chart.

        Args:
            x: Horizontal axis.
            y: Vertical axis.
            beside: Names of series, such as targets, to be side by side at each value of ``x``.
            by: Data field with the name of the series.
            gap: Space between bars of a group, as a fraction of the space per bar.
        """
        self.y = y
        self.layers: list[alt.Chart] = []
        self.data: dict[str, Records] = {}
        self.band: dict[str, Any] = {"x": x}
        self.middle: dict[str, Any] = {"x": x}
        if beside:
            of_series: dict[str, Any] = {
                "shorthand": f"{by}:N",
                "sort": list(beside),
                "scale": alt.Scale(domain=list(beside), paddingInner=gap),
            }
            self.band["xOffset"] = alt.XOffset(**of_series)
            self.middle["xOffset"] = alt.XOffset(**of_series, bandPosition=0.5)

    def source(self, name: str, records: Records | None = None) -> alt.Chart:
        """Return a chart that draws the data set of this name; first set its records, if given."""
        if records is not None:
            self.data[name] = records
        return alt.Chart(alt.NamedData(name))

    def add(self, layer: alt.Chart, **channels: Any) -> None:
        """Add a layer of marks at the middle of each bar's space."""
        self.layers.append(layer.encode(**{**self.middle, **channels}))

    def bars(self, name: str, records: Records, words: Mapping[str, str], **channels: Any) -> None:
        """Add bars with intervals from ``low`` to ``high``, and with tooltips."""
        encoded = {"y": self.y, "fill": fill(records), "tooltip": tooltip(words), **channels}
        self.add(self.source(name, records).mark_bar(), **self.band, **encoded)
        if any("low" in record for record in records):
            self.intervals(name)

    def intervals(self, name: str, colour: Any = INK, width: float = 1.4) -> None:
        """Add a vertical line from ``low`` to ``high`` for each record."""
        rule = self.source(name).mark_rule(strokeWidth=width)
        self.add(rule, y=alt.Y("low:Q"), y2="high:Q", color=colour)

    def runs(self, records: Records) -> None:
        """Add a small open dot beside the bar for each run."""
        dots = self.source("dots", records).mark_point(
            size=14, strokeWidth=1, opacity=0.9, fill=role("fig-paper"), dx=BESIDE_PX
        )
        self.add(dots, y=alt.Y("value:Q"), color=INK)

    def labels(self, name: str, width: float = WIDTH, at: str = "high") -> None:
        """Add the text in data field ``label`` above each bar, unless the texts would overlap."""
        if not label_room([record["label"] for record in self.data[name]], width):
            return
        ground: dict[str, Any] = {"stroke": role("fig-paper"), "strokeWidth": 4}
        for look in (ground, {}):  # the ground keeps intervals and grid out of the text
            text = self.source(name).mark_text(dy=-6, baseline="bottom", **look)
            self.add(text, y=alt.Y(f"{at}:Q"), text="label:N")

    def markers(
        self, name: str, colours: Any, shapes: Any, tips: list[alt.Tooltip], size: int, **more: Any
    ) -> None:
        """Add a marker at the value of each record."""
        mark = self.source(name).mark_point(size=size, opacity=1, **{"filled": True, **more})
        self.add(mark, y=self.y, color=colours, shape=shapes, tooltip=tips)

    def rings(self, name: str, records: Records, field: str = "value", size: int = 190) -> None:
        """Add a ring around values, to point out those that the title is about."""
        ring = self.source(name, records).mark_point(
            size=size, strokeWidth=1.5, filled=False, shape="circle"
        )
        self.add(ring, y=alt.Y(f"{field}:Q"), color=INK)

    def rule(self, rule: Rule) -> None:
        """Add a dotted horizontal line over the full width, with a caption below its left end."""
        data = alt.Data(values=[{"rule": rule.value, "text": rule.text}])
        line = alt.Chart(data).mark_rule(strokeWidth=1.5, strokeDash=[2, 3], color=role("fig-ink"))
        words = alt.Chart(data).mark_text(
            align="left", baseline="top", dx=4, dy=4, color=role("fig-ink")
        )
        y = alt.Y("rule:Q")
        self.layers += [
            line.encode(y=y),
            words.encode(x=alt.XValue(0), y=y, text="text:N"),
        ]

    def chart(
        self, width: float = WIDTH, height: float = HEIGHT
    ) -> alt.LayerChart | alt.FacetChart:
        """Return the chart of all layers, without data sets."""
        return alt.layer(*self.layers).properties(width=width, height=height)

    def spec(self, width: float = WIDTH, height: float = HEIGHT) -> dict[str, Any]:
        """Return the Vega-Lite specification of the chart with its data sets."""
        return configured(self.chart(width, height), self.data)
