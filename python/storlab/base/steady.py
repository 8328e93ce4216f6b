"""Steady state in the sense of the SNIA Solid State Storage Performance Test Specification (PTS).

Over a window of five rounds, a quantity is steady when both hold:

- excursion: max - min is at most ``excursion_percent`` of the mean (PTS: 20 %);
- slope: the best-fit line changes by at most ``slope_percent`` of the mean from the window's first
  round to its last (PTS: 10 %).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from itertools import pairwise
from typing import Any, Literal

WINDOW = 5
SLOPE_PERCENT = 10.0
EXCURSION_PERCENT = 20.0


@dataclass(frozen=True, slots=True)
class SteadyVerdict:
    """The verdict over ``values``, the window that was judged. Percentages are of its mean."""

    verdict: Literal["steady", "not-steady", "too-short"]
    values: list[float]
    mean: float | None = None
    slope_percent: float | None = None  # change of the best-fit line over the window, signed
    excursion_percent: float | None = None  # max - min

    @property
    def steady(self) -> bool:
        """True only when steadiness was shown."""
        return self.verdict == "steady"

    def as_dict(self) -> dict[str, Any]:
        """Plain JSON-ready values."""
        return asdict(self)


def steady_verdict(
    values: Sequence[float],
    slope_percent: float = SLOPE_PERCENT,
    excursion_percent: float = EXCURSION_PERCENT,
) -> SteadyVerdict:
    """The verdict over the last five of ``values``, in the order of time, all in one unit.

    ``too-short`` with fewer than five values; a mean of zero is never steady.
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
    """Means of five consecutive parts of a series, equal in length to within one value.

    A run's intervals are judged by these: single intervals of a long run always stray. Fewer than
    five values come back as they are.
    """
    count = len(values)
    if count < WINDOW:
        return [float(value) for value in values]
    edges = [count * part // WINDOW for part in range(WINDOW + 1)]
    return [sum(values[start:end]) / (end - start) for start, end in pairwise(edges)]
