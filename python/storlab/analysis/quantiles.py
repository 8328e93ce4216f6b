"""Quantiles of the normal and of Student's t distribution.

Implemented here because a library with these two functions would add a fifth to the download of
`pip install storlab`.
"""

from __future__ import annotations

import math
from statistics import NormalDist

_NORMAL = NormalDist()
_MANY = 1e4  # degrees of freedom above which the Cornish-Fisher series is exact
_STEPS = 500  # upper limit of the iterations below; none needs as many


def normal(probability: float) -> float:
    """Return the quantile of the standard normal distribution."""
    return _NORMAL.inv_cdf(probability)


def student_t(probability: float, freedom: float) -> float:
    """Return the quantile of Student's t distribution for a probability of one half or more.

    ``freedom`` need not be an integer. The upper tail is solved by Newton's method with a
    second-order term.
    """
    normal_value = normal(probability)
    if freedom > _MANY:
        return _beside_normal(normal_value, freedom)
    tail = 1 - probability
    value = normal_value  # too small; the tail is convex, so no step overshoots
    if freedom >= 3 and normal_value**2 < freedom:
        value = _beside_normal(normal_value, freedom)
    for _ in range(_STEPS):
        step = (_upper_tail(value, freedom) - tail) / _density(value, freedom)
        if abs(step) < value / 4:
            step *= 1 + step * value * (freedom + 1) / (2 * (freedom + value * value))
        value += step
        # Newton's method converges quadratically: the remaining error is about this step squared.
        if abs(step) <= 1e-9 * value:
            break
    return value


def _beside_normal(z: float, freedom: float) -> float:
    """Return the t quantile by the third-order Cornish-Fisher expansion of the normal quantile."""
    first = (z**3 + z) / 4
    second = (5 * z**5 + 16 * z**3 + 3 * z) / 96
    third = (3 * z**7 + 19 * z**5 + 17 * z**3 - 15 * z) / 384
    return z + first / freedom + second / freedom**2 + third / freedom**3


def _density(value: float, freedom: float) -> float:
    grown = (freedom + 1) / 2
    scale = math.lgamma(grown) - math.lgamma(freedom / 2) - math.log(math.pi * freedom) / 2
    return math.exp(scale - grown * math.log1p(value * value / freedom))


def _upper_tail(value: float, freedom: float) -> float:
    square = value * value
    share = freedom / (freedom + square)
    if share < (freedom + 2) / (freedom + 5):  # the continued fraction converges fast here
        return _beta_part(share, square / (freedom + square), freedom / 2, 0.5) / 2
    return 0.5 - _beta_part(square / (freedom + square), share, 0.5, freedom / 2) / 2


def _beta_part(x: float, rest: float, a: float, b: float) -> float:
    """Return the regularised incomplete beta function at x = 1 - rest (continued fraction)."""
    if x == 0:
        return 0.0
    scale = math.lgamma(a + b) - math.lgamma(a) - math.lgamma(b)
    front = math.exp(scale + a * math.log(x) + b * math.log(rest)) / a
    c, d = 1.0, 1 / (1 - (a + b) * x / (a + 1))
    fraction = d
    for m in range(1, _STEPS):
        even = m * (b - m) * x / ((a + 2 * m - 1) * (a + 2 * m))
        odd = -(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1))
        before = fraction
        for part in (even, odd):
            d = 1 / (1 + part * d)
            c = 1 + part / c
            fraction *= c * d
        if abs(fraction - before) <= 1e-16 * abs(fraction):
            break
    return front * fraction
