"""What executes a run."""

from __future__ import annotations

from pathlib import Path
from typing import Protocol

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
