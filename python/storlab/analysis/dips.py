"""Where a run dips: one rule for the brief and for the live page."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import groupby
from statistics import median

DIP = 0.75  # of the median; neighbouring intervals below that are one
CHANCE = 4.0  # standard deviations of a count that a dip lacks: 600 intervals of noise have none
LEAST_INTERVALS = 6


def find_dips(rates: Sequence[float], counts: Sequence[float]) -> list[range]:
    """Neighbouring intervals far below the median rate, and of fewer operations than by chance.

    ``rates``: of each interval, in any unit; ``counts``: the operations that ended in it. There is
    one at least.
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
