"""Power calculation: the number of repeats that would decide whether two engines agree.

The result is the smallest number of repeats per engine with which four of five crosschecks would
decide the metric, assuming that the true ratio and the spread of single runs are those observed.
The decision rule is that of :mod:`storlab.analysis.agreement`.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Callable, Sequence
from statistics import NormalDist, fmean, stdev

from storlab.analysis.stats import RESOLUTION, t_quantile

POWER = 0.8
MOST = 1_000
"""Largest number of repeats that is advised; beyond it, longer runs are better advice."""


def repeats_to_decide(
    native: Sequence[float],
    reference: Sequence[float],
    margin: float,
    confidence: float,
    family_confidence: float,
) -> int | None:
    """Return how many repeats per engine would decide whether two engines agree in a metric.

    The result is larger than the number of existing repeats. It is None if a side has a single run
    (no spread), or if ``MOST`` repeats would not suffice. All values must be positive.
    """
    if min(len(native), len(reference)) < 2:
        return None
    logs = [[math.log(value) for value in side] for side in (native, reference)]
    ratio = fmean(logs[0]) - fmean(logs[1])
    variances = [stdev(side) ** 2 for side in logs]

    def enough(repeats: int) -> bool:
        errors = [max(variance / repeats, RESOLUTION**2) for variance in variances]
        share = errors[0] / sum(errors)
        freedom = (repeats - 1) / (share**2 + (1 - share) ** 2)
        error = math.sqrt(sum(errors))
        halves = [t_quantile(c, freedom) * error for c in (confidence, family_confidence)]
        return _decided(ratio, error, math.log1p(margin), halves[0], halves[1]) >= POWER

    return least_repeats(enough, min(len(native), len(reference)))


def least_repeats(enough: Callable[[int], bool], made: int) -> int | None:
    """Return the least number above ``made`` for which ``enough`` is true; None above ``MOST``."""
    repeats = 2 + bisect_left(range(2, MOST + 1), True, key=enough)
    return None if repeats > MOST else max(repeats, made + 1)


def _decided(ratio: float, error: float, margin: float, half: float, family: float) -> float:
    """Return the probability of a verdict other than "inconclusive"; all arguments are logarithms.

    Estimates scatter around ``ratio`` with standard deviation ``error``. An estimate inside the
    margin is inconclusive if its interval extends beyond the margin on both sides; one outside is
    inconclusive if the interval at family confidence contains 1.
    """
    estimates = NormalDist(ratio, error)

    def within(low: float, high: float) -> float:
        return max(0.0, estimates.cdf(high) - estimates.cdf(low)) if high > low else 0.0

    near = min(margin, half - margin)
    silent = within(-near, near) if near > 0 else 0.0
    silent += within(margin, family) + within(-family, -margin)
    return 1.0 - silent
