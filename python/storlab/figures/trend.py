"""Draw a metric over months: means with intervals, runs as dots, and a line per level.

The SVG is written directly, with one path for all dots, one for intervals and one for means. For
thousands of results, Vega-Lite would take a hundred times as long and as much space.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from typing import TypeVar
from xml.sax.saxutils import escape

import numpy as np
from numpy.typing import NDArray

from storlab.analysis.changes import level
from storlab.base.units import NS_PER_S
from storlab.figures.theme import CHARACTER_PX, FONT, FONT_PX, HEIGHT, WIDTH, role
from storlab.model.decision import Interval

WIDE = 980  # drawing area on wide pages
LEFT, RIGHT, TOP, BOTTOM = 66, 14, 40, 30
_TIMES = (("s", NS_PER_S), ("ms", 1e6), ("µs", 1e3))
FEW = 120  # up to this many results, marks are drawn large
_DAY = 86_400
_STEPS = (60.0, 300.0, 900.0, _DAY / 24, _DAY / 4, _DAY, 2 * _DAY, 7 * _DAY, 14 * _DAY)
_MONTHS = (1, 2, 3, 6, 12, 24, 60)
Values = TypeVar("Values", float, NDArray[np.float64])


@dataclass(frozen=True, slots=True)
class Mark:
    """Result in a trend: time in seconds since 1970, mean with interval, and single runs."""

    time: float
    value: Interval
    runs: Sequence[float]


@dataclass(frozen=True, slots=True)
class Turn:
    """Change point in a trend: index of the first result after it, and the text to print."""

    index: int
    text: str


@dataclass(frozen=True, slots=True)
class Trend:
    """Data of a trend: results, change points and unit."""

    marks: Sequence[Mark]
    turns: Sequence[Turn]
    unit: str


class _Frame:
    """Conversion of times and values to px in a trend."""

    def __init__(self, trend: Trend, width: int) -> None:
        self.width, self.height = width, HEIGHT
        first, last = trend.marks[0].time, trend.marks[-1].time
        room = max((last - first) * 0.02, 1.0)
        self.start, self.end = first - room, last + room
        low, high = _reach(trend.marks)
        room = (high - low or abs(high) or 1.0) * 0.08
        self.ticks = _ticks(max(low - room, 0.0) if low >= 0 else low - room, high + room)
        self.low, self.high = self.ticks[0], self.ticks[-1]

    def x(self, time: float) -> float:
        return LEFT + self.width * (time - self.start) / (self.end - self.start)

    def y(self, value: Values) -> Values:
        return TOP + self.height * (self.high - value) / (self.high - self.low)


def draw_trend(trend: Trend, *, wide: bool = False) -> tuple[str, list[float]]:
    """Draw a trend of at least one result.

    Returns:
        SVG with CSS variables as colours, and each result's position as a fraction of the width.
    """
    frame = _Frame(trend, WIDE if wide else WIDTH)
    width, height = LEFT + frame.width + RIGHT, TOP + frame.height + BOTTOM
    few = len(trend.marks) <= (FEW if wide else FEW // 2)
    places = [(frame.x(mark.time), mark) for mark in trend.marks]
    runs = [end for x, mark in places for run in mark.runs for end in (x, run)]
    means = [end for x, mark in places for end in (x, mark.value.estimate)]
    svg = "".join(
        (
            f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" '
            f'viewBox="0 0 {width} {height}" font-family="{FONT}" font-size="{FONT_PX}">',
            *_value_axis(frame, trend.unit),
            *_time_axis(frame),
            _path(_intervals(frame, places), "s1", 1.6 if few else 0.9, 0.5),
            _path(_dots(frame, runs), "fig-muted", 3.0 if few else 1.8, 0.75),
            *_levels(frame, trend, places),
            _path(_dots(frame, means), "s1", 6.0 if few else 2.8, 1.0),
            *_turns(frame, trend, places),
            "</svg>",
        )
    )
    return svg, [round(x / width, 4) for x, _ in places]


def _reach(marks: Sequence[Mark]) -> tuple[float, float]:
    """Return the lowest and the highest value that the vertical axis must show."""
    values = [run for mark in marks for run in mark.runs]
    values += [mark.value.estimate for mark in marks]
    ends = [end for mark in marks for end in (mark.value.low, mark.value.high) if end is not None]
    values += filter(math.isfinite, ends)
    return min(values), max(values)


def _path(data: str, colour: str, width: float, opacity: float) -> str:
    if not data:
        return ""
    return (
        f'<path d="{data}" fill="none" stroke="{role(colour)}" stroke-width="{width}" '
        f'stroke-linecap="round" stroke-opacity="{opacity}"/>'
    )


def _dots(frame: _Frame, points: list[float]) -> str:
    """Return an SVG path of dots; ``points`` alternates between position in px and value.

    Each dot is a line of zero length with round ends. All dots are computed and formatted in one
    step, because there can be ten thousand.
    """
    scaled = np.array(points).reshape(-1, 2)
    scaled[:, 1] = frame.y(scaled[:, 1])
    return "M%.1f %.1fh0" * len(scaled) % tuple(scaled.ravel().tolist())


def _intervals(frame: _Frame, places: Iterable[tuple[float, Mark]]) -> str:
    ends = [
        mark
        for x, value in ((x, mark.value) for x, mark in places)
        if value.low is not None and value.high is not None and math.isfinite(value.high)
        for mark in (x, value.low, value.high)
    ]
    scaled = np.array(ends).reshape(-1, 3)
    scaled[:, 1:] = frame.y(scaled[:, 1:])
    return "M%.1f %.1fV%.1f" * len(scaled) % tuple(scaled.ravel().tolist())


def _levels(frame: _Frame, trend: Trend, places: Sequence[tuple[float, Mark]]) -> Iterable[str]:
    """Yield a horizontal line at the mean of the results between two change points."""
    ends = [0, *(turn.index for turn in trend.turns), len(places)]
    for start, end in pairwise(ends):
        part = places[start:end]
        y = frame.y(level([mark.value.estimate for _, mark in part]))
        yield (
            f'<path d="M{part[0][0]:.1f} {y:.1f}H{part[-1][0]:.1f}" stroke="{role("s2")}" '
            'stroke-width="2.5" stroke-opacity="0.9"/>'
        )


def _turns(frame: _Frame, trend: Trend, places: Sequence[tuple[float, Mark]]) -> Iterable[str]:
    """Yield a dashed vertical line at each change point, with its text above if it fits."""
    used = [-math.inf, -math.inf]
    for turn in trend.turns:
        x = (places[turn.index - 1][0] + places[turn.index][0]) / 2
        yield (
            f'<path d="M{x:.1f} {TOP - 6}V{TOP + frame.height}" stroke="{role("fig-ink")}" '
            'stroke-width="1.2" stroke-dasharray="5 4"/>'
        )
        half = len(turn.text) * CHARACTER_PX / 2
        middle = min(max(x, LEFT + half), LEFT + frame.width + RIGHT - half)
        row = next((row for row in (0, 1) if used[row] < middle - half), None)
        if row is not None:
            used[row] = middle + half + 8
            yield _text(middle, TOP - 10 - 15 * row, turn.text, "middle", "fig-ink", bold=True)


def _text(x: float, y: float, text: str, anchor: str, colour: str, *, bold: bool = False) -> str:
    weight = ' font-weight="bold"' if bold else ""
    return (
        f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" fill="{role(colour)}"{weight}>'
        f"{escape(text)}</text>"
    )


def _value_axis(frame: _Frame, unit: str) -> Iterable[str]:
    lines = "".join(f"M{LEFT} {frame.y(tick):.1f}h{frame.width}" for tick in frame.ticks)
    yield f'<path d="{lines}" stroke="{role("fig-grid")}"/>'
    shown, factor = unit, 1.0
    if unit == "ns":
        shown, factor = next(((u, f) for u, f in _TIMES if frame.high >= f), ("ns", 1.0))
    if shown != "1":
        yield _text(4, TOP - 18, shown, "start", "fig-muted")
    step = (frame.ticks[1] - frame.ticks[0]) / factor
    for tick in frame.ticks:
        yield _text(LEFT - 7, frame.y(tick) + 4, _plain(tick / factor, step), "end", "fig-muted")


def _plain(value: float, step: float) -> str:
    """Format the value of a tick with as many decimals as the distance between ticks needs."""
    decimals = max(0, -math.floor(math.log10(step) + 1e-9))
    decimals += abs(round(step, decimals) - step) > step / 1000  # one more digit for steps like 2.5
    return f"{value:,.{decimals}f}"


def _ticks(low: float, high: float) -> list[float]:
    """Return about five round tick values from below ``low`` to above ``high``."""
    raw = (high - low) / 5
    power = 10.0 ** math.floor(math.log10(raw))
    step = next(f * power for f in (1, 2, 2.5, 5, 10) if f * power >= raw * 0.999)
    first, last = math.floor(low / step + 1e-9), math.ceil(high / step - 1e-9)
    return [round(number * step, 12) for number in range(first, last + 1)]


def _time_axis(frame: _Frame) -> Iterable[str]:
    bottom = TOP + frame.height
    yield (
        f'<path d="M{LEFT} {bottom + 0.5}h{frame.width}" stroke="{role("fig-rule")}" fill="none"/>'
    )
    for time, text in _dates(frame.start, frame.end, 4 if frame.width == WIDTH else 9):
        x = frame.x(time)
        yield f'<path d="M{x:.1f} {bottom}v5" stroke="{role("fig-rule")}"/>'
        half = len(text) * CHARACTER_PX / 2
        middle = min(max(x, LEFT + half - 30), LEFT + frame.width + RIGHT - half)
        yield _text(middle, bottom + 20, text, "middle", "fig-muted")


def _dates(start: float, end: float, most: int) -> list[tuple[float, str]]:
    """Return at most ``most`` ticks of a time axis with labels: round times, days or months."""
    span = end - start
    for step in _STEPS:
        if span / step <= most:
            first = math.ceil(start / step)
            times = [number * step for number in range(first, math.floor(end / step) + 1)]
            form = "{0.day} {0:%b} {0:%H:%M}" if step < _DAY else "{0.day} {0:%b}"
            return [(time, form.format(datetime.fromtimestamp(time, UTC))) for time in times]
    for months in _MONTHS:
        if span / (months * 30.4 * _DAY) <= most or months == _MONTHS[-1]:
            break
    begin = datetime.fromtimestamp(start, UTC)
    number = begin.year * 12 + begin.month - 1
    number += -number % months
    dates = []
    while (time := datetime(number // 12, number % 12 + 1, 1, tzinfo=UTC)).timestamp() <= end:
        if time.timestamp() >= start:
            text = f"{time:%Y}" if months >= 12 else f"{time:%b %Y}"
            dates.append((time.timestamp(), text))
        number += months
    return dates


def date_text(time: datetime) -> str:
    """Format a time in UTC as ``20 Nov 2026, 11:30``, or as a dash if it is unknown."""
    if time < datetime.fromtimestamp(0, UTC) + timedelta(days=1):
        return "–"
    utc = time.astimezone(UTC)
    return f"{utc.day} {utc:%b %Y, %H:%M}"
