"""Stacked bars of targets side by side, with the interval of the total."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import altair as alt

from storlab.analysis.compare import Cell, Comparison
from storlab.analysis.stats import Interval
from storlab.figures.bars import BESIDE_PX, heights
from storlab.figures.common import digits3, interval_text
from storlab.figures.mixes import fill
from storlab.figures.theme import (
    HEIGHT,
    WIDTH,
    fill_of,
    label_room,
    role,
    series_label,
    series_role,
)

PALE = 0.25  # opacity of the last part


@dataclass(frozen=True, slots=True)
class Stacked:
    """Axes of a stacked bar chart."""

    order: list[str]  # positions on the horizontal axis
    x_title: str
    y_title: str
    unit: str
    parts: tuple[str, ...]  # names from bottom to top, drawn from solid to pale


@dataclass(slots=True)
class Stacks:
    """Data sets of a stacked bar chart."""

    parts: list[dict[str, Any]]
    wholes: list[dict[str, Any]]
    dots: list[dict[str, Any]]

    def add(
        self,
        comparison: Comparison,
        cell: Cell,
        x: str,
        pieces: dict[str, float],
        whole: Interval,
        repeats: Sequence[float],
        provenance: str,
    ) -> None:
        """Add one bar with ``pieces`` from the bottom; they need not add up to ``whole``."""
        index, start = comparison.targets.index(cell.target), 0.0
        common = {
            "x": x,
            "target": cell.target,
            "series": series_label(cell.target, provenance),
            "runs": ", ".join(cell.run_ids),
        }
        for name, value in pieces.items():
            self.parts.append(
                {
                    **common,
                    "part": name,
                    "from": float(f"{start:.6g}"),
                    "to": float(f"{start + value:.6g}"),
                    "fill": fill_of(index, provenance),
                    "stroke": series_role(index),
                    "provenance": provenance,
                    "text": digits3(value),
                    "whole": interval_text(whole),
                }
            )
            start += value
        label = digits3(whole.estimate)
        self.wholes.append({**common, **heights(whole), "label": label})
        self.dots += [
            {"x": x, "target": cell.target, "value": float(f"{value:.6g}")} for value in repeats
        ]

    def known(self, names: Sequence[str]) -> tuple[str, ...]:
        """Return those of the part names that occur in any bar."""
        return tuple(name for name in names if any(part["part"] == name for part in self.parts))

    def datasets(self, names: Sequence[str]) -> dict[str, list[dict[str, Any]]]:
        """Return the data sets by name, with parts shaded paler in the order of ``names``."""
        steps = max(len(names) - 1, 1)
        for part in self.parts:
            part["shade"] = round(1 - (1 - PALE) * names.index(part["part"]) / steps, 3)
        return {"parts": self.parts, "wholes": self.wholes, "dots": self.dots}


def stack_chart(targets: Sequence[str], stacks: Stacks, axes: Stacked) -> alt.TopLevelMixin:
    """Return the stacked bar chart of the targets over the data sets of ``stacks``."""
    ends = [*(d["high"] for d in stacks.wholes), *(d["to"] for d in stacks.parts)]
    x = alt.X(
        "x:O",
        sort=axes.order,
        title=axes.x_title or None,
        scale=alt.Scale(paddingInner=0.2, paddingOuter=0.1),
        axis=alt.Axis(labelAngle=0),
    )
    offsets = alt.Scale(domain=list(targets), paddingInner=0.12)
    offset = alt.XOffset("target:N", sort=list(targets), scale=offsets)
    centred = alt.XOffset("target:N", sort=list(targets), bandPosition=0.5, scale=offsets)
    y = alt.Y(
        "from:Q",
        title=axes.y_title,
        scale=alt.Scale(domain=[0, 1.12 * max(ends)], nice=False),
        axis=alt.Axis(format=",~r", tickCount=6),
    )
    tooltip = [
        alt.Tooltip(f"{name}:N", title=title)
        for name, title in (
            ("series", "target"),
            ("x", axes.x_title or "of"),
            ("part", "part"),
            ("text", axes.unit),
            ("whole", f"whole, {axes.unit}, mean [95 %]"),
            ("runs", "runs"),
        )
    ]
    ink = alt.ColorValue(role("fig-ink"))
    wholes = alt.Chart(alt.NamedData("wholes"))
    raw = alt.Chart(alt.NamedData("dots")).mark_point(
        size=14, strokeWidth=1, opacity=0.9, fill=role("fig-paper"), dx=BESIDE_PX
    )
    layers = [
        *_key(x, y, axes.parts),
        alt.Chart(alt.NamedData("parts"))
        .mark_bar(strokeWidth=1)
        .encode(
            x=x,
            xOffset=offset,
            y=y,
            y2="to:Q",
            fill=fill(stacks.parts),
            fillOpacity=alt.FillOpacity("shade:Q", scale=None, legend=None),
            stroke=alt.Stroke("stroke:N", scale=None, legend=None),
            tooltip=tooltip,
        ),
        wholes.mark_rule(strokeWidth=1.4).encode(
            x=x, xOffset=centred, y=alt.Y("low:Q"), y2="high:Q", color=ink
        ),
        raw.encode(x=x, xOffset=centred, y=alt.Y("value:Q"), color=ink),
    ]
    if label_room([whole["label"] for whole in stacks.wholes], WIDTH):
        text = wholes.encode(x=x, xOffset=centred, y=alt.Y("high:Q"), text="label:N")
        layers += [
            text.mark_text(dy=-6, baseline="bottom", stroke=role("fig-paper"),
                           strokeWidth=4),
            text.mark_text(dy=-6, baseline="bottom"),
        ]  # fmt: skip
    return alt.layer(*layers).properties(width=WIDTH, height=HEIGHT)


def _key(x: alt.X, y: alt.Y, parts: Sequence[str]) -> list[alt.Chart]:
    """Return an invisible layer that carries the legend of the parts.

    Vega-Lite draws no legend for fill opacity alone.
    """
    if len(parts) < 2:
        return []
    key = alt.Chart(alt.NamedData("parts")).mark_square(
        size=0, strokeWidth=0, color=role("fig-ink")
    )
    shade = alt.Opacity(
        "part:N",
        title=None,
        sort=list(parts),
        scale=alt.Scale(domain=list(parts), range=[1, PALE]),
        legend=alt.Legend(
            orient="bottom",
            symbolType="square",
            symbolFillColor=role("fig-ink"),
            symbolStrokeColor=role("fig-ink"),
            symbolStrokeWidth=1,
        ),
    )
    drawn: alt.Chart = key.encode(x=x, y=y, opacity=shade)
    return [drawn]
