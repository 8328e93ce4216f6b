"""Power calculation: the number of repeats that would decide a gate's check.

The result is the smallest number of repeats with which four of five gates would decide the check,
assuming that the true value and the spread of single runs are those observed (Cohen, Statistical
Power Analysis, 1988, for the t-test).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from statistics import NormalDist, fmean, stdev

from storlab.analysis.repeats import POWER, least_repeats
from storlab.analysis.stats import RESOLUTION, t_quantile


def repeats_to_decide(
    values: Sequence[float],
    baseline: Sequence[float],
    bound: float,
    confidence: float,
    meter: float = 0.0,
) -> int | None:
    """Return the smallest total number of repeats that would decide an inconclusive check.

    Args:
        values: Values of the existing repeats.
        baseline: Values of the baseline's repeats, whose number is fixed; empty without a baseline.
        bound: Bound of the value, or of the ratio to the baseline.
        confidence: Confidence of the check's interval.
        meter: Relative standard uncertainty of the meter, which repeats do not reduce.

    Returns:
        The number; None if no number suffices, or if a side has a single run (no spread).
    """
    if len(values) < 2 or len(baseline) == 1:
        return None
    if baseline:
        values, other = ([math.log(v) for v in side] for side in (values, baseline))
        distance = abs(fmean(values) - fmean(other) - math.log(bound))
        given = max(stdev(other) ** 2 / len(other), RESOLUTION**2)
        scale = 1.0
    else:
        scale = abs(fmean(values))
        distance = abs(fmean(values) - bound)
        given = 0.0
    variance = stdev(values) ** 2
    power = NormalDist().inv_cdf(POWER)

    def enough(repeats: int) -> bool:
        expected = max(variance / repeats, (RESOLUTION * scale) ** 2)
        whole = expected + given + (meter * scale) ** 2
        shares = (expected / whole) ** 2 / (repeats - 1)
        if baseline:
            shares += (given / whole) ** 2 / (len(baseline) - 1)
        quantile = t_quantile(confidence, 1 / max(shares, 1e-12))
        return distance >= (quantile + power) * math.sqrt(whole)

    return least_repeats(enough, len(values))
