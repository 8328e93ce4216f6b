"""Workload family that writes a number of files, flushes them, and reads them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from storlab.base.errors import Problem
from storlab.contracts.details import Details
from storlab.contracts.family import Estimate, JobContext, Step, Workload
from storlab.contracts.figure import FigureKind
from storlab.contracts.page import Page
from storlab.model.point import Point
from storlab.model.result import Concurrency, Flag, Metric, Proof, RunOutcome
from storlab.model.study import Header, Target, WorkloadSpec
from storlab.workloads.common.proof import proof_by
from storlab.workloads.example.job import ExampleJob
from storlab.workloads.example.metrics import (
    medium_evidence,
    run_concurrency,
    run_flags,
    run_metrics,
)
from storlab.workloads.example.page import EXAMPLE_FIGURES, EXAMPLE_PAGE
from storlab.workloads.example.params import ExampleParams
from storlab.workloads.example.rules import combination_problem, duration_ns, written_bytes
from storlab.workloads.example.spec import ExampleSpec


class ExampleWorkload(Workload):
    """Workload family for writes and reads of many files."""

    kind = "example"
    fixed_work = True
    spec: type[WorkloadSpec] = ExampleSpec
    details: type[Details] = Details
    places: tuple[str, ...] = ("directory",)
    page: Page = EXAMPLE_PAGE
    figures: tuple[FigureKind, ...] = EXAMPLE_FIGURES

    def check(self, params: dict[str, Any], target: Target) -> list[Problem]:
        """Return the problems that prevent a run with these parameters on a target."""
        del target
        problem = combination_problem(ExampleParams.of(params))
        return [] if problem is None else [problem]

    def estimate(self, point: Point, header: Header, target: Target) -> Estimate:
        """Estimate the duration of a run at an assumed rate; the bytes it writes are exact."""
        del target
        params = ExampleParams.of(point.params)
        return Estimate(
            duration_ns=duration_ns(params) + header.settle,
            bytes_written=written_bytes(params),
            buffer_bytes=params.workers * params.file_size,
            writes=True,
            write_share=0.5,
            reads=False,
        )

    def job(self, point: Point, context: JobContext) -> ExampleJob:
        """Build the job of one run; raise ValueError if the target has no directory."""
        params = ExampleParams.of(point.params)
        return ExampleJob(
            directory=str(_directory(context)),
            files=params.files,
            file_bytes=params.file_size,
            workers=params.workers,
            interval_ns=context.header.interval,
            seed=context.seed,
        )

    def after(self, point: Point, context: JobContext) -> list[Step]:
        """Return the step that removes the run's files."""
        del point
        remove = ExampleJob(task="remove", directory=str(_directory(context)))
        return [Step("removing its files", remove)]

    def concurrency(self, point: Point, outcome: RunOutcome) -> Concurrency:
        """Return the number of workers, as configured and at work on average by Little's law."""
        return run_concurrency(ExampleParams.of(point.params), outcome)

    def metrics(self, point: Point, outcome: RunOutcome) -> list[Metric]:
        """Compute rates and latencies of each phase, write and read, and in total."""
        return run_metrics(ExampleParams.of(point.params), outcome)

    def flags(self, point: Point, target: Target, outcome: RunOutcome) -> list[Flag]:
        """Return the flags of one run: warnings that a brief shows beside its numbers."""
        del target
        return run_flags(ExampleParams.of(point.params), outcome)

    def proof(self, point: Point, target: Target, outcome: RunOutcome) -> Proof | None:
        """Judge whether the medium (rather than a cache) served the I/O of a run."""
        del point, target
        return proof_by(medium_evidence(outcome), outcome)


def _directory(context: JobContext) -> Path:
    if context.access.home is None:
        raise ValueError(f"{context.target.name} has no directory")
    return context.access.home / context.run_id
