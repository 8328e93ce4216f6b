"""How a client tells rank 0 of itself, also while it does what may keep a thread for long."""

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
STUCK = 20  # times ``lost_after``, that work may take between two words of it


class Teller:
    """Of one client. Only the thread that made it uses the link; others leave it their words."""

    def __init__(self, end: ClientEnd) -> None:
        self._end = end
        self._thread = threading.get_ident()
        self._last: dict[str, Any] = {}

    def tell(self, snapshot: dict[str, Any]) -> None:
        """How it goes; from any thread."""
        if threading.get_ident() == self._thread:
            self._end.tell(snapshot)
        else:
            self._last = snapshot

    def during(self, phase: str, work: Callable[[], ResultT], *, endless: bool = False) -> ResultT:
        """Do what waits for a file system, in a thread of its own, and tell rank 0 meanwhile.

        To make a data set durable, or to remove a large file, may take longer than a client may be
        silent. ``work`` does not use the link. Work of which there is no news for too long hangs,
        as on a mount whose server has gone: unless it is ``endless``, this client falls silent.
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
    """Tells rank 0. Of runs and of the campaign the lab knows by itself."""

    def __init__(self, teller: Teller) -> None:
        self._teller = teller
        self._text, self._total = "", 0.0
        self.notes: list[str] = []

    def step(self, text: str, total: float | None = None) -> None:
        """A step of preparation begins."""
        self._text, self._total = text, total or 0.0
        self._teller.tell({"phase": "prepare", "text": text, "total": self._total, "done": 0.0})

    def step_progress(self, done: float, snapshot: Snapshot | None = None) -> None:
        """It goes on."""
        del snapshot
        told = {"phase": "prepare", "text": self._text, "total": self._total, "done": done}
        self._teller.tell(told)

    def run_progress(self, snapshot: Snapshot) -> None:
        """The load goes on."""
        self._teller.tell(asdict(snapshot))

    def note(self, text: str) -> None:
        """Kept for the report."""
        self.notes.append(text)
