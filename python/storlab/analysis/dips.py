"""Detection of throughput dips in a run, used by the brief and the live page."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import groupby
from statistics import median

DIP = 0.75  # times the median; consecutive intervals below that form a dip
# Operations that must be missing in a dip, in standard deviations of a random count. With this
# value, noise makes no dip in 600 intervals.
CHANCE = 4.0
LEAST_INTERVALS = 6


def find_dips(rates: Sequence[float], counts: Sequence[float]) -> list[range]:
    """Find stretches of intervals whose rate is too far below the median to be chance.

    Args:
        rates: Rate of each interval in any unit; at least one.
        counts: Operations that ended in each interval.

    Returns:
        Index ranges of the intervals of each dip.
    """
    least, usual = DIP * median(rates), median(counts)
    dips = []
    for is_low, group in groupby(range(len(rates)), key=lambda at: rates[at] < least):
        places = list(group)
        expected = usual * len(places)
        done = sum(counts[at] for at in places)
        if is_low and done < expected - CHANCE * math.sqrt(expected):
            dips.append(range(places[0], places[-1] + 1))
    return dips
