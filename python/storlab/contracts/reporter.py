"""Who is told what happens in a campaign."""

from __future__ import annotations

from types import TracebackType
from typing import Protocol

from storlab.model.point import PlannedRun, Point
from storlab.model.result import RunRecord, Snapshot


class Reporter(Protocol):
    """Told by the runner what happens. A context manager around the campaign."""

    def __enter__(self) -> Reporter:
        """Begin."""
        ...

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """End, also after an error."""
        ...

    def campaign(self, runs: int, done: int, left_ns: int) -> None:
        """``runs`` in all, ``done`` before this session, ``left_ns`` estimated for the rest."""
        ...

    def step(self, text: str, total: float | None = None) -> None:
        """A prepare step begins. ``total`` in the unit of ``step_progress``, when it is known."""
        ...

    def step_progress(self, done: float, snapshot: Snapshot | None = None) -> None:
        """The prepare step has come so far."""
        ...

    def run_started(self, run: PlannedRun, point: Point, expected_ns: int) -> None:
        """A run begins; it should take ``expected_ns``."""
        ...

    def run_progress(self, snapshot: Snapshot) -> None:
        """The run goes on."""
        ...

    def run_ended(self, record: RunRecord) -> None:
        """The run is stored."""
        ...

    def note(self, text: str) -> None:
        """Something the user should know."""
        ...
