"""Numbers as words of a brief: units, intervals and honest comparisons."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from datetime import UTC, datetime
from typing import Literal, NamedTuple

from storlab.analysis import digits
from storlab.analysis.stats import Interval
from storlab.base.units import NS_PER_S, significant
from storlab.figures.common import digits3, ratio_digits, times_text

BIAS = "The extremes of many points are biased outward: read them as a range, not as a promise."
LATENCY_UNITS = (("µs", 1e3), ("ms", 1e6), ("s", NS_PER_S))


def latency_unit(values_ns: Iterable[float], least: float = 0.1) -> tuple[str, float]:
    """One unit for several values: the largest in which the smallest is at least ``least``."""
    smallest = min(values_ns, default=1e6)
    fitting = [(unit, factor) for unit, factor in LATENCY_UNITS if smallest >= least * factor]
    return fitting[-1] if fitting else ("ns", 1.0)


def spread_text(
    interval: Interval, factor: float = 1.0, show: Callable[[float], str] = digits3
) -> str:
    """``1,200–1,260``; empty without bounds."""
    if interval.low is None or interval.high is None:
        return ""
    return f"{show(interval.low / factor)}–{show(interval.high / factor)}"


def cell_texts(
    interval: Interval, factor: float = 1.0, show: Callable[[float], str] = digits3
) -> tuple[str, str]:
    """A number in a table and its interval; "not decided" where that spans a factor of ten."""
    if digits.is_open(interval):
        return digits.NOT_DECIDED, ""
    return show(interval.estimate / factor), spread_text(interval, factor, show)


def bracket(interval: Interval, factor: float = 1.0) -> str:
    """``1,230 [1,200–1,260]``: in a sentence the digits follow the interval."""
    return digits.text(interval, factor)


def ratio_bracket(interval: Interval) -> str:
    """``0.42× [0.40–0.44]``; ``at least 1.5×`` where it is known no better."""
    ends = "" if digits.is_loose(interval) else digits.ends_text(interval)
    return digits.times(interval) + (f" [{ends}]" if ends else "")


def ratio_spread(interval: Interval) -> str:
    """``0.40–0.44``; empty without bounds."""
    if interval.low is None or interval.high is None:
        return ""
    return f"{ratio_digits(interval.low)}–{ratio_digits(interval.high)}"


def ratio_texts(ratio: Interval) -> tuple[str, str]:
    """A ratio in a table and its interval; "not decided" where that is wide and includes 1."""
    if digits.is_open(ratio) and not ratio.excludes(1.0):
        return digits.NOT_DECIDED, ""
    if digits.is_loose(ratio):
        return digits.times(ratio), ratio_spread(ratio)
    return times_text(ratio.estimate), ratio_spread(ratio)


class Change(NamedTuple):
    """A ratio in words that mean what they say, and the number in them."""

    kind: Literal["less", "more", "multiple"]
    number: str
    words: str


def change(ratio: float) -> Change:
    """A ratio as a change.

    Below 1 as a decrease (never more than 100 %), up to 2 as an increase, above as a multiple:
    0.29 is "71 % less", 1.4 "40 % more", 3.5 "3.50 times as much".
    """
    if ratio < 1:
        return Change("less", percent_digits(1 - ratio), f"{percent(1 - ratio)} less")
    if ratio < 2:
        return Change("more", percent_digits(ratio - 1), f"{percent(ratio - 1)} more")
    return Change("multiple", digits3(ratio), f"{digits3(ratio)} times as much")


def percent(share: float) -> str:
    """``71 %``, with a digit more where it is small."""
    return f"{percent_digits(share)}\u00a0%"


def percent_digits(share: float) -> str:
    """The same without the sign."""
    value = 100 * share
    if 1e-6 <= abs(value) < 0.05:  # less is the rounding of floating point
        return significant(value, 1)
    return f"{value:.0f}" if value >= 9.95 else f"{value:.1f}"


def and_list(words: Sequence[str]) -> str:
    """``a``, ``a and b``, ``a, b and c``."""
    if len(words) < 2:
        return "".join(words)
    return f"{', '.join(words[:-1])} and {words[-1]}"


def sentence_case(text: str) -> str:
    """The text with a capital first letter. What begins with a target's name has it as it is."""
    return text[:1].upper() + text[1:]


def plural(count: int, word: str) -> str:
    """``1 run``, ``3 runs``."""
    return f"{count:,}\u00a0{word}" if count == 1 else f"{count:,}\u00a0{word}s"


def date_range(stamps: Iterable[str]) -> str:
    """``20 November 2026`` or ``20–21 November 2026``, UTC; empty without stamps."""
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
    """Lists such as mount options may go on in the next line after a comma: a break of no width."""
    return re.sub(r",(?=\S)", ",\u200b", text)
