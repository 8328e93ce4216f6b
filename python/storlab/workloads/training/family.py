"""Workload family for data loading in the training of models.

A data set is created once for each target, and read by all runs that need equal files.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from typing import Any

from storlab.base.errors import Problem, StudyError
from storlab.base.units import NS_PER_S, format_bytes_si
from storlab.contracts.details import Details
from storlab.contracts.family import ClientDetails, DataSet, Estimate, JobContext, Step, Workload
from storlab.contracts.figure import FigureKind
from storlab.contracts.page import Page
from storlab.model.place import DataPlace
from storlab.model.point import Point
from storlab.model.result import Concurrency, Flag, Metric, Proof, RunOutcome
from storlab.model.study import Header, Target, WorkloadSpec
from storlab.workloads.common.proof import proof_by
from storlab.workloads.training.details import TrainingDetails
from storlab.workloads.training.figures import TRAINING_FIGURES
from storlab.workloads.training.job import Records, TrainingJob
from storlab.workloads.training.merge_clients import merged_details
from storlab.workloads.training.metrics import (
    medium_evidence,
    run_concurrency,
    run_flags,
    run_metrics,
)
from storlab.workloads.training.page import TRAINING_PAGE
from storlab.workloads.training.params import TrainingParams
from storlab.workloads.training.rules import (
    BUFFER_FIELDS,
    Settings,
    buffer_bytes,
    cautions,
    settings_of,
    target_problem,
)
from storlab.workloads.training.spec import READ_BYTES_S, READER_FILES, TrainingSpec


class TrainingWorkload(Workload):
    """Workload family for data loading: emulated accelerators that read batches of samples."""

    kind = "training"
    fixed_work = True
    spec: type[WorkloadSpec] = TrainingSpec
    details: type[Details] = TrainingDetails
    data_tops: tuple[str, ...] = ("training",)
    places: tuple[str, ...] = ("directory", "s3")
    pieces_word: str = "accelerators"
    shares_data: bool = True
    page: Page = TRAINING_PAGE
    figures: tuple[FigureKind, ...] = TRAINING_FIGURES

    def check(self, params: dict[str, Any], target: Target) -> list[Problem]:
        """Return the problems that prevent a run with these parameters on a target."""
        problem = target_problem(TrainingParams.of(params), target)
        return [] if problem is None else [problem]

    def estimate(self, point: Point, header: Header, target: Target) -> Estimate:
        """Estimate the duration of a run: that of computing, or of reading at 2 GB/s if longer."""
        params = TrainingParams.of(point.params)
        try:
            settings = settings_of(params)
        except StudyError:  # ``check`` reports the error
            return Estimate(header.settle, bytes_written=0, writes=False)
        computing = settings.steps * settings.computation_ns
        reading = settings.epoch_bytes * NS_PER_S // READ_BYTES_S
        deep = point.engine == "native" and target.s3 is None  # other engines read sequentially
        return Estimate(
            duration_ns=settings.epochs * max(computing, reading) + header.settle,
            bytes_written=0,
            writes=False,
            data_sets=(DataSet(data_set_name(settings.records()), settings.data_bytes),),
            buffer_bytes=buffer_bytes(params, settings) if deep else 0,
            buffer_fields=BUFFER_FIELDS,
            open_files=READER_FILES * settings.accelerators * settings.reader_threads,
            cautions=cautions(settings),
        )

    def job(self, point: Point, context: JobContext) -> TrainingJob:
        """Build the job of one run; raise ValueError if the target has no directory or bucket."""
        params = TrainingParams.of(point.params)
        settings = settings_of(params)
        own = context.share.of(settings.accelerators)
        return TrainingJob(
            task="run",
            place=_place(params, settings, context, direct=settings.direct(context.target)),
            records=settings.records(),
            accelerators=len(own),
            first_accelerator=own.start,
            all_accelerators=settings.accelerators,
            batch=settings.batch,
            computation_ns=settings.computation_ns,
            reader_threads=settings.reader_threads,
            prefetch=settings.profile.reader.prefetch_size,
            epochs=settings.epochs,
            max_steps=settings.max_steps,
            shuffle=settings.shuffle,
            reshard=settings.edition.reshard,
            barrier=settings.barrier,
            check=settings.check,
            drop_caches=settings.edition.drop_caches,
            read_bytes=params.read_size,
            queue_depth=params.io_depth,
            interval_ns=context.header.interval,
            seed=context.seed,
        )

    def pieces(self, point: Point) -> int:
        """Return the number of accelerators; raise StudyError if the profile cannot be read."""
        return settings_of(TrainingParams.of(point.params)).accelerators

    def merge_details(self, parts: Sequence[ClientDetails]) -> dict[str, Any]:
        """Merge what the clients of a cluster report about their parts of the same epochs.

        An epoch lasts from the start of the first client to the end of the last one.
        """
        return merged_details(parts)

    def prepare(self, points: Sequence[Point], context: JobContext) -> list[Step]:
        """Return the steps that create the data sets of these points, each once."""
        sets: dict[str, TrainingParams] = {}
        for params in (TrainingParams.of(point.params) for point in points):
            sets.setdefault(data_set_name(settings_of(params).records()), params)
        return [_generate(params, context) for params in sets.values()]

    def after(self, point: Point, context: JobContext) -> list[Step]:
        """Return no steps, as a run only reads and leaves nothing to remove."""
        del point, context
        return []

    def concurrency(self, point: Point, outcome: RunOutcome) -> Concurrency:
        """Return the number of readers, as configured and reading on average by Little's law."""
        return run_concurrency(TrainingParams.of(point.params), outcome)

    def metrics(self, point: Point, outcome: RunOutcome) -> list[Metric]:
        """Compute utilisation, rates, waits, stalls, CPU and bytes read by the device."""
        return run_metrics(TrainingParams.of(point.params), outcome)

    def flags(self, point: Point, target: Target, outcome: RunOutcome) -> list[Flag]:
        """Return the flags of one run: warnings that a brief shows beside its numbers."""
        return run_flags(TrainingParams.of(point.params), target, outcome)

    def proof(self, point: Point, target: Target, outcome: RunOutcome) -> Proof | None:
        """Judge whether the medium (rather than a cache) served the reads of the accelerators."""
        settings = settings_of(TrainingParams.of(point.params))
        return proof_by(medium_evidence(settings, target, outcome), outcome)


def data_set_name(records: Records) -> str:
    """Return the name of a data set; data sets of equal files have equal names."""
    fields = records.model_dump(mode="json", exclude={"resize_bytes"})
    text = json.dumps(fields, sort_keys=True, separators=(",", ":"))
    return f"training-{hashlib.sha256(text.encode()).hexdigest()[:8]}"


def _place(
    params: TrainingParams, settings: Settings, context: JobContext, *, direct: bool
) -> DataPlace:
    name = data_set_name(settings.records())
    s3, home = context.access.s3, context.access.home
    if s3 is not None:
        return DataPlace(
            store=s3.store,
            prefix=f"{s3.prefix}{name}/",
            request_timeout_ns=params.request_timeout,
            retries=params.retries,
            backoff_ns=params.retry_backoff,
        )
    if home is None:
        raise ValueError(f"{context.target.name}: training needs a directory or an S3 bucket")
    return DataPlace(directory=str(home / name), direct=direct)


def _generate(params: TrainingParams, context: JobContext) -> Step:
    settings = settings_of(params)
    total = settings.data_bytes
    job = TrainingJob(
        task="generate",
        place=_place(params, settings, context, direct=context.target.direct),
        records=settings.records(),
        interval_ns=NS_PER_S,
        seed=settings.data_seed,
        first_file=context.share.index,
        file_step=context.share.count,
    )
    return Step(f"making {settings.files:,} files ({format_bytes_si(total)})", job, total)
