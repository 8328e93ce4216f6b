"""Workload family for checkpoints of large language models.

The ranks of a training job write one checkpoint after the other and then read the newest one back.
A checkpoint becomes visible only when it is complete. A run ends when this work is done: it has no
ramp and no run time.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from storlab.base.errors import Problem, StudyError
from storlab.base.units import NS_PER_S
from storlab.contracts.details import Details
from storlab.contracts.family import ClientDetails, Estimate, JobContext, Step, Workload
from storlab.contracts.figure import FigureKind
from storlab.contracts.page import Page
from storlab.model.place import DataPlace
from storlab.model.point import Point
from storlab.model.result import Concurrency, Flag, Metric, Proof, RunOutcome
from storlab.model.study import Header, Target, WorkloadSpec
from storlab.workloads.checkpoint.details import CheckpointDetails
from storlab.workloads.checkpoint.figures import CHECKPOINT_FIGURES
from storlab.workloads.checkpoint.job import CheckpointFile, CheckpointJob
from storlab.workloads.checkpoint.merge_clients import merged_details
from storlab.workloads.checkpoint.metrics import (
    medium_evidence,
    run_concurrency,
    run_flags,
    run_metrics,
)
from storlab.workloads.checkpoint.page import CHECKPOINT_PAGE
from storlab.workloads.checkpoint.params import CheckpointParams
from storlab.workloads.checkpoint.rules import (
    buffer_bytes,
    files_of_ranks,
    memory_problem,
    point_files,
    profile_of,
    ranks_of,
    target_problem,
)
from storlab.workloads.checkpoint.spec import ASSUMED_BYTES_S, RING_FILES, CheckpointSpec
from storlab.workloads.common.proof import proof_by


class CheckpointWorkload(Workload):
    """Workload family for checkpoints; each cluster client writes to a directory of its own."""

    kind = "checkpoint"
    fixed_work = True
    spec: type[WorkloadSpec] = CheckpointSpec
    details: type[Details] = CheckpointDetails
    run_tops: tuple[str, ...] = ("checkpoints",)
    places: tuple[str, ...] = ("directory", "s3")
    pieces_word: str = "ranks"
    page: Page = CHECKPOINT_PAGE
    figures: tuple[FigureKind, ...] = CHECKPOINT_FIGURES

    def check(self, params: dict[str, Any], target: Target) -> list[Problem]:
        """Return the problems that prevent a run with these parameters on a target."""
        problem = target_problem(CheckpointParams.of(params), target)
        return [] if problem is None else [problem]

    def estimate(self, point: Point, header: Header, target: Target) -> Estimate:
        """Estimate the duration of one run at an assumed rate; the bytes it writes are exact."""
        params = CheckpointParams.of(point.params)
        try:
            profile, files = point_files(params)
        except StudyError:  # ``check`` reports the error with its line in the study
            return Estimate(header.settle, bytes_written=0, writes=False)
        size, ranks = sum(file.bytes for file in files), ranks_of(profile, params)
        open_each = len(files) if target.s3 is None else ranks * params.io_depth
        writes, restores, keep = params.writes, params.restores, params.keep_last
        moved_ns = (writes + restores) * size * NS_PER_S // ASSUMED_BYTES_S
        kept = writes if keep is None else min(writes, keep + 1)
        return Estimate(
            duration_ns=moved_ns + (writes - 1) * params.pause + header.settle,
            bytes_written=writes * size,
            writes=True,
            write_share=writes / (writes + restores),
            reads=False,
            space_bytes=kept * size,
            buffer_bytes=buffer_bytes(params, ranks),
            buffer_fields=("io_depth", "io_size", "subset"),
            open_files=open_each + RING_FILES * ranks,
        )

    def job(self, point: Point, context: JobContext) -> CheckpointJob:
        """Build the job of one run for its engine.

        Raises:
            ValueError: The target has no directory or bucket, or the buffers do not fit in memory.
            StudyError: The profile does not exist or is invalid.
        """
        params = CheckpointParams.of(point.params)
        profile, files = point_files(params)
        own = context.share.of(ranks_of(profile, params))
        problem = memory_problem(params, len(own))
        if problem is not None:
            raise ValueError(problem)
        return CheckpointJob(
            place=_place(params, context),
            files=files_of_ranks(files, own),
            ranks=len(own),
            first_rank=own.start,
            format="safetensors" if params.layout == "safetensors" else "raw",
            writes=params.writes,
            restores=params.restores,
            interval_ns=context.header.interval,
            pause_ns=params.pause,
            sync=params.sync,
            publish=params.publish,
            keep_last=params.keep_last,
            preallocate=bool(params.preallocate),
            io_bytes=params.io_size,
            queue_depth=params.io_depth,
            verify=params.verify,
            cold=params.cold,
            part_size=params.part_size,
            seed=context.seed,
        )

    def pieces(self, point: Point) -> int:
        """Return the number of ranks of a point; raise StudyError if its profile does not exist."""
        params = CheckpointParams.of(point.params)
        return ranks_of(profile_of(params), params)

    def merge_details(self, parts: Sequence[ClientDetails]) -> dict[str, Any]:
        """Merge what the clients of a cluster report about their parts of the same checkpoints.

        A checkpoint lasts from the start of the first client to the end of the last one.
        """
        return merged_details(parts)

    def prepare(self, points: Sequence[Point], context: JobContext) -> list[Step]:
        """Return no steps, as a restore reads files that the same run has written."""
        del points, context
        return []

    def after(self, point: Point, context: JobContext) -> list[Step]:
        """Return the step that removes a run's checkpoints, even incomplete ones after a crash."""
        # This job works without the profile, whose file may have been deleted since the run.
        order = CheckpointJob(
            task="clean",
            place=_place(CheckpointParams.of(point.params), context),
            files=[CheckpointFile(name="none", rank=0, bytes=0)],
            ranks=1,
        )
        return [Step("removing its checkpoints", order)]

    def concurrency(self, point: Point, outcome: RunOutcome) -> Concurrency:
        """Return the concurrency as configured (ranks times I/O depth) and by Little's law."""
        return run_concurrency(CheckpointParams.of(point.params), _ranks_seen(outcome), outcome)

    def metrics(self, point: Point, outcome: RunOutcome) -> list[Metric]:
        """Compute times and rates of checkpoints and restores, and the training time lost."""
        return run_metrics(CheckpointParams.of(point.params), _ranks_seen(outcome), outcome)

    def flags(self, point: Point, target: Target, outcome: RunOutcome) -> list[Flag]:
        """Return the flags of one run: warnings that a brief shows beside its numbers."""
        params, ranks = CheckpointParams.of(point.params), _ranks_seen(outcome)
        return run_flags(params, ranks, target, outcome)

    def proof(self, point: Point, target: Target, outcome: RunOutcome) -> Proof | None:
        """Judge whether the medium (rather than a cache) stored and returned the checkpoints."""
        params = CheckpointParams.of(point.params)
        return proof_by(medium_evidence(params, target, outcome), outcome)


def _place(params: CheckpointParams, context: JobContext) -> DataPlace:
    """Return the directory or bucket prefix for a run's checkpoints, which no other run uses."""
    s3, home = context.access.s3, context.access.home
    name = f"checkpoints-{context.run_id}"
    if s3 is not None:
        return DataPlace(
            store=s3.store,
            prefix=f"{s3.prefix}{name}/",
            request_timeout_ns=params.request_timeout,
            retries=params.retries,
            backoff_ns=params.retry_backoff,
        )
    if home is None:
        raise ValueError(f"{context.target.name}: checkpoints need a directory or an S3 bucket")
    return DataPlace(directory=str(home / name), direct=context.target.direct)


def _ranks_seen(outcome: RunOutcome) -> int:
    """Count the ranks in a run's report, as the profile may have been changed since the run."""
    told = CheckpointDetails.of(outcome)
    return max((len(piece.ranks) for piece in (*told.writes, *told.restores)), default=0)
