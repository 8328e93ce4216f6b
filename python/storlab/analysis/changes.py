"""Change-point detection: find the positions in a series of values at which its level shifts.

The method is E-divisive (Matteson and James, A Nonparametric Approach for Multiple Change Point
Analysis of Multivariate Data, JASA 109, 2014): a stretch is split where the energy distance
(Székely and Rizzo, 2013) between the values before and after, weighted by their lengths, is
largest. If that distance is significant, both parts are split in the same way. As in the paper, the
part after the split may end before the stretch does, so that later values do not hide a temporary
change. Additions to the paper:

- Values are first converted to normal scores of their ranks (van der Waerden). A single outlier
  therefore makes no change, and the critical values depend only on the number of values: a table
  simulated once (``benches/change_points.py``) replaces a permutation test per series.
- In one dimension, energy distance is twice the integral of the squared difference of the
  distribution functions. It is evaluated on a grid, in time linear in the number of values.
- The false-alarm probability applies to the whole series; each part gets a fraction of it, in
  proportion to its length. Ties are ranked in an order without a trend.
- The part after the split ends with the stretch, or 4, 8, 16, ... values after the split. These
  shorter parts get a smaller weight, so that a change in the newest two or three values is
  detected.

Values are assumed to be independent between changes. docs/method/README.md lists the measured
rates of false alarms and of detected changes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise
from statistics import NormalDist, fmean, geometric_mean

import numpy as np
from numpy.typing import NDArray

SHORTEST = 2  # fewest values on each side of a change
KNOTS = 40  # grid points at which distribution functions are compared
WITHIN = 0.65  # weight of a part that ends before the stretch does
LEVELS = (0.05, 0.01, 0.001)
"""False-alarm probabilities that a change can be reported at."""
# False-alarm probabilities for which TABLE was simulated. As a safety margin, the first is smaller
# than that of LEVELS.
_SIMULATED = (0.035, 0.01, 0.001)
_GOLDEN = 0.6180339887498949
TABLE: dict[int, tuple[float, float, float]] = {
    8: (3.71, 3.85, 3.85),
    9: (3.90, 4.33, 4.33),
    10: (4.26, 4.74, 5.01),
    12: (4.52, 5.08, 5.58),
    14: (4.53, 5.36, 6.40),
    17: (4.87, 5.80, 7.19),
    20: (5.05, 6.17, 7.76),
    25: (5.32, 6.39, 7.94),
    32: (5.56, 6.83, 8.68),
    40: (5.78, 6.98, 9.05),
    50: (6.04, 7.40, 9.66),
    64: (6.18, 7.55, 9.96),
    80: (6.36, 7.61, 9.81),
    100: (6.56, 7.91, 10.51),
    140: (6.73, 8.12, 10.33),
    200: (6.87, 8.04, 10.68),
    300: (7.16, 8.59, 11.51),
    500: (7.59, 8.93, 11.90),
    1000: (7.93, 9.10, 11.24),
    2000: (8.35, 9.86, 12.33),
}
"""Critical values of the largest difference by number of values, one per item of ``_SIMULATED``."""
FEWEST = min(TABLE)  # values; a change in fewer cannot be distinguished from chance

Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Change:
    """Change of level in a series.

    ``index`` is the position of the first value at the new level. ``chance`` is the smallest of
    ``LEVELS`` at which the change is significant.
    """

    index: int
    chance: float


def change_points(values: Sequence[float]) -> list[Change]:
    """Find the changes of level in a series, in order; none in fewer than ``FEWEST`` values.

    Raises:
        ValueError: A value is not finite.
    """
    data = np.asarray(values, dtype=np.float64)
    if not np.isfinite(data).all():
        raise ValueError("cannot find change points: a value is not finite")
    places: list[int] = []
    if len(data) < FEWEST:
        return []
    _divide(data, 0, len(data), places)
    return _refined(data, sorted(places))


def largest_difference(values: Floats) -> tuple[float, int]:
    """Find the split of a series into the two parts that differ most.

    Returns:
        The weighted energy distance of the two parts, and the index of the first value after the
        split; (0, 0) if the series is too short to be split.
    """
    number = len(values)
    if number < 2 * SHORTEST:
        return 0.0, 0
    counts, step = _counts(values)
    best, place = 0.0, 0
    for length in (0, *_lengths(number)):
        stop = number - length - (length == 0) * SHORTEST
        split = np.arange(SHORTEST, stop + 1)
        end = split + length if length else np.full(len(split), number)
        before, after = split[:, None], (end - split)[:, None]
        apart = counts[split] / before - (counts[end] - counts[split]) / after
        weight = (before * after / (before + after))[:, 0] * (WITHIN if length else 1.0)
        distance = weight * 2 * step * np.einsum("ij,ij->i", apart, apart)
        at = int(distance.argmax())
        if distance[at] > best:
            best, place = float(distance[at]), int(split[at])
    return best, place


def chance_of(difference: float, number: int, share: float = 1.0) -> float:
    """Return the significance of a difference: one of ``LEVELS``, or 1 if not significant.

    It is the probability that noise in the whole series produces such a difference.

    Args:
        difference: Largest weighted energy distance of the values.
        number: Number of values.
        share: Length of the values as a fraction of the whole series.
    """
    limits = _limits(number, share)
    passed = [level for level, limit in zip(LEVELS, limits, strict=True) if difference > limit]
    return passed[-1] if passed else 1.0


def _divide(data: Floats, start: int, end: int, places: list[int]) -> None:
    difference, place = largest_difference(data[start:end])
    if chance_of(difference, end - start, (end - start) / len(data)) < 1.0:
        places.append(start + place)
        _divide(data, start, start + place, places)
        _divide(data, start + place, end, places)


def _refined(data: Floats, places: list[int]) -> list[Change]:
    """Re-estimate each change point between its neighbours; drop those no longer significant."""
    while places:
        around = [0, *places, len(data)]
        looked = [
            (start, *largest_difference(data[start:end]), end - start)
            for start, end in zip(around, around[2:], strict=False)
        ]
        chances = [
            chance_of(difference, number, number / len(data)) for _, difference, _, number in looked
        ]
        weakest = max(range(len(places)), key=lambda i: (chances[i], -looked[i][1]))
        if chances[weakest] < 1.0:
            moved = [start + place for start, _, place, _ in looked]
            if all(later - earlier >= SHORTEST for earlier, later in pairwise(moved)):
                places = moved
            return [Change(p, chance) for p, chance in zip(places, chances, strict=True)]
        del places[weakest]
    return []


def _counts(values: Floats) -> tuple[Floats, float]:
    """Count, for each prefix of a series, the scores that do not exceed each point of a grid.

    The counts are the distribution functions, which are compared at the grid points.

    Returns:
        The counts by length of the prefix and by grid point, and the grid spacing.
    """
    scores = _scores(values)
    low, high = float(scores.min()), float(scores.max())
    step = (high - low) / KNOTS
    knots = low + step * (np.arange(KNOTS) + 0.5)
    counts = np.zeros((len(values) + 1, KNOTS))
    np.cumsum(scores[:, None] <= knots, axis=0, out=counts[1:])
    return counts, step


def _scores(values: Floats) -> Floats:
    """Convert values to normal scores; equal values are ranked by multiples of the golden ratio.

    That order has no trend, so that ties do not look like a change.
    """
    scores = np.empty(len(values))
    turns = np.arange(len(values)) * _GOLDEN % 1.0
    scores[np.lexsort((turns, values))] = _quantiles(len(values))
    return scores


@lru_cache(maxsize=64)  # a site's series have only a few different lengths
def _quantiles(number: int) -> Floats:
    normal = NormalDist()
    return np.array([normal.inv_cdf((place + 0.5) / number) for place in range(number)])


def _lengths(number: int) -> list[int]:
    """Return the lengths 4, 8, 16, ... to try for a part that ends before ``number`` values do."""
    return [1 << power for power in range(2, 30) if SHORTEST + (1 << power) < number]


def _limits(number: int, share: float) -> list[float]:
    """Interpolate ``TABLE``: return the critical difference at each probability in ``LEVELS``.

    Interpolation is linear in the logarithms of series length and probability, and extrapolates
    beyond the last probability.

    Args:
        number: Number of values that are tested.
        share: Their number as a fraction of the whole series; each probability is multiplied by it.
    """
    sizes = list(TABLE)
    if number < sizes[0]:
        return [float("inf")] * len(LEVELS)
    rows = np.array(list(TABLE.values()))
    at = np.log(min(number, sizes[-1]))
    known = [float(np.interp(at, np.log(sizes), column)) for column in rows.T]
    places = -np.log(_SIMULATED)
    steepness = (known[-1] - known[-2]) / (places[-1] - places[-2])
    wanted = places - np.log(share)
    return [
        float(np.interp(place, places, known)) + steepness * max(0.0, float(place - places[-1]))
        for place in wanted
    ]


def level(values: Sequence[float]) -> float:
    """Return the mean of the values between two changes, in their unit.

    The mean is geometric, as the size of a change is a ratio of geometric means; it is arithmetic
    if a value is not positive.

    Raises:
        ValueError: ``values`` is empty.
    """
    return geometric_mean(values) if min(values) > 0 else fmean(values)
