"""Formatting of numbers, intervals, changes and lists for the text of a brief."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Sequence
from datetime import UTC, datetime
from typing import Literal, NamedTuple

from storlab.analysis import digits
from storlab.base.units import NS_PER_S, format_latency, format_number, last_place, rounded
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


def latency_text(value_ns: float) -> str:
    """Format a latency for a page, where number and unit stay on one line."""
    return format_latency(value_ns).replace(" ", "\u00a0")


def value_text(value: float, unit: str) -> str:
    """Format a value with its unit; nanoseconds become a suitable time unit."""
    return latency_text(value) if unit == "ns" else f"{format_number(value)}\u00a0{unit}"


def interval_text(interval: Interval | None, show: Callable[[float], str] = format_number) -> str:
    """Format a mean with its interval: ``1,240 [1,200–1,280]``, or ``1,240 (one run)``."""
    if interval is None:
        return MISSING
    if interval.low is None or interval.high is None:
        why = "one run" if interval.n == 1 else "no interval"
        return f"{show(interval.estimate)} ({why})"
    return f"{show(interval.estimate)} [{spread_text(interval, show=show)}]"


def spread_text(
    interval: Interval, factor: float = 1.0, show: Callable[[float], str] = format_number
) -> str:
    """Format the bounds of a mean: ``1,200–1,260``, or of two repeats ``1,200 to 1,260``.

    Empty without bounds.
    """
    if interval.low is None or interval.high is None:
        return ""
    ends = (interval.low / factor, interval.high / factor)
    return range_text(ends, show) if interval.n == 2 else "–".join(map(show, ends))


def range_text(values: Sequence[float], show: Callable[[float], str] = format_number) -> str:
    """Format the smallest and the largest of some values, as ``1,200 to 1,260``."""
    return f"{show(min(values))} to {show(max(values))}"


def cell_texts(
    interval: Interval, factor: float = 1.0, show: Callable[[float], str] = format_number
) -> tuple[str, str]:
    """Format a mean and its interval for a table; no interval if all repeats are equal."""
    spread = "" if interval.low == interval.high else spread_text(interval, factor, show)
    return show(interval.estimate / factor), spread


def ratio_text(ratio: Interval) -> str:
    """Format a ratio as ``0.42× [0.40–0.44]``, or as ``at least 1.5×`` if it is imprecise."""
    ends = digits.ends_text(ratio)
    return digits.times(ratio) + (f" [{ends}]" if ends else "")


def mean_ratio(ratios: Sequence[Interval], what: str, of: str = "") -> str:
    """Format the geometric mean and the range of ratios, such as ``1.2× its power``.

    Ratios that are too noisy are counted, and left out of the range.
    """
    mean = math.exp(math.fsum(math.log(ratio.estimate) for ratio in ratios) / len(ratios))
    shown = rounded(mean, min(last_place(mean, 2), *map(digits.last_digit, ratios)))
    text = f"{shown}\u00d7 {what} in the geometric mean{of}"
    noisy = sum(map(digits.is_too_noisy, ratios))
    if noisy == len(ratios):
        return f"{text}, each {digits.TOO_NOISY} to estimate"
    least, most = ratio_ends(ratios)
    more = f" ({plural(noisy, 'ratio')} {digits.TOO_NOISY} to estimate)" if noisy else ""
    return f"{text}, from {least} to {most}{more}"


def ratio_ends(ratios: Sequence[Interval]) -> tuple[str, str]:
    """Format the smallest and the largest ratio of those that are not too noisy, if there are any.

    If all are, both texts are ``too noisy``. Imprecise ratios count by their bound.
    """
    known = [ratio for ratio in ratios if not digits.is_too_noisy(ratio)] or [*ratios]
    least, *_, most = sorted([*known, known[0]], key=digits.printed_size)
    return digits.times(least), digits.times(most)


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
    return Change("multiple", format_number(ratio), f"{format_number(ratio)} times as much")


def percent(share: float) -> str:
    """Format a fraction as a percentage such as ``71 %``, with at least two digits."""
    return f"{percent_digits(share)}\u00a0%"


def percent_digits(share: float) -> str:
    """Format a fraction as a percentage without the sign, such as ``71`` or ``0.42``."""
    value = 100 * share if abs(share) >= 1e-8 else 0.0  # less is an error of floating point
    return rounded(value, min(0, last_place(value, 2)))


def named(label: str) -> str:
    """Return a target's name for a sentence: ``“memory file”`` in quotes, but ``nvme0n1`` as it is.

    A name of lower-case words alone is put in quotes, because it would be read as part of the
    sentence. In tables, legends and headings names stand without quotes.
    """
    words = re.split(r"[ -]", label)
    is_phrase = all(word.isalpha() and word == word.lower() for word in words)
    return f"“{label}”" if is_phrase else label


def all_named(labels: Iterable[str]) -> str:
    """Join names of targets for a sentence, as ``SSD, “memory file” and HDD``."""
    return and_list([named(label) for label in labels])


def and_list(words: Sequence[str]) -> str:
    """Join words as ``a``, ``a and b`` or ``a, b and c``."""
    if len(words) < 2:
        return "".join(words)
    return f"{', '.join(words[:-1])} and {words[-1]}"


def sentence_case(text: str) -> str:
    """Capitalise a text that begins with a word or a percentile; leave names such as eMMC alone."""
    first = re.match(r"[^\W\d_]+(?![\w.])|p\d", text)
    is_word = first is not None and first[0] == first[0].lower()
    return text[:1].upper() + text[1:] if is_word else text


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
