"""One look for all figures: roles instead of colours, so light, dark and print share a drawing.

Target colours are told apart by people with any of the common colour-vision deficiencies (after
Okabe and Ito) and stand out from the paper by a contrast of at least 3:1, light and dark. Every
target also has its own marker, so that colour is never the only sign.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from storlab.figures.common import NOT_MEASURED

if TYPE_CHECKING:  # the colours serve pages that have no chart, too: it is slow to import
    import altair as alt

FONT = "Helvetica Neue, Helvetica, Arial, Liberation Sans, sans-serif"
WIDTH = 340  # of a drawing area, px: with its axis a drawing fits a phone's screen
HEIGHT = 190
PANEL_GAP = 16  # between panels side by side
FONT_PX = 13
SMALL_PX = 12  # the smallest text: on a phone, where a drawing shrinks by a quarter, still read
CHARACTER_PX = 6.6  # of a label's average character of that size
WIDER = 0.1  # of their width that words take more in the widest font of a reader
LEGEND_CHARACTERS = 46  # that find room in one line of a legend
TAIL = "stroke"  # the sign of a percentile: a tick, where means have their target's marker

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
    """The colour of a role as CSS."""
    return f"var(--{name})"


def series_role(index: int) -> str:
    """The colour of the index-th target."""
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
    """The marker of the index-th target as a character, for tables and legends of text."""
    return SIGNS[SHAPES[index % len(SHAPES)]]


def fill_of(index: int, provenance: str) -> str:
    """The fill of a bar: plain where measured, hatched where it was not."""
    if provenance in NOT_MEASURED:
        return f"url(#hatch-s{index % SERIES + 1})"
    return series_role(index)


PART_HATCHES = ("hatch", "hatch2", "hatch3")  # the same colour, told apart by their lines


def part_fill(index: int, part: int) -> str:
    """The fill of the part-th piece of the index-th target's stack, none of it measured."""
    return f"url(#{PART_HATCHES[part % 3]}-s{index % SERIES + 1})"


def panel_width(count: int) -> int:
    """The width of each of so many panels side by side."""
    return (WIDTH - PANEL_GAP * (count - 1)) // count


def series_label(target: str, provenance: str) -> str:
    """A target in a legend: ``16x HDD (declared)``; measured goes without saying."""
    return f"{target} ({provenance})" if provenance in NOT_MEASURED else target


def dash_of(provenance: str) -> list[int]:
    """The dashes of a line, likewise."""
    return [4, 3] if provenance in NOT_MEASURED else [1, 0]


def colour(
    targets: Sequence[str],
    shown: Sequence[str] | None = None,
    *,
    legend: alt.Legend | bool = True,
    symbol_size: int | None = None,
) -> alt.Color:
    """Colour by target; of ``targets``, all of the study, the legend has those that are shown."""
    import altair as alt

    own = [(i, t) for i, t in enumerate(targets) if shown is None or t in shown]
    return alt.Color(
        "target:N",
        title=None,
        scale=alt.Scale(domain=[t for _, t in own], range=[series_role(i) for i, _ in own]),
        legend=(_legend(symbol_size, [t for _, t in own]) if legend is True else legend) or None,
    )


def legend_columns(names: Sequence[str]) -> int:
    """In how many columns the entries of a legend stand, so that it is no wider than its drawing.

    0: all of them in one line.
    """
    if sum(len(name) + 4 for name in names) <= LEGEND_CHARACTERS:
        return 0
    return 2 if len(names) > 2 and 2 * max(len(n) + 4 for n in names) <= LEGEND_CHARACTERS else 1


def label_room(labels: Sequence[str], width: float) -> bool:
    """Whether a label on each of so many bars side by side has room of its own."""
    longest = max((len(label) for label in labels), default=0)
    return len(labels) * (longest + 1) * CHARACTER_PX <= 0.95 * width


def _legend(symbol_size: int | None, names: Sequence[str]) -> alt.Legend:
    import altair as alt

    more: dict[str, Any] = {} if symbol_size is None else {"symbolSize": symbol_size}
    return alt.Legend(columns=legend_columns(names), symbolOpacity=1, **more)


def shape(targets: Sequence[str], shown: Sequence[str] | None = None) -> alt.Shape:
    """Marker by target; merges with the colour legend."""
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
    """The specification of a chart in the house look.

    ``beside``: long names beside a vertical axis. They have room in a font wider than the one that
    they are laid out by, too.

    ``datasets`` holds what the chart's layers name (``alt.NamedData``): once, and past Altair's
    copying and checking of every value. The tests validate whole specifications.
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
            "columnPadding": 24,  # where the font is wider than the one that they are laid out by
            "offset": 6,
            "labelLimit": WIDTH - 20,  # a column of its own has room for the name as it is written
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
    """Bounds of a logarithmic axis: 1, 2 or 5 times a power of ten, around positive values."""
    positive = [v for v in values if v > 0]
    if not positive:
        return (1.0, 10.0)
    low = max(step for step in _steps(min(positive)) if step <= min(positive) * 0.999)
    high = min(step for step in _steps(max(positive)) if step >= max(positive) * 1.001)
    return (low, high)


def log_ticks(low: float, high: float, room: float = 2.2, most: int = 12) -> list[float]:
    """Ticks of a logarithmic axis: powers of ten, with 2 and 5 between where there is room.

    ``room``: for how many decades there is; ``most``: labels, of more every second, third, ...
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
