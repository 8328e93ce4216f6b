"""Interval arithmetic on published numbers, which may have been rounded or truncated.

A number published as 3.1 was rounded from 3.05 .. 3.15 or truncated from 3.1 .. 3.2, so it may mean
3.05 .. 3.2. A recomputed value agrees with a published one if inputs within their intervals can
give an output within its interval.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache

from storlab.audit.quantities import factor_of, quantity_of
from storlab.audit.table import Row
from storlab.base.units import significant
from storlab.model.published import REMEMBERED

_SLACK = 1e-9  # relative tolerance for decimal numbers held as binary fractions
AT_LEAST = {"more_than", "at_least", "over", "above", "greater_than", "exceeds"}
AT_MOST = {"less_than", "at_most", "below", "under", "sub", "less", "up_to"}
ABOUT = {
    "approx",
    "about",
    "approximately",
    "around",
    "nearly",
    "almost",
    "roughly",
    "text",
    "from",
}


@dataclass(frozen=True, slots=True)
class Interval:
    """Closed interval from ``low`` to ``high``."""

    low: float
    high: float

    def __add__(self, other: Interval) -> Interval:
        return Interval(self.low + other.low, self.high + other.high)

    def __sub__(self, other: Interval) -> Interval:
        return Interval(self.low - other.high, self.high - other.low)

    def __mul__(self, other: Interval) -> Interval:
        ends = [_times(a, b) for a in (self.low, self.high) for b in (other.low, other.high)]
        return Interval(min(ends), max(ends))

    def __truediv__(self, other: Interval) -> Interval:
        if other.low <= 0 <= other.high:
            return _over_zero(self, other)
        return self * Interval(1 / other.high, 1 / other.low)

    def scaled(self, factor: float) -> Interval:
        """Return the interval multiplied by an exact number."""
        return self * Interval(factor, factor)

    def plus(self, term: float) -> Interval:
        """Return the interval shifted by an exact number."""
        return Interval(self.low + term, self.high + term)

    def meets(self, other: Interval) -> bool:
        """Return whether the intervals overlap."""
        return _at_most(self.low, other.high) and _at_most(other.low, self.high)

    def below(self, other: Interval) -> bool:
        """Return whether all of this interval lies below the other one."""
        return not _at_most(other.low, self.high)

    @property
    def middle(self) -> float:
        """Midpoint of the interval, or its finite end if the other is infinite."""
        ends = [end for end in (self.low, self.high) if math.isfinite(end)]
        return sum(ends) / len(ends) if ends else math.nan

    def __str__(self) -> str:
        low, high = shown(self.low), shown(self.high)
        return low if low == high else f"{low} to {high}"


EVERYTHING = Interval(-math.inf, math.inf)


def _times(a: float, b: float) -> float:
    return 0.0 if a == 0 or b == 0 else a * b


def _over_zero(above: Interval, below: Interval) -> Interval:
    """Divide an interval by one that contains zero.

    The quotient has a lower bound if the divisor has no negative part, otherwise no bounds.
    """
    if below.low == 0 < below.high and above.low >= 0:
        return Interval(above.low / below.high, math.inf)
    return EVERYTHING


def _at_most(a: float, b: float) -> bool:
    return a <= b or math.isclose(a, b, rel_tol=_SLACK, abs_tol=1e-300)


def hull(intervals: Iterable[Interval]) -> Interval:
    """Return the smallest interval that contains all given ones; at least one is required."""
    many = list(intervals)
    return Interval(min(i.low for i in many), max(i.high for i in many))


def shown(value: float) -> str:
    """Format a number with four significant digits, whole numbers in full."""
    if math.isnan(value):
        return "undefined"
    if math.isinf(value):
        return "any more" if value > 0 else "any less"
    if value != 0 and abs(value) < 1e-3:
        return significant(value, 4)
    digits = max(0, 3 - math.floor(math.log10(abs(value)))) if value else 0
    text = f"{value:,.{digits}f}"
    return text.rstrip("0").rstrip(".") if "." in text else text


@lru_cache(maxsize=REMEMBERED)
def rounding_unit(row: Row, digits: int = 3) -> float:
    """Return the value of one unit of the last significant digit of a row's number.

    Trailing zeros of a whole number beyond the third digit may be placeholders: 12,000 may have
    been rounded to hundreds. ``digits`` sets another number than three.
    """
    unit = row.rounding_unit
    if row.value is None or row.value == 0 or unit < 1 or row.value % unit:
        return unit
    largest = 10.0 ** (math.floor(math.log10(abs(row.value))) - digits + 1)
    while unit * 10 <= largest and row.value % (unit * 10) == 0:
        unit *= 10
    return unit


def has_places(row: Row) -> bool:
    """Return whether a row's number ends in zeros that may be due to rounding, like 28,000."""
    return _coarse_half(row) * 2 > rounding_unit(row)


def _coarse_half(row: Row) -> float:
    """Return half a unit of the second digit if the zeros after it may be due to rounding, else 0.

    28,000 IOPS may have been rounded to thousands and 130 % to tens. Settings are exact.
    """
    if row.value is None or row.kind in ("config", "limit"):
        return 0.0
    shown = abs(row.value) / row.printed_scale
    return rounding_unit(row, 2) / 2 if shown >= (1000 if row.is_measured else 100) else 0.0


@lru_cache(maxsize=REMEMBERED)
def printed_interval(row: Row) -> Interval | None:
    """Return the range of true values that a published number may mean, in the row's unit.

    ``approx`` widens it to one unit of the second digit. ``more_than``, ``below`` and similar words
    leave one end open, as does ``up_to`` on a claim; on a measurement ``up_to`` marks the maximum
    itself. None if the row has no number.
    """
    if row.value is None:
        return None
    value, words = row.value, row.qualifier.lower()
    is_about = words in ABOUT or row.printed.lstrip().startswith(("~", "≈"))
    unit = rounding_unit(row, 2 if is_about else 3)
    below, above = (unit, unit) if is_about else (unit / 2, unit)
    if value < 0:
        below, above = above, below
    low, high = value - below, value + above
    if not is_about:
        low, high = min(low, value - _coarse_half(row)), max(high, value + _coarse_half(row))
    if value > 0:
        low = max(low, 0.0)
    claimed = row.kind not in ("measured", "config", "limit")
    if words in AT_LEAST:
        high = math.inf
    elif words == "up_to" and claimed:
        low = -math.inf
    elif words in AT_MOST and words != "up_to":
        low, high = -math.inf, value + unit / 2
    return Interval(low, high)


@lru_cache(maxsize=REMEMBERED)
def rounded_interval(row: Row) -> Interval | None:
    """Return the range of true values of a published number if it was rounded, not truncated."""
    if row.value is None:
        return None
    half = rounding_unit(row) / 2
    return Interval(row.value - half, row.value + half)


@lru_cache(maxsize=REMEMBERED)
def si_interval(row: Row) -> Interval | None:
    """Return the range of true values that a published number may mean, in B, s, J or operations.

    None if the unit is unknown or the row states a version.
    """
    factor, printed = factor_of(row), printed_interval(row)
    if factor is None or printed is None or quantity_of(row).name == "version":
        return None
    return printed.scaled(factor)
