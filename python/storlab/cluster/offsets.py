"""Offsets between the clocks of clients and the controller, estimated from pings."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class ClockOffset:
    """Offset ``offset_ns``: CLOCK_MONOTONIC of a client minus that of the controller.

    ``round_trip_ns`` is the shortest ping; the error of the offset is at most half of it.
    """

    offset_ns: int
    round_trip_ns: int

    def client_ns(self, controller_ns: int) -> int:
        """Convert a time on the controller's clock to the client's clock."""
        return controller_ns + self.offset_ns

    def controller_ns(self, client_ns: int) -> int:
        """Convert a time on the client's clock to the controller's clock."""
        return client_ns - self.offset_ns


def estimate(pings: Iterable[tuple[int, int, int]]) -> ClockOffset:
    """Estimate the offset from at least one ping.

    The result is the middle of the interval that all pings allow. If the pings contradict each
    other, because a clock was slewed, it is the middle of the shortest ping's interval.

    Args:
        pings: Times before, at the client, and after, in ns.
    """
    taken = list(pings)
    before, client, after = min(taken, key=lambda ping: ping[2] - ping[0])
    least, most = agreement(taken)
    if least > most:
        least, most = client - after, client - before
    return ClockOffset((least + most) // 2, after - before)


def agreement(pings: Iterable[tuple[int, int, int]]) -> tuple[int, int]:
    """Return the smallest and largest offset in ns that all pings allow.

    Each ping gives an interval. Their intersection is narrower than that of the shortest ping,
    because on a busy machine some pings are delayed on the way there, others on the way back.
    """
    taken = list(pings)
    least = max(client - after for _, client, after in taken)
    most = min(client - before for before, client, _ in taken)
    return least, most
