"""A quantity against the swept axis: mean with interval, every run as a dot, a line per target."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import altair as alt

from storlab.analysis.columns import Column
from storlab.analysis.compare import Comparison, Row
from storlab.analysis.density import scaled
from storlab.analysis.points import Section
from storlab.figures.common import digits3, interval_text, x_text
from storlab.figures.theme import HEIGHT, WIDTH, colour, dash_of, log_ticks, role, shape

BESIDE_PX = 9  # raw dots stand beside the mean, not under it
CLOSE = 0.09  # of the axis: labels nearer than that are moved apart


@dataclass(frozen=True, slots=True)
class Rule:
    """A horizontal line with words: a threshold, what is wanted."""

    value: float
    text: str


@dataclass(frozen=True, slots=True)
class Axes:
    """The two axes of a line chart."""

    order: list[str]  # of places on the horizontal axis
    x_title: str
    y_title: str
    tooltip: str  # what the value is, with its unit
    x_name: str  # of the parameter
    bounds: tuple[float, float]
    rules: list[Rule] = field(default_factory=list)
    log: bool = False  # the vertical axis; its bounds are those of theme.log_bounds
    series: str = "target"  # what the lines are

    def height(self, value: float) -> float:
        """Where a value stands on the vertical axis, from 0 to 1."""
        low, high = (math.log(b) if self.log else b for b in self.bounds)
        return ((math.log(value) if self.log else value) - low) / (high - low)


def line_data(
    section: Section, rows: Sequence[Row], column: Column, factor: float = 1.0
) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """Means and single runs, for the data sets ``means`` and ``runs``; values times ``factor``."""
    means: list[dict[str, Any]] = []
    dots: list[dict[str, Any]] = []
    for row in rows:
        for target, cell in row.cells.items():
            interval = scaled(cell.values.get(column.key), factor)
            if interval is None:
                continue
            x = x_text(section, row.point)
            low = interval.low if interval.low is not None else interval.estimate
            high = interval.high if interval.high is not None else interval.estimate
            provenance = cell.provenance_of(column)
            means.append(
                {
                    "target": target,
                    "x": x,
                    "mean": rounded(interval.estimate),
                    "low": rounded(low),
                    "high": rounded(high),
                    "text": interval_text(interval),
                    "label": digits3(interval.estimate),
                    "provenance": provenance,
                    "dash": dash_of(provenance),
                    "runs": ", ".join(cell.run_ids),
                }
            )
            dots += [
                {"target": target, "x": x, "value": rounded(v * factor)}
                for v in cell.repeats(column)
            ]
    return means, dots


def rounded(value: float) -> float:
    """With as many digits as a drawing can show."""
    return round(value, 2) if abs(value) >= 100 else float(f"{value:.5g}")


def line_chart(
    comparison: Comparison,
    shown: Sequence[str],
    axes: Axes,
    means: list[dict[str, Any]],
    below: Sequence[alt.Chart] = (),
    above: Sequence[alt.Chart] = (),
    series: Sequence[str] = (),
) -> alt.TopLevelMixin:
    """The chart over the data sets ``means`` and ``runs``, of the targets that are ``shown``.

    ``below`` and ``above`` are layers of the caller's. ``series``: what there is in place of
    targets, in the order of their colours.
    """
    every = series or comparison.targets
    colours = colour(every, shown)
    x = alt.X("x:O", sort=axes.order, title=axes.x_title, axis=alt.Axis(labelAngle=0))
    y = alt.Y("mean:Q", title=axes.y_title, **_vertical(axes))
    base = alt.Chart(alt.NamedData("means")).encode(x=x)
    tooltip = [
        alt.Tooltip(f"{name}:N", title=title)
        for name, title in (
            ("target", axes.series),
            ("x", axes.x_name),
            ("text", axes.tooltip),
            ("runs", "runs"),
        )
    ]
    raw = alt.Chart(alt.NamedData("runs")).mark_point(
        size=22, strokeWidth=1.2, opacity=0.9, xOffset=BESIDE_PX
    )
    layers = [
        *below,
        *(layer for rule in axes.rules for layer in rule_layers(rule)),
        base.mark_line(strokeWidth=2).encode(
            y=y,
            color=colours,
            detail="target:N",
            strokeDash=alt.StrokeDash("dash:N", scale=None, legend=None),
        ),
        _intervals(base, axes).encode(y=alt.Y("low:Q"), y2="high:Q", color=colours),
        raw.encode(x=x, y=alt.Y("value:Q"), color=colours),
        base.mark_point(size=62, filled=True, opacity=1).encode(
            y=y, color=colours, shape=shape(every, shown), tooltip=tooltip
        ),
        *(_end_label(x, end, nudge) for end, nudge in _ends(means, axes)),
        *above,
    ]
    return alt.layer(*layers).properties(width=WIDTH, height=HEIGHT)


def _intervals(base: alt.Chart, axes: Axes) -> alt.Chart:
    """Rules; a logarithmic axis has no place for 0, where an interval may begin: they are cut."""
    if axes.log:
        base = base.transform_calculate(low=f"max(datum.low, {axes.bounds[0]})")
    rules: alt.Chart = base.mark_rule(strokeWidth=1.8)
    return rules


def _vertical(axes: Axes) -> dict[str, Any]:
    low, high = axes.bounds
    if axes.log:
        return {
            "scale": alt.Scale(type="log", domain=[low, high], nice=False),
            "axis": alt.Axis(values=log_ticks(low, high, most=9), format=",~r"),
        }
    return {
        "scale": alt.Scale(domain=[low, high], zero=False),
        "axis": alt.Axis(format=_numbers(high), tickCount=6),
    }


def _numbers(high: float) -> str:
    """The format of an axis that ends there: in millions nobody counts zeros."""
    if high >= 1e6:
        return "~s"
    return ",d" if high >= 10 else "~r"


def rule_layers(rule: Rule) -> list[alt.Chart]:
    """A dotted line over the whole width, with its words below its left end."""
    data = alt.Data(values=[{"rule": rule.value, "text": rule.text}])
    line = alt.Chart(data).mark_rule(strokeWidth=1.5, strokeDash=[2, 3], color=role("fig-ink"))
    words = alt.Chart(data).mark_text(
        align="left", baseline="top", dx=4, dy=4, color=role("fig-ink")
    )
    return [
        line.encode(y=alt.Y("rule:Q")),
        words.encode(x=alt.XValue(0), y=alt.Y("rule:Q"), text="text:N"),
    ]


def ring_layer(order: Sequence[str]) -> alt.Chart:
    """A ring around each mean of the data set ``rings``, which are some of ``means``."""
    ring = alt.Chart(alt.NamedData("rings")).mark_point(
        size=260, strokeWidth=1.6, shape="circle", filled=False
    )
    drawn: alt.Chart = ring.encode(
        x=alt.X("x:O", sort=list(order)),
        y=alt.Y("mean:Q"),
        color=alt.ColorValue(role("fig-ink")),
    )
    return drawn


def _ends(means: list[dict[str, Any]], axes: Axes) -> list[tuple[dict[str, Any], int]]:
    """The last mean of each target with a nudge in px, so that two labels do not collide."""
    order = axes.order
    ends = sorted((m for m in means if order and m["x"] == order[-1]), key=lambda m: -m["mean"])
    if len(ends) > 2:
        return []
    heights = [axes.height(end["mean"]) for end in ends]
    close = len(ends) == 2 and heights[0] - heights[1] < CLOSE
    return [(end, (-8, 8)[i] if close else 0) for i, end in enumerate(ends)]


def _end_label(x: alt.X, end: dict[str, Any], nudge: int) -> alt.Chart:
    data = alt.Data(values=[{"x": end["x"], "mean": end["mean"], "label": end["label"]}])
    mark = alt.Chart(data).mark_text(align="left", dx=17, dy=nudge)
    label: alt.Chart = mark.encode(
        x=x, y="mean:Q", text="label:N", color=alt.ColorValue(role("fig-ink"))
    )
    return label
