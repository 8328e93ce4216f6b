"""Bounds of numbers that other tools print rounded."""

from __future__ import annotations

from dataclasses import dataclass

NEGLIGIBLE_PERCENT = 0.05
"""Error of a printed number, in percent, up to which it is not noted."""


@dataclass(frozen=True, slots=True)
class Bounds:
    """Smallest and largest value that a tool can have rounded to a printed number."""

    low: float
    high: float

    @property
    def middle(self) -> float:
        """Mean of the two bounds."""
        return (self.low + self.high) / 2

    @property
    def percent(self) -> float:
        """Largest error of ``middle`` as an estimate of the value, in percent."""
        return 50 * (self.high - self.low) / self.middle if self.middle > 0 else 0.0

    def scaled(self, factor: float) -> Bounds:
        """Return the bounds multiplied by a positive factor."""
        return Bounds(self.low * factor, self.high * factor)

    def overlap(self, other: Bounds | None) -> Bounds:
        """Return the intersection with other bounds; return self if there is none."""
        if other is None or other.low > self.high or other.high < self.low:
            return self
        return Bounds(max(self.low, other.low), min(self.high, other.high))
