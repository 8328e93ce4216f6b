"""Colours, markers, fonts and sizes of all figures.

Figures contain CSS variables as colours, so that one SVG serves light and dark themes and print.
The colours of targets can be distinguished with common colour-vision deficiencies (after Okabe
and Ito), and their contrast to light and dark backgrounds is at least 3:1. Every target also has
its own marker, so that readers need not rely on colour.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from storlab.figures.common import NOT_MEASURED

if TYPE_CHECKING:  # importing Altair is slow, and pages without charts need only the colours
    import altair as alt

FONT = "Helvetica Neue, Helvetica, Arial, Liberation Sans, sans-serif"
WIDTH = 340  # px of a chart without its axis; together they fit a phone's screen
HEIGHT = 190
PANEL_GAP = 16  # px between panels side by side
PANELS_WIDTH = 216  # px of two panels without their axes; together they fit the same width
FONT_PX = 13
SMALL_PX = 12  # smallest text; still legible on a phone, where drawings shrink by a quarter
CHARACTER_PX = 6.6  # average width of a label character in px
WIDER = 0.1  # extra width of text in the widest fallback font, as a fraction
LEGEND_CHARACTERS = 46  # characters that fit in one legend line
TAIL = "stroke"  # marker of a percentile: a tick

LIGHT: dict[str, str] = {
    "fig-ink": "#1b2733",
    "fig-muted": "#566575",
    "fig-grid": "#e3e8ed",
    "fig-rule": "#8a97a5",
    "fig-paper": "#ffffff",
    "s1": "#0068a8",
    "s2": "#c24e00",
    "s3": "#00795a",
    "s4": "#a8478a",
    "s5": "#5a55b5",
    "s6": "#7a6600",
}
DARK: dict[str, str] = {
    "fig-ink": "#e6edf3",
    "fig-muted": "#a3b1bf",
    "fig-grid": "#2a3541",
    "fig-rule": "#6f7f8f",
    "fig-paper": "#131b24",
    "s1": "#5bb8f0",
    "s2": "#f2a24b",
    "s3": "#3fcf9f",
    "s4": "#e79ac8",
    "s5": "#aaa3f2",
    "s6": "#d9c84f",
}
SERIES = 6
SHAPES = ("circle", "square", "triangle-up", "diamond", "triangle-down", "cross")


def role(name: str) -> str:
    """Return the CSS variable of a named colour, as ``var(--s1)``."""
    return f"var(--{name})"


def series_role(index: int) -> str:
    """Return the CSS variable of a target's colour."""
    return role(f"s{index % SERIES + 1}")


SIGNS = {
    "circle": "●",
    "square": "■",
    "triangle-up": "▲",
    "diamond": "◆",
    "triangle-down": "▼",
    "cross": "✚",
}


def sign_of(index: int) -> str:
    """Return the character that looks like a target's marker, for tables and legends."""
    return SIGNS[SHAPES[index % len(SHAPES)]]


def fill_of(index: int, provenance: str) -> str:
    """Return the fill of a target's bars: plain if measured, hatched otherwise."""
    if provenance in NOT_MEASURED:
        return f"url(#hatch-s{index % SERIES + 1})"
    return series_role(index)


PART_HATCHES = ("hatch", "hatch2", "hatch3")  # hatchings in the same colour


def part_fill(index: int, part: int) -> str:
    """Return the fill of one part of a stacked bar whose values were not measured."""
    return f"url(#{PART_HATCHES[part % 3]}-s{index % SERIES + 1})"


def panel_width(count: int) -> int:
    """Return the width in px of a panel if ``count`` panels are side by side."""
    return (WIDTH - PANEL_GAP * (count - 1)) // count


def series_label(target: str, provenance: str) -> str:
    """Return the name of a target for a legend; if not measured, as ``HDD (declared)``."""
    return f"{target} ({provenance})" if provenance in NOT_MEASURED else target


def dash_of(provenance: str) -> list[int]:
    """Return the dash pattern of a line: solid if its values were measured, else dashed."""
    return [4, 3] if provenance in NOT_MEASURED else [1, 0]


def colour(
    targets: Sequence[str],
    shown: Sequence[str] | None = None,
    *,
    legend: alt.Legend | bool = True,
    symbol_size: int | None = None,
) -> alt.Color:
    """Make the colours of targets and their legend.

    Args:
        targets: All targets of the brief; their order decides the colours.
        shown: Targets of this chart; by default all.
        legend: Legend, or whether to have the default one.
        symbol_size: Size of the legend's symbols; by default that of Vega-Lite.
    """
    import altair as alt

    own = [(i, t) for i, t in enumerate(targets) if shown is None or t in shown]
    return alt.Color(
        "target:N",
        title=None,
        scale=alt.Scale(domain=[t for _, t in own], range=[series_role(i) for i, _ in own]),
        legend=(_legend(symbol_size, [t for _, t in own]) if legend is True else legend) or None,
    )


def legend_columns(names: Sequence[str], width: float = WIDTH) -> int:
    """Return the number of columns of a legend, so that it fits the width of a chart in px.

    It is 0 if all entries fit into one line.
    """
    room = LEGEND_CHARACTERS * width / WIDTH
    if sum(len(name) + 4 for name in names) <= room:
        return 0
    return 2 if len(names) > 2 and 2 * max(len(n) + 4 for n in names) <= room else 1


def label_room(labels: Sequence[str], width: float) -> bool:
    """Return whether labels side by side fit into a width in px without overlap."""
    longest = max((len(label) for label in labels), default=0)
    return len(labels) * (longest + 1) * CHARACTER_PX <= 0.95 * width


def _legend(symbol_size: int | None, names: Sequence[str]) -> alt.Legend:
    import altair as alt

    more: dict[str, Any] = {} if symbol_size is None else {"symbolSize": symbol_size}
    return alt.Legend(columns=legend_columns(names), symbolOpacity=1, **more)


def shape(targets: Sequence[str], shown: Sequence[str] | None = None) -> alt.Shape:
    """Make the marker shapes of targets; Vega-Lite shows them in the legend of colours."""
    import altair as alt

    own = [(i, t) for i, t in enumerate(targets) if shown is None or t in shown]
    shapes = [SHAPES[i % len(SHAPES)] for i, _ in own]
    domain = [t for _, t in own]
    return alt.Shape("target:N", title=None, scale=alt.Scale(domain=domain, range=shapes))


def configured(
    chart: alt.TopLevelMixin,
    datasets: Mapping[str, Sequence[Mapping[str, Any]]],
    beside: Sequence[str] = (),
) -> dict[str, Any]:
    """Return the Vega-Lite specification of a chart with fonts, colours and data sets.

    Data sets are added here rather than by Altair, which would copy and check every value. Tests
    validate whole specifications instead.

    Args:
        chart: Chart whose layers refer to data sets by name (``alt.NamedData``).
        datasets: Records of each data set by name.
        beside: Labels of a vertical axis, for which space is added on the left.
    """
    ink, muted, grid = role("fig-ink"), role("fig-muted"), role("fig-grid")
    spec: dict[str, Any] = chart.to_dict(validate=False)
    spec["datasets"] = {name: [*values] for name, values in datasets.items()}
    spec["background"] = "transparent"
    wider = round(WIDER * CHARACTER_PX * max((len(name) for name in beside), default=0))
    spec["padding"] = {"left": 4 + wider, "right": 12, "top": 4, "bottom": 4}
    spec["config"] = {
        "font": FONT,
        "aria": False,
        "view": {"stroke": None},
        "axis": {
            "labelColor": muted,
            "titleColor": muted,
            "labelFontSize": FONT_PX,
            "titleFontSize": FONT_PX,
            "titleFontWeight": "normal",
            "gridColor": grid,
            "domainColor": role("fig-rule"),
            "tickColor": role("fig-rule"),
            "tickSize": 4,
            "labelPadding": 5,
            "titlePadding": 8,
        },
        "axisX": {"grid": False, "labelAngle": 0},
        "axisY": {"domain": False, "ticks": False},
        "legend": {
            "orient": "top",
            "labelColor": ink,
            "titleColor": muted,
            "labelFontSize": FONT_PX,
            "symbolSize": 80,
            "symbolStrokeWidth": 2,
            "columnPadding": 24,  # for fallback fonts wider than the layout font
            "offset": 6,
            "labelLimit": WIDTH - 20,  # a column of its own fits the full name
            "titleFontSize": SMALL_PX,
            "titleFontWeight": "normal",
        },
        "header": {"labelColor": ink, "labelFontSize": FONT_PX, "title": None, "labelPadding": 6},
        "title": {"color": ink, "fontSize": SMALL_PX, "fontWeight": "bold", "anchor": "start"},
        "text": {"color": ink, "fontSize": SMALL_PX},
    }
    return spec


LATENCY_LABELS = (
    "datum.value >= 1e9 ? format(datum.value / 1e9, '~g') + ' s'"
    " : datum.value >= 1e6 ? format(datum.value / 1e6, '~g') + ' ms'"
    " : datum.value >= 1e3 ? format(datum.value / 1e3, '~g') + ' µs'"
    " : format(datum.value, '~g') + ' ns'"
)


def log_bounds(values: Sequence[float]) -> tuple[float, float]:
    """Return the ends of a logarithmic axis: 1, 2 or 5 times a power of ten around all values."""
    positive = [v for v in values if v > 0]
    if not positive:
        return (1.0, 10.0)
    low = max(step for step in _steps(min(positive)) if step <= min(positive) * 0.999)
    high = min(step for step in _steps(max(positive)) if step >= max(positive) * 1.001)
    return (low, high)


def log_ticks(low: float, high: float, room: float = 2.2, most: int = 12) -> list[float]:
    """Return ticks of a logarithmic axis: powers of ten, on short axes also 2 and 5 times these.

    Args:
        low: Lower end of the axis.
        high: Upper end of the axis.
        room: Most decades at which ticks at 2 and 5 times a power of ten are included.
        most: Largest number of ticks; of more, every second, third, ... is kept.
    """
    decades = math.log10(high / low)
    digits = (1, 2, 5) if decades <= room else (1, 3) if decades <= room + 1 else (1,)
    start, stop = math.floor(math.log10(low)), math.ceil(math.log10(high))
    ticks = [digit * 10.0**power for power in range(start, stop + 1) for digit in digits]
    inside = [tick for tick in ticks if low * 0.999 <= tick <= high * 1.001]
    return inside[:: math.ceil(len(inside) / most)] if inside else []


def _steps(value: float) -> list[float]:
    power = math.floor(math.log10(value))
    return [digit * 10.0**p for p in range(power - 1, power + 2) for digit in (1, 2, 5)]
