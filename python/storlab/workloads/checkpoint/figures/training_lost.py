"""Figure of the percentage of training time lost to checkpoints, against their interval."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import altair as alt

from storlab.analysis.compare import Cell
from storlab.base.units import NS_PER_S, format_duration, format_number
from storlab.figures.figure import Figure, Place
from storlab.figures.mixes import CROSS
from storlab.figures.plot import Plot, logarithmic
from storlab.figures.theme import colour, dash_of, log_bounds, role
from storlab.words.text import value_text
from storlab.workloads.checkpoint.interval import (
    daly_interval,
    of_whole,
    share_lost,
    share_lost_with_failures,
)
from storlab.workloads.checkpoint.page import scale_text
from storlab.workloads.checkpoint.params import CheckpointParams

COSTS = ("durable_time_s.all", "write_time_s.all")
RESTORE = "restore_time_s.all"
STUDY, BEST = "as in the study", "Daly’s optimum"
MARKS = {STUDY: CROSS, BEST: "circle"}  # the title names the interval of the circle
STEPS = 80
LABELS = (
    "datum.value >= 86400 ? format(datum.value / 86400, '~g') + ' d'"
    " : datum.value >= 3600 ? format(datum.value / 3600, '~g') + ' h'"
    " : datum.value >= 60 ? format(datum.value / 60, '~g') + ' min'"
    " : format(datum.value, '~g') + ' s'"
)
TICKS = (1, 10, 60, 600, 3600, 6 * 3600, 86_400, 10 * 86_400, 100 * 86_400)


def draw(far: Place) -> Figure | None:
    """Draw for each target the modelled loss of training time; None if no checkpoint was timed."""
    point, measured = far.points[0], far.cells
    params = CheckpointParams.of(point.params)
    chosen, given = params.training_interval / NS_PER_S, params.mtbf
    mtbf = None if given is None else given / NS_PER_S
    curves: list[dict[str, Any]] = []
    marks: list[dict[str, Any]] = []
    for target, cell in measured.items():
        cost, scale = _cost(cell), params.scale
        if cost is None:
            continue
        cost = of_whole(cost, scale)
        lost = _lost(cell, cost, mtbf, scale)
        curves += _curve(target, lost, _range(cost, chosen, mtbf))
        marks += _marks(target, lost, cost, chosen, mtbf)
    if not curves:
        return None
    remarks, scale_note = [], scale_text(params.scale)
    cells = [measured[mark["target"]] for mark in marks]
    if mtbf is not None and any(RESTORE not in cell.values for cell in cells):
        remarks.append("Restart not measured, and left out")
    if scale_note:
        remarks.append(f"Of the whole checkpoint, at the rate of one {scale_note}")
    return far.figure(
        kind="training_lost",
        name="training-lost",
        text=_title(marks, chosen, scale_note),
        shows="Line chart on two logarithmic scales: share of training time lost in percent "
        "against the interval between checkpoints, modelled",
        spec=_plot(far, curves, marks).spec(),
        columns=["target", "interval", "s", "share lost (%)"],
        rows=[
            [m["target"], m["what"], format_number(m["x"]), format_number(m["y"])] for m in marks
        ],
        remark="; ".join(remarks),
    )


def _cost(cell: Cell) -> float | None:
    values = (cell.values[key].estimate for key in COSTS if key in cell.values)
    return next((value for value in values if value > 0), None)


def _lost(cell: Cell, cost: float, mtbf: float | None, scale: float) -> Callable[[float], float]:
    """Return a function that converts an interval in s to the percentage of time lost.

    Failures are modelled if the study sets the MTBF. If no restore was measured, a restart is
    assumed to take no time; repeated work alone still gives an optimal interval.
    """
    if mtbf is None:
        return lambda interval: 100 * share_lost(cost, interval)
    restore = cell.values.get(RESTORE)
    restart = 0.0 if restore is None else of_whole(restore.estimate, scale)
    return lambda interval: 100 * share_lost_with_failures(cost, interval, mtbf, restart)


def _range(cost: float, chosen: float, mtbf: float | None) -> tuple[float, float]:
    best = chosen if mtbf is None else daly_interval(cost, mtbf)
    return min(best, chosen) / 8, max(best, chosen) * 8


def _curve(
    target: str, lost: Callable[[float], float], ends: tuple[float, float]
) -> list[dict[str, Any]]:
    low, high = ends
    curve = []
    for step in range(STEPS + 1):
        interval = low * (high / low) ** (step / STEPS)
        share = lost(interval)
        if 0 < share < 100:
            curve.append(
                {"target": target, "x": float(f"{interval:.5g}"), "y": float(f"{share:.5g}")}
            )
    return curve


def _marks(
    target: str,
    lost: Callable[[float], float],
    cost: float,
    chosen: float,
    mtbf: float | None,
) -> list[dict[str, Any]]:
    places = [(STUDY, chosen)]
    if mtbf is not None:
        places.append((BEST, daly_interval(cost, mtbf)))
    return [
        {"target": target, "what": curve, "x": float(f"{at:.6g}"), "y": float(f"{lost(at):.6g}")}
        for curve, at in places
    ]


def _plot(far: Place, curves: list[dict[str, Any]], marks: list[dict[str, Any]]) -> Plot:
    legend = alt.Legend(symbolType="stroke", symbolSize=320)
    colours = colour(far.comparison.targets, far.targets, legend=legend)
    low, high = min(d["x"] for d in curves), max(d["x"] for d in curves)
    x = alt.X(
        "x:Q",
        title="training between two checkpoints (log scale)",
        scale=alt.Scale(type="log", domain=[low, high], nice=False),
        axis=alt.Axis(
            values=[tick for tick in TICKS if low <= tick <= high], labelExpr=LABELS, grid=True
        ),
    )
    y = logarithmic(
        "y",
        "training time lost (%), modelled",
        log_bounds([d["y"] for d in curves]),
        expr="",
        most=12,
        format="~g",
        labelOverlap=True,
    )
    names = list(dict.fromkeys(m["what"] for m in marks))
    shapes = alt.Shape(
        "what:N",
        title=None,
        scale=alt.Scale(domain=names, range=[MARKS[name] for name in names]),
        legend=alt.Legend(orient="bottom", symbolOpacity=1, symbolSize=60),
    )
    plot = Plot(x, y)
    # Invisible layer for the legend: Vega takes symbols from the first layer that has shapes.
    key = plot.source("marks", marks).mark_point(color=role("fig-muted"), opacity=0, size=1)
    plot.add(key, y=y, shape=shapes)
    line = plot.source("curves", curves).mark_line(strokeWidth=2, strokeDash=dash_of("modelled"))
    plot.add(line, y=y, color=colours, order="x:Q")
    tips = [
        alt.Tooltip("target:N"),
        alt.Tooltip("what:N", title="interval"),
        alt.Tooltip("x:Q", title="s", format=",.0f"),
        alt.Tooltip("y:Q", title="% lost", format=".3g"),
    ]
    plot.markers("marks", colours, shapes, tips, 120, filled=False, strokeWidth=1.8)
    return plot


def _title(marks: list[dict[str, Any]], chosen: float, scale_note: str) -> str:
    of = f" of whole checkpoints, from ones {scale_note}" if scale_note else ""
    best = [m for m in marks if m["what"] == BEST]
    if best:
        intervals = (
            f"{_duration(m['x'])} on {m['target']} ({value_text(m['y'], '%')} lost)" for m in best
        )
        return f"modelled best interval{of}: {', '.join(intervals)}"
    lost = ", ".join(f"{value_text(m['y'], '%')} on {m['target']}" for m in marks)
    return f"with {_duration(chosen)} between checkpoints{of}, {lost} of the time is lost"


def _duration(seconds: float) -> str:
    """Format a duration in s; from 10 minutes on it is rounded to minutes."""
    rounded = round(seconds / 60) * 60 if seconds >= 600 else round(seconds, 1)
    return format_duration(math.floor(rounded * NS_PER_S))
