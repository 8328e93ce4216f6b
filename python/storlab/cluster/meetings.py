"""Synchronisation points ("meetings") of clients that divide one load among them.

Each client predicts when it will be ready; rank 0 replies with the latest of these times.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping

from storlab.base.clock import monotonic_ns
from storlab.base.units import NS_PER_MS
from storlab.cluster import messages
from storlab.cluster.link import NAP_S, Link
from storlab.cluster.offsets import ClockOffset

# Polling often makes a reply fast, but takes CPU time from the load. So it lasts only SOON_NS: a
# stalled client may be late by seconds.
SOON_S = 100e-6
SOON_NS = 50 * NS_PER_MS
READY = struct.Struct("<Qq")
MET = struct.Struct("<q")


class Meetings:
    """Collects the clients' predicted times at rank 0, and sends the latest one to all clients."""

    def __init__(self, link: Link, ranks: set[int]) -> None:
        self._link = link
        self._ranks = ranks
        self._waiting: dict[int, int] = {}  # predicted time on rank 0's clock, by rank
        self._since_ns = 0
        self.broken = False  # whether a client waits for one that has ended its part

    def look(self, offsets: Mapping[int, ClockOffset], ended: set[int]) -> None:
        """Receive the times at which clients expect to be ready, and send the latest one to all.

        It is sent once every client has sent its own.

        Args:
            offsets: Clock offset of each client, by rank.
            ended: Ranks of the clients that have ended their task.
        """
        while (message := self._link.try_receive(messages.MEET)) is not None:
            rank, (_, ready_ns) = message[0], READY.unpack(message[1])
            if not self._waiting:
                self._since_ns = monotonic_ns()
            self._waiting[rank] = ready_ns - offsets[rank].offset_ns
        if self._waiting and ended:
            self.broken = True
        elif set(self._waiting) == self._ranks:
            last_ns = max(self._waiting.values())
            for rank in sorted(self._ranks):
                self._link.send(rank, messages.MET, MET.pack(offsets[rank].client_ns(last_ns)))
            self._waiting.clear()

    @property
    def nap_s(self) -> float:
        """Return how long rank 0 may sleep before it polls again, in seconds."""
        soon = self._waiting and monotonic_ns() - self._since_ns < SOON_NS
        return SOON_S if soon else NAP_S
