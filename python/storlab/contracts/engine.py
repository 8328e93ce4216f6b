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
    """Handle of a run that prepares everything and then waits for the start time of its load."""

    def armed(self) -> bool:
        """Return whether the run is ready to start its load; False if it failed before."""
        ...

    def open_at(self, start_ns: int) -> None:
        """Start the load at a time on CLOCK_MONOTONIC, or at once if it has passed.

        Call it at most once; the run need not be ready yet. ``cancel`` ends the wait.
        """
        ...


class SharedRun(HeldRun, Protocol):
    """Handle of a run that does one client's share of work, in step with the other clients.

    Before each synchronisation point, the run announces when its share will be ready, as soon as it
    can predict that. It is then given the time at which all shares will be ready. Times are on this
    machine's CLOCK_MONOTONIC.
    """

    def announced(self, number: int, timeout_s: float) -> int | None:
        """Return when the share will be ready for synchronisation point ``number`` (from 0).

        Returns:
            The time in ns; None if the run did not announce it within ``timeout_s``.
        """
        ...

    def tell(self, ready_ns: int) -> None:
        """Set the time at which all shares will be ready for the next synchronisation point."""
        ...

    def met(self) -> list[tuple[int, int, int]]:
        """Return three times in ns for each synchronisation point that the run has passed.

        They are: when the run announced it, when the run was told the time at which all shares
        would be ready, and that time.
        """
        ...


class Engine(Protocol):
    """Interface of programs that execute jobs of some workload families."""

    name: str
    kinds: tuple[str, ...]  # workload kinds that it supports

    def describe(self) -> EngineInfo:
        """Return the engine's name and version.

        Raises:
            EngineError: The engine is missing or too old; the error has a fix.
        """
        ...

    def refuse(self, job: Job) -> str | None:
        """Return why this engine cannot execute a job; None if it can."""
        ...

    def start(self, job: Job, work_dir: Path) -> RunHandle:
        """Start one run of a workload family in ``kinds``.

        Args:
            job: Job of the run; ``job.secrets()`` are passed to the engine but must not be stored.
            work_dir: Empty directory for this run only.
        """
        ...


@runtime_checkable
class HoldsRuns(Protocol):
    """Interface of engines that can start their load at a given time, as clusters require."""

    def hold(self, job: Job, work_dir: Path) -> HeldRun:
        """Start a run like ``Engine.start``, but let its load wait for a start time."""
        ...


@runtime_checkable
class SharesRuns(Protocol):
    """Interface of engines that can do one client's share of work that is divided."""

    def share(self, job: Job, work_dir: Path) -> SharedRun:
        """Start a run like ``HoldsRuns.hold``, for the job of one client's share."""
        ...


@runtime_checkable
class ChecksPlans(Protocol):
    """Interface of engines that ``storlab plan`` can ask whether they can execute a job."""

    def problem(self, job: Job) -> Problem | None:
        """Return why the engine cannot execute a job, with the field to change; None if it can."""
        ...
