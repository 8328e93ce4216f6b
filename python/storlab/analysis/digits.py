"""Formatting of ratios with as many digits as their intervals justify.

The last digit shown has the place value of the first digit of half the interval's width, but a
ratio has at least two significant digits and at most three: 1.47× [1.43–1.51], 2.7× [2.4–2.9]. It
is rounded half up. A ratio that is not 1 never reads as 1.
"""

from __future__ import annotations

import math
from decimal import ROUND_CEILING, ROUND_FLOOR

from storlab.base.units import format_number, last_place, rounded
from storlab.model.decision import Interval

TOO_NOISY = "too noisy"
LOOSE = 4.0  # upper / lower bound; beyond this a decided ratio is printed as "at least 1.5 times"
SLIGHT = 1.1  # bound near 1; "at least" a smaller ratio is no information about the size


def is_imprecise(ratio: Interval) -> bool:
    """Return whether a ratio's interval excludes 1 but spans more than a factor of four."""
    if ratio.low is None or ratio.high is None or not ratio.excludes(1.0):
        return False
    return ratio.high > LOOSE * ratio.low


def is_too_noisy(ratio: Interval) -> bool:
    """Return whether a ratio's interval includes 1 and spans more than a factor of ten."""
    return ratio.is_open and not is_imprecise(ratio)


def has_unknown_size(ratio: Interval) -> bool:
    """Return whether a ratio's interval excludes 1 but reaches from near 1 to far from it."""
    if not is_imprecise(ratio):
        return False
    near = ratio.low if ratio.estimate > 1 else 1 / (ratio.high or 1.0)
    return near is not None and near < SLIGHT


def times(ratio: Interval | float, sign: str = "\u00d7") -> str:
    """Format a ratio: ``1.47×``, or ``at least 1.5×`` if it differs from 1 but is imprecise.

    A ratio of single runs has two digits, and a plain number, such as a published ratio, has three.
    The bound of an imprecise ratio is rounded towards 1, so that it is never overstated.
    """
    if not isinstance(ratio, Interval):
        return f"{format_number(ratio)}{sign}"
    if is_imprecise(ratio):
        return at_least(ratio, sign)
    if is_too_noisy(ratio):
        return TOO_NOISY
    return f"{_apart(ratio, ratio.estimate)}{sign}"


def at_least(ratio: Interval, sign: str = "\u00d7") -> str:
    """Format the bound of a ratio that is nearest to 1, such as ``at least 1.5×``."""
    return f"at {'least' if ratio.estimate > 1 else 'most'} {_near(ratio)}{sign}"


def ends_text(ratio: Interval) -> str:
    """Format the bounds of a ratio, ``1.2–3.0``, with the digits of its estimate or at least two.

    Empty without bounds, and if :func:`times` does not print the estimate.
    """
    if ratio.low is None or ratio.high is None or ratio.is_open or is_imprecise(ratio):
        return ""
    return f"{_apart(ratio, ratio.low)}–{_apart(ratio, ratio.high)}"


def printed_size(ratio: Interval) -> float:
    """Return the number that is printed of a ratio: its estimate, or a bound if it is imprecise."""
    near = ratio.low if ratio.estimate > 1 else ratio.high
    return near if is_imprecise(ratio) and near is not None else ratio.estimate


def last_digit(ratio: Interval) -> int:
    """Return the power of ten of the last digit that a ratio's interval justifies."""
    finest, coarsest = min(0, last_place(ratio.estimate, 3)), last_place(ratio.estimate, 2)
    if ratio.low is None or ratio.high is None:
        return coarsest
    half = (ratio.high - ratio.low) / 2
    return min(max(finest, math.floor(math.log10(half))), coarsest) if half > 0 else finest


def _apart(ratio: Interval, value: float) -> str:
    """Format a ratio or one of its bounds; a value that differs from 1 by over 1e-6 never reads 1.

    If the ratio may be 1, its estimate and bounds may read 1.
    """
    place = min(last_digit(ratio), last_place(value, 2))
    while ratio.excludes(1.0) and abs(value - 1) > 1e-6 and _is_one(rounded(value, place)):
        place -= 1
    return rounded(value, place)


def _near(ratio: Interval) -> str:
    """Format the bound of a ratio that is nearest to 1, rounded towards 1, but never 1."""
    up = ratio.estimate > 1
    near = (ratio.low if up else ratio.high) or 1.0
    place, rounding = min(0, last_place(near, 2)), ROUND_FLOOR if up else ROUND_CEILING
    while abs(near - 1) > 1e-6 and _is_one(rounded(near, place, rounding)):
        place -= 1
    return rounded(near, place, rounding)


def _is_one(text: str) -> bool:
    return float(text.replace(",", "")) == 1
