"""Estimate the offsets between the clocks of clients and the controller from pings."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class ClockOffset:
    """Clock offset of a client: its CLOCK_MONOTONIC minus that of the controller.

    ``round_trip_ns`` is the duration of the shortest ping. The error of ``offset_ns`` is at most
    half of it.
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
    """Estimate a client's clock offset from at least one ping.

    The result is the middle of the interval that all pings allow. If the pings contradict each
    other, because a clock was slewed, it is the middle of the shortest ping's interval.

    Args:
        pings: Three times per ping in ns: sent and answered on the controller's clock as first and
            last, received on the client's clock as second.
    """
    taken = list(pings)
    before, client, after = min(taken, key=lambda ping: ping[2] - ping[0])
    least, most = agreement(taken)
    if least > most:
        least, most = client - after, client - before
    return ClockOffset((least + most) // 2, after - before)


def agreement(pings: Iterable[tuple[int, int, int]]) -> tuple[int, int]:
    """Return the smallest and largest clock offset in ns that all pings allow.

    Each ping allows an interval of offsets, as wide as its round trip. The intersection of all is
    narrower than the shortest ping's interval, because on a busy machine some pings are delayed on
    the way to the client and others on the way back.
    """
    taken = list(pings)
    least = max(client - after for _, client, after in taken)
    most = min(client - before for before, client, _ in taken)
    return least, most
