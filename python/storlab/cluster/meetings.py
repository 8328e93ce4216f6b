"""Where shares of one work meet: clients say when they will be ready, rank 0 says when all are."""

from __future__ import annotations

import struct
from collections.abc import Mapping

from storlab.base.clock import monotonic_ns
from storlab.base.units import NS_PER_MS
from storlab.cluster import messages
from storlab.cluster.link import NAP_S, Link
from storlab.cluster.offsets import ClockOffset

# Who waits for a message that is to come soon looks for it often, but not for long: a share that is
# stalled may be late by seconds, and whoever looks takes a core from it.
SOON_S = 100e-6
SOON_NS = 50 * NS_PER_MS
READY = struct.Struct("<Qq")
MET = struct.Struct("<q")


class Meetings:
    """At rank 0: gathers who is ready, and tells all when the last of them will be."""

    def __init__(self, link: Link, ranks: set[int]) -> None:
        self._link = link
        self._ranks = ranks
        self._waiting: dict[int, int] = {}  # by rank: ready, on this clock
        self._since_ns = 0
        self.broken = False  # somebody waits for a share that has ended

    def look(self, offsets: Mapping[int, ClockOffset], ended: set[int]) -> None:
        """Take what was said; where all have said it, tell them."""
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
        """How long rank 0 may sleep now."""
        soon = self._waiting and monotonic_ns() - self._since_ns < SOON_NS
        return SOON_S if soon else NAP_S
