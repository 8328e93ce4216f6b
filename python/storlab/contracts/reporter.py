"""Interface of classes that report the progress of a campaign, such as on the terminal."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import Literal, Self

from storlab.model.point import PlannedRun, Point
from storlab.model.result import RunRecord, Snapshot


@dataclass(frozen=True, slots=True)
class Gauge:
    """Current power, temperature or byte count of a target during a run."""

    kind: Literal["power", "temperature", "read", "written"]
    target: str
    place: str  # boundary of power, otherwise the device
    value: float  # W or degrees Celsius; for bytes the device's cumulative counter


class Reporter:
    """Base class of progress reporters, used as a context manager around the campaign.

    The campaign calls the methods. Those that a subclass does not override do nothing.
    """

    def __enter__(self) -> Self:
        """Start reporting."""
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Stop reporting, also after an error."""

    def campaign(self, runs: int, done: int, left_ns: int) -> None:
        """Report the total number of runs, how many are done, and the estimated time left in ns."""

    def step(self, text: str, total: float | None = None) -> None:
        """Report the start of a preparation step; ``total`` has the unit of ``step_progress``."""

    def step_progress(self, done: float, snapshot: Snapshot | None = None) -> None:
        """Report how much of the current preparation step is done."""

    def run_started(self, run: PlannedRun, point: Point, expected_ns: int) -> None:
        """Report the start of a run with its expected duration."""

    def run_progress(self, snapshot: Snapshot) -> None:
        """Report live figures of the current run."""

    def run_ended(self, record: RunRecord) -> None:
        """Report that a run has ended and is stored."""

    def gauges(self, read: Callable[[], Sequence[Gauge]]) -> None:
        """Pass a thread-safe function that reads power and temperatures, for live display."""

    def note(self, text: str) -> None:
        """Report something that the user should know."""
