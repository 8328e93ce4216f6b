"""How many repeats would decide whether two engines agree?

A power calculation from the observed spread: the smallest number of repeats of each engine with
which four of five crosschecks would decide the metric, were the true ratio and the spread of single
runs those that were observed. What decides is the rule of :mod:`storlab.analysis.agreement`.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Callable, Sequence
from statistics import NormalDist, fmean, stdev

from storlab.analysis.stats import RESOLUTION, t_quantile

POWER = 0.8
MOST = 1_000
"""More repeats than this are no advice: longer runs are."""


def repeats_to_decide(
    native: Sequence[float],
    reference: Sequence[float],
    margin: float,
    confidence: float,
    family_confidence: float,
) -> int | None:
    """Repeats of each engine, more than there are of a metric that is not decided.

    None where one run tells no spread, and where even ``MOST`` would not do. Values are positive,
    as for the interval of their ratio.
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
    """The fewest that are enough, and more than were made; None where ``MOST`` are too few."""
    repeats = 2 + bisect_left(range(2, MOST + 1), True, key=enough)
    return None if repeats > MOST else max(repeats, made + 1)


def _decided(ratio: float, error: float, margin: float, half: float, family: float) -> float:
    """How probable a verdict other than "inconclusive" is. Everything is a logarithm.

    Estimates scatter around ``ratio`` by ``error``. One inside the margin says nothing where its
    interval reaches beyond on both sides, which is near 1; one outside where the interval of the
    family holds 1.
    """
    estimates = NormalDist(ratio, error)

    def within(low: float, high: float) -> float:
        return max(0.0, estimates.cdf(high) - estimates.cdf(low)) if high > low else 0.0

    near = min(margin, half - margin)
    silent = within(-near, near) if near > 0 else 0.0
    silent += within(margin, family) + within(-family, -margin)
    return 1.0 - silent
