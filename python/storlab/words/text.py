"""Formatting of numbers, intervals, changes and lists for the text of a brief."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Sequence
from datetime import UTC, datetime
from typing import Literal, NamedTuple

from storlab.analysis import digits
from storlab.base.units import NS_PER_S, significant
from storlab.model.decision import Interval

BIAS = "Because of noise, the smallest and largest of many ratios overstate the true range."
MISSING = "not measured"
WITHIN_NOISE = "within run-to-run variation"
DIFFERENT_CONCURRENCY = "at different effective concurrency"
LATENCY_UNITS = (("µs", 1e3), ("ms", 1e6), ("s", NS_PER_S))


def latency_unit(values_ns: Iterable[float], least: float = 0.1) -> tuple[str, float]:
    """Choose one time unit for several values: the largest in which all are at least ``least``."""
    smallest = min(values_ns, default=1e6)
    fitting = [(unit, factor) for unit, factor in LATENCY_UNITS if smallest >= least * factor]
    return fitting[-1] if fitting else ("ns", 1.0)


def digits3(value: float) -> str:
    """Format a number with three significant digits: ``1,240``, ``85.1``, ``0.412``."""
    if value == 0:
        return "0"
    magnitude = abs(value)
    if magnitude >= 99.95:
        return f"{value:,.0f}"
    if magnitude >= 9.995:
        return f"{value:.1f}"
    if magnitude >= 0.9995:
        return f"{value:.2f}"
    decimals = 2 - math.floor(math.log10(magnitude * 1.0005))
    return f"{value:.{decimals}f}"


def latency_text(value_ns: float) -> str:
    """Format a latency with three digits and an SI unit, as ``85.1 µs``."""
    for unit, factor in (("s", NS_PER_S), ("ms", 1e6), ("µs", 1e3)):
        if value_ns >= factor * 0.9995:
            return f"{digits3(value_ns / factor)}\u00a0{unit}"
    return f"{value_ns:.0f}\u00a0ns"


def value_text(value: float, unit: str) -> str:
    """Format a value with its unit; nanoseconds become a suitable time unit."""
    return latency_text(value) if unit == "ns" else f"{digits3(value)}\u00a0{unit}"


def interval_text(interval: Interval | None, show: Callable[[float], str] = digits3) -> str:
    """Format an estimate with its interval: ``1,240 [1,200, 1,280]``, or ``1,240 (one run)``."""
    if interval is None:
        return MISSING
    if interval.low is None or interval.high is None:
        return f"{show(interval.estimate)} (one run)"
    return f"{show(interval.estimate)} [{show(interval.low)}, {show(interval.high)}]"


def spread_text(
    interval: Interval, factor: float = 1.0, show: Callable[[float], str] = digits3
) -> str:
    """Format the bounds of an interval, such as ``1,200–1,260``; empty without bounds."""
    if interval.low is None or interval.high is None:
        return ""
    return f"{show(interval.low / factor)}–{show(interval.high / factor)}"


def range_text(values: Sequence[float], show: Callable[[float], str] = digits3) -> str:
    """Format the smallest and the largest of some values, as ``1,200 to 1,260``."""
    return f"{show(min(values))} to {show(max(values))}"


def cell_texts(
    interval: Interval, factor: float = 1.0, show: Callable[[float], str] = digits3
) -> tuple[str, str]:
    """Format a table value and its interval; "not decided" if its ends differ tenfold."""
    if digits.is_open(interval):
        return digits.NOT_DECIDED, ""
    return show(interval.estimate / factor), spread_text(interval, factor, show)


def times_text(ratio: float) -> str:
    """Format a ratio as ``0.42×``: two decimals from 0.095 to 10, two digits below."""
    return f"{ratio_digits(ratio)}\u00d7"


def ratio_digits(ratio: float) -> str:
    """Format a ratio as ``0.42``, like ``times_text`` but without the multiplication sign."""
    if 0 < ratio < 0.095:
        return significant(ratio, 2)
    return f"{ratio:.2f}" if 0.095 <= ratio < 9.995 else digits3(ratio)


def ratio_text(ratio: Interval) -> str:
    r"""Format a ratio with its interval, as ``0.42 [0.40, 0.45]``.

    If the ratio is imprecise, the text starts with its bound, such as ``at most 0.11×``.
    """
    plain = interval_text(ratio, ratio_digits)
    if not digits.is_imprecise(ratio):
        return plain
    return f"{digits.times(ratio)} {plain[plain.index('[') :]}"


def ratio_bracket(interval: Interval) -> str:
    """Format a ratio as ``0.42× [0.40–0.44]``, or as ``at least 1.5×`` if it is imprecise."""
    ends = "" if digits.is_imprecise(interval) else digits.ends_text(interval)
    return digits.times(interval) + (f" [{ends}]" if ends else "")


def ratio_spread(interval: Interval) -> str:
    """Format the bounds of a ratio, such as ``0.40–0.44``; empty without bounds."""
    if interval.low is None or interval.high is None:
        return ""
    return f"{ratio_digits(interval.low)}–{ratio_digits(interval.high)}"


def ratio_texts(ratio: Interval) -> tuple[str, str]:
    """Format ratio and interval for a table; "not decided" if it is wide and includes 1."""
    if digits.is_open(ratio) and not ratio.excludes(1.0):
        return digits.NOT_DECIDED, ""
    if digits.is_imprecise(ratio):
        return digits.times(ratio), ratio_spread(ratio)
    return times_text(ratio.estimate), ratio_spread(ratio)


def mean_ratio(ratios: Sequence[Interval], what: str, of: str = "") -> str:
    """Format the geometric mean and the range of ratios, such as ``1.2× its power``."""
    values = [ratio.estimate for ratio in ratios]
    mean = math.exp(math.fsum(math.log(value) for value in values) / len(values))
    ends = f"from {times_text(min(values))} to {times_text(max(values))}"
    return f"{times_text(mean)} {what} in the geometric mean{of}, {ends}"


class Change(NamedTuple):
    """Ratio in words, such as "71 % less", with the number in the words."""

    kind: Literal["less", "more", "multiple"]
    number: str
    words: str


def change(ratio: float) -> Change:
    """Express a ratio as a change in words.

    Below 1 it is a decrease (at most 100 %), up to 2 an increase, from 2 on a multiple: 0.29 is
    "71 % less", 1.4 is "40 % more", 3.5 is "3.50 times as much".
    """
    if ratio < 1:
        return Change("less", percent_digits(1 - ratio), f"{percent(1 - ratio)} less")
    if ratio < 2:
        return Change("more", percent_digits(ratio - 1), f"{percent(ratio - 1)} more")
    return Change("multiple", digits3(ratio), f"{digits3(ratio)} times as much")


def percent(share: float) -> str:
    """Format a fraction as a percentage such as ``71 %``, with one decimal below 10 %."""
    return f"{percent_digits(share)}\u00a0%"


def percent_digits(share: float) -> str:
    """Format a fraction as a percentage without the sign, such as ``71``."""
    value = 100 * share
    if 1e-6 <= abs(value) < 0.05:  # smaller values are rounding errors of floating point
        return significant(value, 1)
    return f"{value:.0f}" if value >= 9.95 else f"{value:.1f}"


def and_list(words: Sequence[str]) -> str:
    """Join words as ``a``, ``a and b`` or ``a, b and c``."""
    if len(words) < 2:
        return "".join(words)
    return f"{', '.join(words[:-1])} and {words[-1]}"


def sentence_case(text: str) -> str:
    """Capitalise the first letter of a text and leave the rest unchanged."""
    return text[:1].upper() + text[1:]


def plural(count: int, word: str) -> str:
    """Format a count with its noun, such as ``1 run`` or ``3 runs``."""
    return f"{count:,}\u00a0{word}" if count == 1 else f"{count:,}\u00a0{word}s"


def date_range(stamps: Iterable[str]) -> str:
    """Format a range of UTC dates such as ``20–21 November 2026``; empty without timestamps."""
    days = sorted({datetime.fromisoformat(stamp).astimezone(UTC).date() for stamp in stamps})
    if not days:
        return ""
    first, last = days[0], days[-1]
    if first == last:
        return f"{last.day} {last:%B %Y}"
    if (first.year, first.month) == (last.year, last.month):
        return f"{first.day}–{last.day} {last:%B %Y}"
    return f"{first.day} {first:%B %Y} – {last.day} {last:%B %Y}"


def breakable(text: str) -> str:
    """Insert zero-width spaces after commas, so that lists such as mount options can wrap."""
    return re.sub(r",(?=\S)", ",\u200b", text)
