"""Who is told what happens in a campaign."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import Literal, Self

from storlab.model.point import PlannedRun, Point
from storlab.model.result import RunRecord, Snapshot


@dataclass(frozen=True, slots=True)
class Gauge:
    """What one instrument beside the load says now."""

    kind: Literal["power", "temperature", "read", "written"]
    target: str
    place: str  # the boundary of a power, else the device
    value: float  # in W or degrees Celsius; bytes that the device has counted until now


class Reporter:
    """Told by the runner what happens. A context manager around the campaign.

    A reporter that derives from it says nothing of what it does not override.
    """

    def __enter__(self) -> Self:
        """Begin."""
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """End, also after an error."""

    def campaign(self, runs: int, done: int, left_ns: int) -> None:
        """``runs`` in all, ``done`` before this session, ``left_ns`` estimated for the rest."""

    def step(self, text: str, total: float | None = None) -> None:
        """A prepare step begins. ``total`` in the unit of ``step_progress``, when it is known."""

    def step_progress(self, done: float, snapshot: Snapshot | None = None) -> None:
        """The prepare step has come so far."""

    def run_started(self, run: PlannedRun, point: Point, expected_ns: int) -> None:
        """A run begins; it should take ``expected_ns``."""

    def run_progress(self, snapshot: Snapshot) -> None:
        """The run goes on."""

    def run_ended(self, record: RunRecord) -> None:
        """The run is stored."""

    def gauges(self, read: Callable[[], Sequence[Gauge]]) -> None:
        """From now on power and temperatures may be asked for, from any thread. Most need none."""

    def note(self, text: str) -> None:
        """Something the user should know."""
