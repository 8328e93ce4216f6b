"""What executes a run."""

from __future__ import annotations

from pathlib import Path
from typing import Protocol, runtime_checkable

from storlab.base.errors import Problem
from storlab.model.job import Job
from storlab.model.result import EngineInfo, RunOutcome, Snapshot


class RunHandle(Protocol):
    """A run in progress. Every method may be called from any thread."""

    def snapshot(self) -> Snapshot:
        """What is happening now."""
        ...

    def cancel(self) -> None:
        """End the run soon; ``wait`` then returns an outcome with status ``cancelled``."""
        ...

    def wait(self, timeout_s: float | None = None) -> RunOutcome | None:
        """The outcome, or None when the time-out passed first."""
        ...


class HeldRun(RunHandle, Protocol):
    """A run that makes everything ready, and whose load then waits to be told when to start."""

    def armed(self) -> bool:
        """True once all is ready. A run that failed on its way there never is: it ends."""
        ...

    def open_at(self, start_ns: int) -> None:
        """Start the load at a time of this machine's CLOCK_MONOTONIC; at once where it has passed.

        May be called before all is ready, and once only. ``cancel`` ends the wait.
        """
        ...


class SharedRun(HeldRun, Protocol):
    """A held run that does a share of a work, and meets the other shares on its way.

    It announces each meeting as soon as it knows when it will be ready; then it is told when all
    are. Times are of this machine's CLOCK_MONOTONIC.
    """

    def announced(self, number: int, timeout_s: float) -> int | None:
        """When it will be ready for meeting ``number`` (from 0); None: not announced in time."""
        ...

    def tell(self, ready_ns: int) -> None:
        """When all are ready for its next meeting that it was not told of yet."""
        ...

    def met(self) -> list[tuple[int, int, int]]:
        """Of each meeting: when it was announced, when it was told, and when all were ready."""
        ...


class Engine(Protocol):
    """Executes jobs."""

    name: str
    kinds: tuple[str, ...]  # workload kinds it can run

    def describe(self) -> EngineInfo:
        """Name and version. Raises EngineError, with the cure, when it is missing or too old."""
        ...

    def refuse(self, job: Job) -> str | None:
        """Why this engine cannot run this job as it stands, or None."""
        ...

    def start(self, job: Job, work_dir: Path) -> RunHandle:
        """Start one run of a kind in ``kinds``. ``work_dir`` is empty and belongs to this run.

        ``job.secrets()`` holds what the run needs and nobody may store.
        """
        ...


@runtime_checkable
class HoldsRuns(Protocol):
    """An engine that can start its load at an absolute time, as clients of a cluster do."""

    def hold(self, job: Job, work_dir: Path) -> HeldRun:
        """As ``Engine.start``, with the load held back until it is told when to start."""
        ...


@runtime_checkable
class SharesRuns(Protocol):
    """An engine whose runs may be shares of one work."""

    def share(self, job: Job, work_dir: Path) -> SharedRun:
        """As ``HoldsRuns.hold``, of a job that is one share of several."""
        ...


@runtime_checkable
class ChecksPlans(Protocol):
    """An engine whose limits follow from a job alone, so that ``storlab plan`` knows them."""

    def problem(self, job: Job) -> Problem | None:
        """Return why the engine cannot run a job, with the field of the study to change."""
        ...
