"""State of verify mode, kept so that the blocks on a target can be verified later.

``verify/<target>/`` holds the job and the state of the last verify-mode run on a target. A later
run that writes to the target without verify mode invalidates and removes that state.
``verify/<target>.checked`` lists the files that a job has already checked before its load.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TypeGuard

from pydantic import ValidationError

from storlab.base.errors import ResultError
from storlab.base.files import read_input, replace_file
from storlab.contracts.services import rereads_members
from storlab.lab.prepare.precondition import target_slug
from storlab.model.job import CheckedJob, Job, Member, RereadJob
from storlab.model.result import RunOutcome, VerifyReport
from storlab.model.study import Target
from storlab.process.execution import Interrupted, StopRequest
from storlab.stores.devices import place_of
from storlab.stores.sidecar import DataFileHold, read_sidecar


def asks_for_check(job: Job) -> TypeGuard[RereadJob]:
    """Return whether a job's blocks must be reread after its run (verify mode)."""
    return isinstance(job, RereadJob) and job.state is not None


class Verification:
    """Verify state of one target in a result directory."""

    def __init__(self, directory: Path, target: Target) -> None:
        self._root = directory / "verify"
        self._home = self._root / target_slug(target.name)

    def prepare(self, run_id: str, job: Job) -> Job:
        """Prepare the state before a run: discard what it will overwrite, and create its own.

        The job is stored durably before the run starts, so that it survives a crash.

        Returns:
            The job to run.
        """
        _forget(self._root, job.touches())
        if isinstance(job, CheckedJob):
            self._root.mkdir(parents=True, exist_ok=True)
            return job.remembering(self._home.with_name(f"{self._home.name}.checked"))
        if not asks_for_check(job):
            return job
        # of a run that was killed before it wrote job.json
        shutil.rmtree(self._home, ignore_errors=True)
        self._home.mkdir(parents=True)
        job = job.with_state(self._home / "state")
        replace_file(self._home / "run_id", f"{run_id}\n".encode())
        replace_file(self._home / "job.json", job.stored())
        return job

    def check(
        self,
        job: RereadJob,
        outcome: RunOutcome,
        stop: StopRequest,
        alive: Callable[[], None] = lambda: None,
    ) -> None:
        """Reread all blocks after a run, and add the findings to its outcome.

        Args:
            job: Job of the run.
            outcome: Outcome to add to.
            stop: Stop request to watch, because there may be terabytes to read.
            alive: Function that is called several times per second.

        Raises:
            Interrupted: A stop was requested.
        """
        from storlab.engines.native.engine import verify_pass

        def keep_going() -> bool:
            alive()
            return not stop.requested

        report = verify_pass(job, keep_going)
        if stop.requested:
            raise Interrupted
        outcome.verify = merged(outcome.verify, report)


def merged(first: VerifyReport | None, other: VerifyReport) -> VerifyReport:
    """Merge two verify reports."""
    if first is None:
        return other
    kinds = sorted({*first.bad_blocks, *other.bad_blocks})
    return VerifyReport(
        checked_blocks=first.checked_blocks + other.checked_blocks,
        bad_blocks={k: first.bad_blocks.get(k, 0) + other.bad_blocks.get(k, 0) for k in kinds},
        examples=[*first.examples, *other.examples][:1000],
    )


@dataclass(frozen=True, slots=True)
class Verifiable:
    """Run whose blocks can still be verified."""

    run_id: str
    job: RereadJob


def verifiable_runs(directory: Path) -> list[Verifiable]:
    """Return the runs in a result directory that can be verified, at most one per target.

    Raises:
        ResultError: A stored job is damaged.
    """
    runs = []
    for job_file in sorted((directory / "verify").glob("*/job.json")):
        try:
            run_id = read_input(job_file.parent / "run_id").decode().strip()
            job = rereads_members().stored_job(read_input(job_file))
        except (OSError, ValidationError) as error:
            raise ResultError(
                str(job_file), f"is damaged: {error}", "run the study again"
            ) from error
        if job.state is not None:
            # the directory may have been moved since
            runs.append(Verifiable(run_id, job.with_state(job_file.parent / "state")))
    return runs


@contextmanager
def held_files(job: RereadJob, campaign: str) -> Iterator[None]:
    """Lock the data files of a job while they are reread.

    Raises:
        GuardError: A campaign uses one of the files.
        ResultError: Another campaign has written to one of the files since the job.
    """
    with ExitStack() as stack:
        for path in (Path(member.path) for member in job.members if member.kind == "file"):
            with suppress(FileNotFoundError):
                stack.enter_context(DataFileHold(path, campaign, make=False))
            sidecar = read_sidecar(path)
            if sidecar is not None and sidecar.written_by not in ("", campaign):
                raise ResultError(
                    str(path),
                    f"campaign {sidecar.written_by} has written to it since, so nothing can be "
                    "verified",
                    "give each campaign a file of its own",
                )
        yield


def _forget(root: Path, touched: list[Member]) -> None:
    """Discard states of jobs on the same files or devices, even under other target names."""
    overwritten = {place_of(member.path) for member in touched}
    for job_file in root.glob("*/job.json"):
        try:
            earlier = rereads_members().stored_job(read_input(job_file))
        except ValidationError:
            continue
        if overwritten & {place_of(member.path) for member in earlier.members}:
            job_file.unlink()  # first, because the rest counts only together with job.json
            shutil.rmtree(job_file.parent)
