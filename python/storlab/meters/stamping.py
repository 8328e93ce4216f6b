"""When a reading was taken: the middle of the read; half its length is the clock's uncertainty."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from storlab.base.clock import monotonic_ns

ValueT = TypeVar("ValueT")


class MidPoint:
    """Stamps reads on the run's clock. ``uncertainty_ns``: half of the longest read so far."""

    def __init__(self) -> None:
        self.uncertainty_ns = 0

    def timed(self, read: Callable[[], ValueT]) -> tuple[ValueT, int]:
        """What ``read`` returns, and the time in its middle. Its errors pass through."""
        begin_ns = monotonic_ns()
        value = read()
        end_ns = monotonic_ns()
        self.uncertainty_ns = max(self.uncertainty_ns, (end_ns - begin_ns + 1) // 2)
        return value, (begin_ns + end_ns) // 2
