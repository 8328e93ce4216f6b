"""Figure of cumulative latency distributions; a percentile axis in nines spreads the tail."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import altair as alt

from storlab._native import Histogram
from storlab.analysis.compare import Comparison
from storlab.analysis.points import Section, WorkloadPoint
from storlab.figures.common import latency_kind, plural_of, timed_operations
from storlab.figures.figure import Figure, Place
from storlab.figures.plot import logarithmic
from storlab.figures.theme import (
    HEIGHT,
    PANEL_GAP,
    colour,
    configured,
    log_bounds,
    panel_width,
)
from storlab.words.text import latency_text

PERCENTS = (50.0, 90.0, 99.0, 99.9, 99.99)
STEPS = 90
LABEL_PX = 54  # width of a label on the horizontal axis
LABELS = (
    "datum.value < 0.1 ? '0 %' : datum.value < 0.5 ? '50 %' : datum.value < 1.5 ? '90 %' : "
    "datum.value < 2.5 ? '99 %' : datum.value < 3.5 ? '99.9 %' : '99.99 %'"
)


def nines(percent: float) -> float:
    """Convert a percentile to nines, its vertical position: 90 % is 1, 99 % is 2."""
    return -math.log10(1 - percent / 100)


def draw(far: Place) -> Figure | None:
    """Draw the latency distributions of all targets at one point; None without histograms."""
    comparison, section, point = far.comparison, far.section, far.points[0]
    curves = _curves(comparison, section, point)
    if not curves:
        return None
    data = [datum for curve in curves for datum in cdf_line(*curve)]
    low, high = log_bounds([d["latency"] for d in data])
    top = max(d["nines"] for d in data)
    words = {
        plural_of(section, operation): latency_kind(comparison, section, operation)[1]
        for operation in timed_operations(section)
    }
    chart = cdf_panels(data, words, comparison, section, (low, high), top)
    return far.figure(
        kind="latency_cdf",
        name="latency-distribution",
        text=_title(curves),
        shows="Cumulative distribution of latency on a logarithmic scale, up to the 99.99th "
        "percentile where enough operations completed",
        spec=configured(chart, {"curves": data}),
        columns=["target", "operation", "operations", *(f"p{p:g}" for p in PERCENTS)],
        rows=[
            [target, operations, f"{h.count:,}", *(percentile_text(h, p) for p in PERCENTS)]
            for target, operations, h in curves
        ],
        latencies=True,
    )


def _curves(
    comparison: Comparison, section: Section, point: WorkloadPoint
) -> list[tuple[str, str, Histogram]]:
    curves = []
    for target, cell in comparison.row(point).cells.items():
        for operation in timed_operations(section):
            merged = cell.merged(operation, latency_kind(comparison, section, operation)[0])
            if merged is not None and merged.count:
                curves.append((target, plural_of(section, operation), merged))
    return curves


def cdf_line(target: str, operation: str, histogram: Histogram) -> list[dict[str, Any]]:
    """Return the points of a distribution's curve.

    It ends at the last percentile above which at least one operation lies.
    """
    top = min(4.0, math.log10(histogram.count)) if histogram.count > 1 else 0.0
    line = []
    for step in range(STEPS + 1):
        height = top * step / STEPS
        value = histogram.percentile(100 * (1 - 10**-height))
        line.append(
            {
                "target": target,
                "operation": operation,
                "latency": max(value, 1),
                "nines": round(height, 4),
            }
        )
    return line


def percentile_text(histogram: Histogram, percent: float) -> str:
    """Format a percentile of latency; ``too few operations`` if none lies above it."""
    if histogram.count * (1 - percent / 100) < 1:
        return "too few operations"
    return latency_text(histogram.percentile(percent))


def cdf_panels(
    data: list[dict[str, Any]],
    words: Mapping[str, str],
    comparison: Comparison,
    section: Section,
    bounds: tuple[float, float],
    top: float,
) -> alt.HConcatChart:
    """Draw latency distributions in a panel per operation.

    Args:
        data: Points of all curves, made by :func:`cdf_line`.
        words: Axis text of each operation's panel, such as ``latency``, in the order of panels.
        comparison: Comparison that has the targets.
        section: Section of the brief that has the workload.
        bounds: Ends of the horizontal axis, in ns.
        top: End of the vertical axis, in nines (99.9 % is 3).
    """
    ticks = [nines(p) for p in PERCENTS if nines(p) <= max(top, 1) + 1e-6]
    panels = [name for name in words if any(d["operation"] == name for d in data)]
    width = panel_width(len(panels))
    room, most = 1.6 / len(panels), int(width / LABEL_PX)
    tooltip = [
        alt.Tooltip("target:N"),
        alt.Tooltip("operation:N"),
        alt.Tooltip("latency:Q", title="latency (ns)", format=",d"),
    ]
    colours = colour(comparison.targets, comparison.planned(section.points), symbol_size=320)
    line = alt.Chart(alt.NamedData("curves")).mark_line(strokeWidth=2)
    charts = [
        line.transform_filter(f"datum.operation === {name!r}")
        .encode(
            x=logarithmic(
                "latency",
                [name, shown] if len(panels) > 1 else shown,
                bounds,
                room=room,
                most=most,
                to=alt.X,
                grid=True,
                labelOverlap=True,
            ),
            y=alt.Y(
                "nines:Q",
                title="share of operations at or below" if name == panels[0] else None,
                scale=alt.Scale(domain=[0, max(top, 1.0)], nice=False),
                axis=alt.Axis(values=ticks, labelExpr=LABELS, labels=name == panels[0]),
            ),
            color=colours,
            tooltip=tooltip,
            order="nines:Q",
        )
        .properties(width=width, height=HEIGHT)
        for name in panels
        for shown in [f"{words[name]} (log scale)"]
    ]
    return alt.hconcat(*charts, spacing=PANEL_GAP)


def _title(curves: list[tuple[str, str, Histogram]]) -> str:
    operations = curves[0][1]
    same = [(target, h) for target, own, h in curves if own == operations]
    parts = [f"{latency_text(h.percentile(99.0))} on {t}" for t, h in same]
    return f"99 % of {operations} end within {', '.join(parts)}"
