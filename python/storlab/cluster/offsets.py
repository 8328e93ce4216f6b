"""Clocks of clients against the controller's, from pings."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class ClockOffset:
    """``offset_ns``: CLOCK_MONOTONIC of the client less that of the controller at one moment.

    ``round_trip_ns`` is the least of the pings: the offset is wrong by half of that at most.
    """

    offset_ns: int
    round_trip_ns: int

    def client_ns(self, controller_ns: int) -> int:
        """That moment of the controller's clock on the client's."""
        return controller_ns + self.offset_ns

    def controller_ns(self, client_ns: int) -> int:
        """That moment of the client's clock on the controller's."""
        return client_ns - self.offset_ns


def estimate(pings: Iterable[tuple[int, int, int]]) -> ClockOffset:
    """From at least one ping: the times before, at the client, and after, in ns.

    It is the middle of what all pings agree on. Where they contradict one another, since a clock
    was slewed meanwhile, it is the middle of the quickest.
    """
    taken = list(pings)
    before, client, after = min(taken, key=lambda ping: ping[2] - ping[0])
    least, most = agreement(taken)
    if least > most:
        least, most = client - after, client - before
    return ClockOffset((least + most) // 2, after - before)


def agreement(pings: Iterable[tuple[int, int, int]]) -> tuple[int, int]:
    """The least and the most that the offset is by what all pings say, in ns.

    Each says between which two values it lies. All together are better than the quickest: on a busy
    machine one is late on its way to the client, and another on its way back.
    """
    taken = list(pings)
    least = max(client - after for _, client, after in taken)
    most = min(client - before for before, client, _ in taken)
    return least, most
