"""Messages of a client to rank 0, also during work that blocks a thread for long."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor, wait
from dataclasses import asdict
from typing import Any, TypeVar

from storlab.base.clock import monotonic_ns
from storlab.cluster.client import ClientEnd
from storlab.contracts.reporter import Reporter
from storlab.model.result import Snapshot
from storlab.process.execution import POLL_S

ResultT = TypeVar("ResultT")
STUCK = 20  # longest time without progress, in multiples of ``lost_after``


class ProgressSender:
    """Sender of one client; only its own thread uses the link, other threads leave messages."""

    def __init__(self, end: ClientEnd) -> None:
        self._end = end
        self._thread = threading.get_ident()
        self._last: dict[str, Any] = {}

    def tell(self, snapshot: dict[str, Any]) -> None:
        """Send a snapshot of progress; safe to call from any thread."""
        if threading.get_ident() == self._thread:
            self._end.tell(snapshot)
        else:
            self._last = snapshot

    def during(self, phase: str, work: Callable[[], ResultT], *, endless: bool = False) -> ResultT:
        """Run blocking work in a thread of its own, and keep sending messages to rank 0.

        Flushing a data set or removing a large file may take longer than a client may be silent.
        Work without progress for too long is considered hung, as on a mount whose server is gone:
        messages then stop, unless ``endless``. The work must not use the link.
        """
        told = self._last = {"phase": phase}
        news_ns, stuck_ns = monotonic_ns(), STUCK * self._end.order.lost_after_ns
        with ThreadPoolExecutor(1, "storlab-work") as thread:
            done = thread.submit(work)
            while not wait([done], POLL_S).done:
                if told != self._last:
                    told, news_ns = self._last, monotonic_ns()
                if endless or monotonic_ns() - news_ns < stuck_ns:
                    self._end.tell(told)
            return done.result()


class ClientReporter(Reporter):
    """Reporter that sends preparation and load progress to rank 0."""

    def __init__(self, teller: ProgressSender) -> None:
        self._teller = teller
        self._text, self._total = "", 0.0
        self.notes: list[str] = []

    def step(self, text: str, total: float | None = None) -> None:
        """Send the start of a preparation step."""
        self._text, self._total = text, total or 0.0
        self._teller.tell({"phase": "prepare", "text": text, "total": self._total, "done": 0.0})

    def step_progress(self, done: float, snapshot: Snapshot | None = None) -> None:
        """Send the progress of the step."""
        del snapshot
        told = {"phase": "prepare", "text": self._text, "total": self._total, "done": done}
        self._teller.tell(told)

    def run_progress(self, snapshot: Snapshot) -> None:
        """Send the progress of the load."""
        self._teller.tell(asdict(snapshot))

    def note(self, text: str) -> None:
        """Keep a note for the report."""
        self.notes.append(text)
