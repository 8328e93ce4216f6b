"""Steady state as defined by the SNIA Solid State Storage Performance Test Specification (PTS).

Over a window of five rounds, a quantity is steady if both hold:

- excursion: max - min is at most ``excursion_percent`` of the mean (PTS: 20 %);
- slope: the best-fit line changes by at most ``slope_percent`` of the mean from the window's first
  round to its last (PTS: 10 %).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Literal

WINDOW = 5
SLOPE_PERCENT = 10.0
EXCURSION_PERCENT = 20.0


@dataclass(frozen=True, slots=True)
class SteadyVerdict:
    """Whether the last five values of a series are steady; percentages refer to their mean."""

    verdict: Literal["steady", "not-steady", "too-short"]
    values: list[float]
    mean: float | None = None
    slope_percent: float | None = None  # change of the best-fit line over the window, signed
    excursion_percent: float | None = None  # max - min

    @property
    def steady(self) -> bool:
        """Whether the values are steady; False if there are too few to decide."""
        return self.verdict == "steady"


def steady_verdict(
    values: Sequence[float],
    slope_percent: float = SLOPE_PERCENT,
    excursion_percent: float = EXCURSION_PERCENT,
) -> SteadyVerdict:
    """Decide whether the last five values of a series are in a steady state.

    Args:
        values: Values in order of time, all in the same unit.
        slope_percent: Limit of the best-fit line's change over the five values.
        excursion_percent: Limit of max - min.

    Returns:
        The verdict: ``too-short`` for fewer than five values; a mean of zero is never steady.
    """
    window = [float(value) for value in values[-WINDOW:]]
    if len(window) < WINDOW:
        return SteadyVerdict("too-short", window)
    mean = sum(window) / WINDOW
    if mean <= 0:
        return SteadyVerdict("not-steady", window, mean)
    middle = (WINDOW - 1) / 2
    spread = sum((x - middle) ** 2 for x in range(WINDOW))
    slope = sum((x - middle) * (value - mean) for x, value in enumerate(window)) / spread
    change = 100 * slope * (WINDOW - 1) / mean
    excursion = 100 * (max(window) - min(window)) / mean
    within = abs(change) <= slope_percent and excursion <= excursion_percent
    return SteadyVerdict("steady" if within else "not-steady", window, mean, change, excursion)


def five_parts(values: Sequence[float]) -> list[float]:
    """Split a series into five parts of equal length (within one value), and return their means.

    The steady state of a run is judged by these means, because a long run always contains single
    intervals that deviate. Fewer than five values are returned unchanged.
    """
    count = len(values)
    if count < WINDOW:
        return [float(value) for value in values]
    edges = [count * part // WINDOW for part in range(WINDOW + 1)]
    return [sum(values[start:end]) / (end - start) for start, end in pairwise(edges)]
