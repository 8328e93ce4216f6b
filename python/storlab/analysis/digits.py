"""Formatting of numbers with as many digits as their intervals justify.

The last digit shown has the place value of the first digit of half the interval's width: 1.47
[1.41-1.53], 1.5 [1.2-1.8], 1,230 [1,200-1,260]. At most three digits are shown, the resolution of
histograms. An interval that spans more than a factor of ten is printed as "not decided".
"""

from __future__ import annotations

import math
from collections.abc import Callable

from storlab.model.decision import Interval

NOT_DECIDED = "not decided"
WIDE = 10.0  # upper / lower bound of an interval; beyond this the size is unknown
LOOSE = 4.0  # upper / lower bound; beyond this a decided ratio is printed as "at least 1.5 times"
SLIGHT = 1.1  # bound near 1; "at least" a smaller ratio is no information about the size


def is_open(interval: Interval) -> bool:
    """Return whether an interval spans more than a factor of ten, so that its size is unknown."""
    if interval.low is None or interval.high is None or interval.low <= 0:
        return False
    return interval.high > WIDE * interval.low


def rounding_step(interval: Interval, factor: float = 1.0) -> float:
    """Return the place value of the last digit to show; of the third digit without an interval."""
    finest = _finest(interval.estimate / factor)
    coarsest = _power(abs(interval.estimate) / factor) if interval.estimate else math.inf
    if interval.low is None or interval.high is None:
        return finest
    half = (interval.high - interval.low) / 2 / factor
    if not math.isfinite(half) or half <= 0:
        return finest
    return max(finest, min(_power(half), coarsest))  # never round a number to 0


def number(value: float, step: float) -> str:
    """Format a value with ``step`` as place value of the last digit: ``1,230`` or ``1.47``."""
    decimals = max(0, -math.floor(math.log10(step) + 1e-9))
    rounded = round(value / step) * step if step > 1 else value
    return f"{rounded:,.{decimals}f}"


def estimate_text(interval: Interval, factor: float = 1.0) -> str:
    """Format the estimate alone: ``1,230``, or ``at most 0.4`` if the interval includes 0."""
    if is_open(interval):
        return NOT_DECIDED
    if _from_zero(interval):
        return f"at most {_end(interval.high or 0.0, factor)}"
    return number(interval.estimate / factor, rounding_step(interval, factor))


def ends_text(ratio: Interval) -> str:
    """Format the bounds of a ratio, ``1.2-3`` with a dash; a bound is not rounded to 1.

    If :func:`times` prints the ratio as "at least 1.5 times", the bound near 1 is 1.5 here, too.
    """
    ends = _ends(ratio, 1.0, _number_apart)
    if not ends or not is_imprecise(ratio):
        return ends
    low, _, high = ends.partition("–")
    return f"{_near(ratio)}–{high}" if ratio.estimate > 1 else f"{low}–{_near(ratio)}"


def _ends(interval: Interval, factor: float, show: Callable[[float, float], str] = number) -> str:
    """Format the bounds of an interval, ``1,200-1,260`` with a dash.

    Empty without bounds, or if the text of the estimate already states them.
    """
    if interval.low is None or interval.high is None or is_open(interval) or _from_zero(interval):
        return ""
    if interval.low == interval.high:
        return ""
    step = rounding_step(interval, factor)
    low = interval.low / factor
    near = min(step, _power(low)) if 0 < low < 2 * step else step
    return f"{show(low, near)}–{show(interval.high / factor, step)}"


def text(interval: Interval, factor: float = 1.0) -> str:
    """Format estimate and interval, such as ``1,230 [1,200-1,260]``."""
    ends = _ends(interval, factor)
    return estimate_text(interval, factor) + (f" [{ends}]" if ends else "")


def times(ratio: Interval, sign: str = "\u00d7") -> str:
    """Format a ratio: ``1.47×``, or ``at least 1.5×`` if it differs from 1 but is imprecise."""
    if is_imprecise(ratio):
        return f"at {'least' if ratio.estimate > 1 else 'most'} {_near(ratio)}{sign}"
    if is_open(ratio):
        return NOT_DECIDED
    show = _number_apart if ratio.excludes(1.0) else number
    return f"{show(ratio.estimate, rounding_step(ratio))}{sign}"


def is_imprecise(ratio: Interval) -> bool:
    """Return whether a ratio's interval excludes 1 but spans more than a factor of four."""
    if ratio.low is None or ratio.high is None or not ratio.excludes(1.0):
        return False
    return ratio.high > LOOSE * ratio.low


def has_unknown_size(ratio: Interval) -> bool:
    """Return whether a ratio's interval excludes 1 but reaches from near 1 to far from it."""
    if not is_imprecise(ratio):
        return False
    near = ratio.low if ratio.estimate > 1 else 1 / (ratio.high or 1.0)
    return near is not None and near < SLIGHT


def _near(ratio: Interval) -> str:
    """Format the bound of a ratio that is nearest to 1: two digits or an integer, but never 1."""
    near = (ratio.low if ratio.estimate > 1 else ratio.high) or 1.0
    return _number_apart(near, min(_power(near) / 10, 1.0))


def _number_apart(value: float, step: float) -> str:
    """Format a value with enough digits that it does not read as 1.

    A value that differs from 1 by at most 1e-6 may read as 1.
    """
    while abs(value - 1) > 1e-6 and float(number(value, step).replace(",", "")) == 1:
        step /= 10
    return number(value, step)


def _end(value: float, factor: float) -> str:
    shown = value / factor
    return number(shown, _power(shown) / 10) if shown > 0 else "0"


def _from_zero(interval: Interval) -> bool:
    if interval.low is None or interval.high is None:
        return False
    return interval.low <= 0 < interval.high and interval.estimate >= 0


def _power(value: float) -> float:
    """Return the largest power of ten not above the value."""
    return float(10.0 ** math.floor(math.log10(value) + 1e-12))


def _finest(value: float) -> float:
    """Return the place value of the third digit of a number; 1 for values of 100 or more."""
    magnitude = abs(value)
    if magnitude >= 99.95 or magnitude == 0:
        return 1.0
    return _power(magnitude * 1.0005) / 100
