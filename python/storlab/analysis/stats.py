"""Means and ratios of repeats with confidence intervals.

A mean has Student's t-interval. It is computed on a logarithmic scale if all values are positive,
so that its bounds are positive too. A ratio has Welch's t-interval (Welch 1947, Satterthwaite 1946)
of the logarithms, for which "twice as fast" and "half as fast" are equally far from equal. Repeats
that agree to the last digit still have a measurement error, so a standard error is never assumed to
be below the resolution of the values.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import lru_cache

from storlab.analysis.quantiles import student_t
from storlab.model.decision import Interval

CONFIDENCE = 0.95
"""Confidence of each interval, except of several that must hold simultaneously."""
RESOLUTION = 1e-3 / math.sqrt(3)
"""Relative standard uncertainty of one value, as histograms resolve three significant digits.

A value is off by 0.1 % at most (a rectangular distribution). The error belongs to the scale, so
more repeats do not reduce it.
"""


def mean_interval(values: Sequence[float], confidence: float = CONFIDENCE) -> Interval:
    """Return the mean with its t-interval; a single value has no bounds.

    For positive values the interval is that of the logarithm of the mean (delta method: its
    standard error is the relative standard error of the mean). If a value is 0 or less, the
    interval is symmetric.

    Raises:
        ValueError: There is no value, a value is not finite, or the confidence is outside (0, 1).
    """
    data = _checked(values, "values")
    _check_confidence(confidence)
    mean = _mean(data)
    if len(data) == 1:
        return Interval(mean, None, None, 1)
    error = max(_standard_error(data), RESOLUTION * abs(mean))
    half = t_quantile(confidence, len(data) - 1) * error
    if min(data) > 0:
        return around(mean, half / mean, len(data))
    return Interval(mean, mean - half, mean + half, len(data))


def printable(interval: Interval, values: Sequence[float], meter: float = 0.0) -> Interval:
    """Return the interval of a mean as it is printed and drawn, for which it has to say something.

    Student's factor for two repeats is 12.7, which leads far beyond anything observed: the bounds
    become the two values. An interval that spans more than a factor of ten, or reaches from zero
    or below to a positive bound, loses its bounds.

    Args:
        interval: Mean of the repeats, or a percentile of all their operations.
        values: The value of each repeat.
        meter: Relative uncertainty of the values that all repeats share, at the interval's
            confidence; it widens the bounds of two repeats.
    """
    if len(values) == 2:
        margin = _exp(meter)
        both = Interval(interval.estimate, min(values) / margin, max(values) * margin, 2)
        interval = both.around(interval.estimate)
        if not meter:
            return interval
    if interval.low is None or interval.high is None:
        return interval
    if interval.is_open or interval.low <= 0 < interval.high:
        return Interval(interval.estimate, None, None, interval.n)
    return interval


def around(estimate: float, relative: float, n: int) -> Interval:
    """Return the interval from ``estimate / exp(relative)`` to ``estimate * exp(relative)``."""
    return Interval(estimate, estimate * math.exp(-relative), estimate * _exp(relative), n)


def ratio_interval(
    numerator: Sequence[float], denominator: Sequence[float], confidence: float = CONFIDENCE
) -> Interval:
    """Return the ratio of geometric means with its log-Welch-t interval.

    ``n`` of the result is the number of repeats of the side with fewer. The result has no bounds
    if ``n`` is 1.

    Raises:
        ValueError: A side is empty, a value is not finite or not positive, or the confidence is
            outside (0, 1).
    """
    _check_confidence(confidence)
    logs = [
        [math.log(value) for value in _positive(side, name)]
        for side, name in ((numerator, "numerator"), (denominator, "denominator"))
    ]
    above, below = logs
    n = min(len(above), len(below))
    difference = _mean(above) - _mean(below)
    if n < 2:
        return Interval(math.exp(difference), None, None, n)
    error_above, error_below = (
        max(_standard_error(side), RESOLUTION) ** 2 for side in (above, below)
    )
    variance = error_above + error_below
    # Shares instead of raw squares: the square of a tiny variance would underflow to 0 / 0.
    share = error_above / variance
    freedom = 1 / (share**2 / (len(above) - 1) + (1 - share) ** 2 / (len(below) - 1))
    half = t_quantile(confidence, freedom) * math.sqrt(variance)
    return Interval(math.exp(difference), _exp(difference - half), _exp(difference + half), n)


def _mean(data: list[float]) -> float:
    return math.fsum(data) / len(data)


def _standard_error(data: list[float]) -> float:
    mean = _mean(data)
    left = math.fsum((value - mean) ** 2 for value in data)
    return math.sqrt(left / (len(data) - 1) / len(data))


@lru_cache(maxsize=64)  # the means of a campaign need the same few quantiles
def t_quantile(confidence: float, freedom: float) -> float:
    """Return the factor of Student's t distribution for a two-sided confidence interval."""
    return student_t(0.5 + confidence / 2, freedom)


def _exp(value: float) -> float:
    """Return ``exp(value)``, or infinity instead of an overflow for absurdly wide intervals."""
    return math.exp(value) if value < 709 else math.inf


def _checked(values: Sequence[float], name: str) -> list[float]:
    data = [float(value) for value in values]
    if not data:
        raise ValueError(f"{name} is empty: an interval needs at least one value")
    if not all(map(math.isfinite, data)):
        raise ValueError(f"{name} has a value that is not finite: {data}")
    return data


def _positive(values: Sequence[float], name: str) -> list[float]:
    data = _checked(values, name)
    if min(data) <= 0:
        raise ValueError(f"{name} has the value {min(data)}: a ratio needs values above 0")
    return data


def _check_confidence(confidence: float) -> None:
    if not 0 < confidence < 1:
        raise ValueError(f"confidence is {confidence}: it must be between 0 and 1, such as 0.95")
