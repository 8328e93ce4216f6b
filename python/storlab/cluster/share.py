"""Run of one client's part of a load that clients divide, synchronised with the other parts."""

from __future__ import annotations

from storlab.base.clock import monotonic_ns, sleep_s
from storlab.base.units import NS_PER_S
from storlab.cluster import messages
from storlab.cluster.client import ClientEnd
from storlab.cluster.link import NAP_S
from storlab.cluster.meetings import MET, READY, SOON_NS, SOON_S
from storlab.contracts.engine import SharedRun
from storlab.model.result import RunOutcome, Snapshot


class MeetingRun:
    """Handle of one client's part of a divided load; ``wait`` synchronises it with the others.

    Implements ``contracts.engine.RunHandle``. ``wait`` exchanges messages with rank 0, so only the
    thread that created the link to rank 0 may call it.
    """

    def __init__(self, run: SharedRun, end: ClientEnd) -> None:
        self._run = run
        self._end = end
        self._number = 0
        self._asked_ns: int | None = None

    def snapshot(self) -> Snapshot:
        """Return the progress of this client's part."""
        return self._run.snapshot()

    def cancel(self) -> None:
        """Request that this client's part ends, without waiting for it."""
        self._run.cancel()

    def wait(self, timeout_s: float | None = None) -> RunOutcome | None:
        """Wait for the outcome, synchronising with the other clients; return None at the limit."""
        limit = float("inf") if timeout_s is None else monotonic_ns() + timeout_s * NS_PER_S
        while True:
            outcome = self._run.wait(0.0)
            if outcome is not None or monotonic_ns() >= limit:
                return outcome
            self._carry()

    def _carry(self) -> None:
        if self._asked_ns is None:
            ready_ns = self._run.announced(self._number, NAP_S)
            if ready_ns is not None:
                self._end.ask(messages.MEET, READY.pack(self._number, ready_ns))
                self._asked_ns = monotonic_ns()
            return
        answer = self._end.answer(messages.MET)
        if answer is not None:
            self._run.tell(MET.unpack(answer)[0])
            self._number += 1
            self._asked_ns = None
        elif monotonic_ns() - self._asked_ns < SOON_NS:
            sleep_s(SOON_S)
        else:
            sleep_s(NAP_S)
