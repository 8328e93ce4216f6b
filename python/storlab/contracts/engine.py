"""Interfaces of engines, which execute runs."""

from __future__ import annotations

from pathlib import Path
from typing import Protocol, runtime_checkable

from storlab.base.errors import Problem
from storlab.model.job import Job
from storlab.model.result import EngineInfo, RunOutcome, Snapshot


class RunHandle(Protocol):
    """Handle of a run in progress; all methods are thread-safe."""

    def snapshot(self) -> Snapshot:
        """Return live figures of the run."""
        ...

    def cancel(self) -> None:
        """End the run soon; ``wait`` then returns an outcome with status ``cancelled``."""
        ...

    def wait(self, timeout_s: float | None = None) -> RunOutcome | None:
        """Wait for the outcome; return None if the time limit passes first."""
        ...


class HeldRun(RunHandle, Protocol):
    """Run that prepares everything and then waits for the start time of its load."""

    def armed(self) -> bool:
        """Return whether the run is ready; a run that fails earlier ends without being ready."""
        ...

    def open_at(self, start_ns: int) -> None:
        """Start the load at a time on CLOCK_MONOTONIC, or at once if it has passed.

        Call it at most once; the run need not be ready yet. ``cancel`` ends the wait.
        """
        ...


class SharedRun(HeldRun, Protocol):
    """Held run that executes one share of divided work, and synchronises with the other shares.

    It announces each meeting (synchronisation point) as soon as it can predict when it will be
    ready, and is then given the time when all shares are. Times are on this machine's
    CLOCK_MONOTONIC.
    """

    def announced(self, number: int, timeout_s: float) -> int | None:
        """Return when the share will be ready for synchronisation point ``number``, from 0.

        Returns:
            The time in ns; None if it was not announced within the limit.
        """
        ...

    def tell(self, ready_ns: int) -> None:
        """Set the time at which all shares will be ready for the next synchronisation point."""
        ...

    def met(self) -> list[tuple[int, int, int]]:
        """Return three times per synchronisation point: announced, answered, all shares ready."""
        ...


class Engine(Protocol):
    """Program that executes jobs of some workload families."""

    name: str
    kinds: tuple[str, ...]  # workload kinds that it supports

    def describe(self) -> EngineInfo:
        """Return name and version.

        Raises:
            EngineError: The engine is missing or too old; the error has a fix.
        """
        ...

    def refuse(self, job: Job) -> str | None:
        """Return why this engine cannot execute a job, or None."""
        ...

    def start(self, job: Job, work_dir: Path) -> RunHandle:
        """Start one run of a kind in ``kinds``.

        Args:
            job: Job of the run; ``job.secrets()`` are passed to the engine but must not be stored.
            work_dir: Empty directory for this run only.
        """
        ...


@runtime_checkable
class HoldsRuns(Protocol):
    """Engine that can start its load at an absolute time, as needed for clusters."""

    def hold(self, job: Job, work_dir: Path) -> HeldRun:
        """Start a run like ``Engine.start``, with a load that waits for its start time."""
        ...


@runtime_checkable
class SharesRuns(Protocol):
    """Engine that can execute shares of divided work."""

    def share(self, job: Job, work_dir: Path) -> SharedRun:
        """Start a run like ``HoldsRuns.hold``, for a job that is one of several shares."""
        ...


@runtime_checkable
class ChecksPlans(Protocol):
    """Engine whose limits follow from the job alone, so that ``storlab plan`` can check them."""

    def problem(self, job: Job) -> Problem | None:
        """Return why the engine cannot run a job, with the field of the study to change."""
        ...
