"""Figure of one run over time: latency heat map, throughput, device, power and temperature.

Panels are stacked on one time axis. Dips of throughput are shaded in all of them. Flags are bars
over the time at which they applied.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import altair as alt

from storlab.analysis.timeline import Stretch, Timeline
from storlab.base.units import format_number
from storlab.figures.common import plotted, slug
from storlab.figures.figure import Figure
from storlab.figures.plot import logarithmic
from storlab.figures.theme import (
    WIDTH,
    configured,
    log_bounds,
    role,
    series_role,
)
from storlab.words.text import latency_text

HEAT_HEIGHT, LANE_HEIGHT, FLAG_HEIGHT = 96, 56, 16
AXIS_PX = 46  # room for the axis labels, so that all lanes start at the same x
DEVICE = ("read", "written")


def timeline_figure(timeline: Timeline, index: int, where: str, point_ids: list[str]) -> Figure:
    """Draw a run over time.

    Args:
        timeline: Readings, dips and flags of the run.
        index: Index of the run's target, which selects the colour.
        where: Name of the run for the title.
        point_ids: Ids of the points that the figure is about.
    """
    record = timeline.run.record
    data = _data(timeline)
    lanes = [_heat(data["heat"], index), _rates(data, index)]
    lanes += [_device(data["device"])] if data["device"] else []
    lanes += [_line("power", "W", data["power"])] if data["power"] else []
    lanes += [_line("celsius", "°C", data["celsius"])] if data["celsius"] else []
    scale = alt.Scale(domain=[0, round(timeline.window_s, 3)], nice=False)
    layers = [[_dips(), lane] for lane in lanes]
    layers += [_flags(data["flags"])] if data["flags"] else []
    panels = [_panel(layer, scale, layer is layers[-1]) for layer in layers]
    title = f"{where}: {_title(timeline)}"
    shown = ["latency as a heat map", "throughput"]
    shown += ["bytes moved by the device"] if data["device"] else []
    shown += ["power"] if data["power"] else []
    shown += ["temperature"] if data["celsius"] else []
    return Figure(
        name=slug("timeline", record.run_id),
        kind="timeline",
        title=title,
        shows=f"One time axis over the measure window of one run, with {', '.join(shown)}"
        f"{'; its dips are shaded' if timeline.dips else ''}",
        spec=configured(alt.vconcat(*panels, spacing=6), data),
        columns=["time (s)", "MB/s", "p99", "errors", "device (MB/s)", "power (W)", "°C"],
        rows=[_row(timeline, dip) for dip in timeline.dips],
        point_ids=point_ids,
        note=where,
        latencies=True,
    )


def _data(timeline: Timeline) -> dict[str, list[dict[str, Any]]]:
    rates = [
        {
            "start": _s(dip.start_s),
            "end": _s(dip.end_s),
            "value": plotted(dip.drawn_mb_s),
            "mean": plotted(dip.mb_s),
            "errors": dip.errors,
        }
        for dip in timeline.stretches
    ]
    device = [
        {"time": _s(dip.end_s), "value": plotted(value), "what": f"device {direction}"}
        for dip in timeline.device
        for direction, value in zip(DEVICE, (dip.read_mb_s, dip.written_mb_s), strict=True)
    ]
    return {
        "heat": [
            {
                "start": _s(cell.start_s),
                "end": _s(cell.end_s),
                "low": round(cell.low_ns),
                "high": round(cell.high_ns),
                "share": float(f"{cell.share:.2g}"),
            }
            for cell in timeline.heat()
        ],
        "rates": rates,
        "device": device,
        "power": [{"time": _s(m.time_s), "value": plotted(m.power_w)} for m in timeline.power],
        "celsius": [{"time": _s(t), "value": v, "what": drive} for t, drive, v in timeline.celsius],
        "dips": [
            {"start": _s(dip.start_s), "end": _s(dip.end_s)}
            for dip in timeline.stretches
            if dip.dips
        ],
        "flags": _flag_data(timeline),
    }


def _flag_data(timeline: Timeline) -> list[dict[str, Any]]:
    """Return the chart data of flags: the times at which each applied, or the whole window.

    Intervals with failed operations are added as a flag named "errors".
    """
    window = [(0.0, timeline.window_s)]
    kinds = dict.fromkeys(flag.kind for flag in timeline.run.record.flags)
    records = [
        {
            "start": _s(start),
            "end": _s(end),
            "kind": kind,
            "text": "" if number else f"{kind.replace('-', ' ')}{_extent(timeline, kind)}",
        }
        for kind in kinds
        for number, (start, end) in enumerate(timeline.flag_times.get(kind, window))
    ]
    failed = [stretch for stretch in timeline.stretches if stretch.errors]
    return records + [
        {
            "start": _s(stretch.start_s),
            "end": _s(stretch.end_s),
            "kind": "errors",
            "text": "" if stretch is not failed[0] else "errors",
        }
        for stretch in failed
    ]


def _extent(timeline: Timeline, kind: str) -> str:
    """Return a note if a flag's bar does not show when the flag applied; else empty."""
    spans = timeline.flag_times.get(kind)
    if spans is None:
        return " (of the whole run)"
    return "" if any(end > start for start, end in spans) else " (before the window)"


def _s(seconds: float) -> float:
    return round(seconds, 3)


def _panel(layers: list[alt.Chart], scale: alt.Scale, is_last: bool) -> alt.LayerChart:
    """Make one panel from its layers; only the last panel has labels on the time axis."""
    title = "time in the window (s)" if is_last else None
    axis = alt.Axis(labels=is_last, tickCount=6, title=title)
    for layer in layers:
        layer.encoding.x.scale, layer.encoding.x.axis = scale, axis
    layered = alt.LayerChart(layer=layers)
    return layered.properties(width=WIDTH - AXIS_PX // 2, height=layers[-1].height)


def _dips() -> alt.Chart:
    shade = alt.Chart(alt.NamedData("dips")).mark_rect(fill=role("fig-rule"), opacity=0.28)
    chart: alt.Chart = shade.encode(x=alt.X("start:Q"), x2="end:Q")
    return chart


def _heat(cells: Sequence[dict[str, Any]], index: int) -> alt.Chart:
    bounds = log_bounds([value for cell in cells for value in (cell["low"], cell["high"])])
    chart: alt.Chart = (
        alt.Chart(alt.NamedData("heat"))
        .mark_rect(fill=series_role(index))
        .encode(
            x=alt.X("start:Q"),
            x2="end:Q",
            y=logarithmic("low", "latency", bounds, room=1.0, most=4, minExtent=AXIS_PX),
            y2="high:Q",
            opacity=alt.Opacity(
                "share:Q",
                legend=None,
                scale=alt.Scale(type="pow", exponent=0.4, domain=[0, 1], range=[0, 1]),
            ),
            tooltip=[
                alt.Tooltip("start:Q", title="time (s)"),
                alt.Tooltip("low:Q", title="from (ns)", format=",d"),
                alt.Tooltip("high:Q", title="to (ns)", format=",d"),
                alt.Tooltip("share:Q", title="share of operations", format=".1%"),
            ],
        )
        .properties(height=HEAT_HEIGHT)
    )
    return chart


def _rates(data: dict[str, list[dict[str, Any]]], index: int) -> alt.Chart:
    chart: alt.Chart = (
        alt.Chart(alt.NamedData("rates"))
        .mark_rule(stroke=series_role(index), strokeWidth=2)
        .encode(
            x=alt.X("start:Q"),
            x2="end:Q",
            y=_y("value", "MB/s", data["rates"]),
            tooltip=[
                alt.Tooltip("start:Q", title="time (s)"),
                alt.Tooltip("value:Q", title="MB/s"),
                alt.Tooltip("mean:Q", title="mean MB/s"),
                alt.Tooltip("errors:Q"),
            ],
        )
        .properties(height=LANE_HEIGHT)
    )
    return chart


def _device(readings: Sequence[dict[str, Any]]) -> alt.Chart:
    names = [f"device {direction}" for direction in DEVICE]
    colours = alt.Color(
        "what:N",
        title=None,
        scale=alt.Scale(domain=names, range=[role("fig-ink"), role("fig-rule")]),
        legend=alt.Legend(columns=2),
    )
    chart: alt.Chart = (
        alt.Chart(alt.NamedData("device"))
        .mark_line(strokeWidth=1.4)
        .encode(
            x=alt.X("time:Q"),
            y=_y("value", "device MB/s", readings),
            color=colours,
            tooltip=[alt.Tooltip("what:N"), alt.Tooltip("time:Q"), alt.Tooltip("value:Q")],
        )
        .properties(height=LANE_HEIGHT)
    )
    return chart


def _line(name: str, unit: str, readings: Sequence[dict[str, Any]]) -> alt.Chart:
    """Make a line of readings in the text colour, because other colours stand for targets."""
    ink = role("fig-ink")
    more = {"detail": "what:N"} if readings and "what" in readings[0] else {}
    chart: alt.Chart = (
        alt.Chart(alt.NamedData(name))
        .mark_line(strokeWidth=1.4, stroke=ink, point={"size": 14, "fill": ink})
        .encode(
            x=alt.X("time:Q"),
            y=_y("value", unit, readings),
            tooltip=[alt.Tooltip("time:Q"), alt.Tooltip("value:Q", title=unit)],
            **more,
        )
        .properties(height=LANE_HEIGHT)
    )
    return chart


def _flags(flags: Sequence[dict[str, Any]]) -> list[alt.Chart]:
    kinds = list(dict.fromkeys(flag["kind"] for flag in flags))
    axis = alt.Axis(labels=False, minExtent=AXIS_PX, ticks=False)
    base = alt.Chart(alt.NamedData("flags"), height=FLAG_HEIGHT * len(kinds))
    y = alt.Y("kind:N", sort=kinds, title="flags", axis=axis)
    bars = base.mark_bar(fill=role("fig-muted"), opacity=0.3, height=FLAG_HEIGHT - 3)
    words = base.mark_text(align="left", baseline="middle", dx=3, color=role("fig-ink"))
    tooltip = [alt.Tooltip("kind:N"), alt.Tooltip("start:Q"), alt.Tooltip("end:Q")]
    return [
        bars.encode(x=alt.X("start:Q"), x2="end:Q", y=y, tooltip=tooltip),
        words.encode(x=alt.X("start:Q"), y=y, text="text:N"),
    ]


def _y(name: str, title: str, data: Sequence[dict[str, Any]]) -> alt.Y:
    top = max((record[name] for record in data), default=1.0) or 1.0
    return alt.Y(
        f"{name}:Q",
        title=title,
        scale=alt.Scale(domain=[0, top * 1.08], nice=False),
        axis=alt.Axis(format=",~r", tickCount=3, minExtent=AXIS_PX),
    )


def _title(timeline: Timeline) -> str:
    if timeline.is_fixed_work or not timeline.usual_mb_s:  # the median of a low rate can be 0
        return f"its course over {format_number(timeline.window_s)} s"
    usual, deepest = format_number(timeline.usual_mb_s), timeline.deepest
    if deepest is None:
        share = 100 * min(e.least_mb_s for e in timeline.stretches) / timeline.usual_mb_s
        return f"throughput stays at {share:.0f} % of its median of {usual} MB/s, or above"
    fall = f"to {format_number(deepest.least_mb_s)} MB/s at {format_number(deepest.start_s)} s"
    return (
        f"throughput falls {fall}, {100 * (1 - timeline.depth):.0f} % of its median of {usual} MB/s"
    )


def _row(timeline: Timeline, dip: Stretch) -> list[str]:
    def within(time_s: float) -> bool:
        return dip.start_s <= time_s <= dip.end_s

    device = [
        interval for interval in timeline.device if within((interval.start_s + interval.end_s) / 2)
    ]
    moved = [
        f"{direction} {format_number(sum(values) / len(values))}"
        for direction, values in (
            ("read", [interval.read_mb_s for interval in device]),
            ("written", [interval.written_mb_s for interval in device]),
        )
        if values
    ]
    power = [moment.power_w for moment in timeline.power if within(moment.time_s)]
    asked = [(time_s, value) for time_s, _, value in timeline.celsius if time_s <= dip.end_s]
    warm = [value for time_s, value in asked if time_s == max(asked)[0]]
    return [
        f"{format_number(dip.start_s)} to {format_number(dip.end_s)}",
        format_number(dip.mb_s),
        "–" if dip.p99_ns is None else latency_text(dip.p99_ns),
        str(dip.errors),
        ", ".join(moved) or "–",
        format_number(sum(power) / len(power)) if power else "–",
        format_number(max(warm)) if warm else "–",
    ]
