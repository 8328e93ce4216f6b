"""Meetings of clients that divide work: clients predict when they are ready, rank 0 answers."""

from __future__ import annotations

import struct
from collections.abc import Mapping

from storlab.base.clock import monotonic_ns
from storlab.base.units import NS_PER_MS
from storlab.cluster import messages
from storlab.cluster.link import NAP_S, Link
from storlab.cluster.offsets import ClockOffset

# A message that is due soon is polled often, but only briefly: a stalled share may be late by
# seconds, and polling takes a core from it.
SOON_S = 100e-6
SOON_NS = 50 * NS_PER_MS
READY = struct.Struct("<Qq")
MET = struct.Struct("<q")


class Meetings:
    """Meetings at rank 0: collects predictions, and sends all clients the latest time."""

    def __init__(self, link: Link, ranks: set[int]) -> None:
        self._link = link
        self._ranks = ranks
        self._waiting: dict[int, int] = {}  # time of readiness on this clock, by rank
        self._since_ns = 0
        self.broken = False  # whether a client waits for a share that has ended

    def look(self, offsets: Mapping[int, ClockOffset], ended: set[int]) -> None:
        """Receive predictions; when all clients have sent theirs, send the latest time to all."""
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
        """Return how long rank 0 may sleep now, in seconds."""
        soon = self._waiting and monotonic_ns() - self._since_ns < SOON_NS
        return SOON_S if soon else NAP_S
