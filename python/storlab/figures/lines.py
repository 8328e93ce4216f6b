"""Line chart of a quantity against the swept axis: a line per target, every run as a dot."""

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

BESIDE_PX = 9  # raw dots are drawn beside the mean, not under it
CLOSE = 0.09  # share of the axis; labels closer than this are moved apart


@dataclass(frozen=True, slots=True)
class Rule:
    """Horizontal line with a caption, such as a threshold."""

    value: float
    text: str


@dataclass(frozen=True, slots=True)
class Axes:
    """Settings of the two axes of a line chart."""

    order: list[str]  # positions on the horizontal axis
    x_title: str
    y_title: str
    tooltip: str  # name and unit of the value
    x_name: str  # name of the swept parameter
    bounds: tuple[float, float]
    rules: list[Rule] = field(default_factory=list)
    log: bool = False  # logarithmic vertical axis, with bounds from theme.log_bounds
    series: str = "target"  # what each line stands for

    def height(self, value: float) -> float:
        """Return the position of a value on the vertical axis, from 0 to 1."""
        low, high = (math.log(b) if self.log else b for b in self.bounds)
        return ((math.log(value) if self.log else value) - low) / (high - low)


def line_data(
    section: Section, rows: Sequence[Row], column: Column, factor: float = 1.0
) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """Return the data sets ``means`` and ``runs``, with values multiplied by ``factor``."""
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
    """Round a value to the digits that a chart can show."""
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
    """Return the line chart over the data sets ``means`` and ``runs``.

    Args:
        comparison: Comparison whose targets are drawn.
        shown: Targets (or series) to draw.
        axes: Settings of the axes.
        means: The data set ``means``, for labels at the line ends.
        below: FamilyAdditions layers under the lines.
        above: FamilyAdditions layers over the lines.
        series: Names drawn instead of targets, in the order of their colours.
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
    """Return interval rules, cut at the lower bound on a logarithmic axis, which cannot show 0."""
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
    """Return the number format of an axis; values from one million use SI suffixes."""
    if high >= 1e6:
        return "~s"
    return ",d" if high >= 10 else "~r"


def rule_layers(rule: Rule) -> list[alt.Chart]:
    """Return a dotted line over the full width, with its caption below the left end."""
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
    """Return a ring around each mean in the data set ``rings``, a subset of ``means``."""
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
    """Return each target's last mean with an offset in px that keeps two labels apart."""
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
