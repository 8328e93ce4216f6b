"""Workload family for the preprocessing of click logs for DLRM training.

Raw click logs are converted to Parquet, vocabularies and split binary. The logs are generated once
for each target, or are the user's own files, which are only read. A run ends when this work is
done: it has no ramp and no run time.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from storlab.base.errors import Problem
from storlab.base.units import NS_PER_S, format_bytes_si
from storlab.contracts.details import Details
from storlab.contracts.family import DataSet, Estimate, JobContext, Step, Workload
from storlab.contracts.figure import FigureKind
from storlab.contracts.page import Page
from storlab.model.point import Point
from storlab.model.result import Concurrency, Flag, Metric, Proof, RunOutcome
from storlab.model.study import Header, Target, WorkloadSpec
from storlab.workloads.common.proof import proof_by
from storlab.workloads.preprocess.details import PreprocessDetails
from storlab.workloads.preprocess.figures import PREPROCESS_FIGURES
from storlab.workloads.preprocess.job import Clicks, PreprocessJob, ScaledJob
from storlab.workloads.preprocess.metrics import (
    medium_evidence,
    run_concurrency,
    run_flags,
    run_metrics,
)
from storlab.workloads.preprocess.page import PREPROCESS_PAGE
from storlab.workloads.preprocess.params import PreprocessParams
from storlab.workloads.preprocess.rules import (
    ROW_BYTES,
    cautions,
    clicks_of,
    duration_ns,
    input_files,
    is_compressed,
    raw_data,
    scheduler_of,
    target_problem,
    written_bytes,
)
from storlab.workloads.preprocess.spec import PreprocessSpec


class PreprocessWorkload(Workload):
    """Workload family for the preprocessing of click logs."""

    kind = "preprocess"
    fixed_work = True
    spread_fix: str = (
        'leave [cluster] out for them: [scale] engine = "dask" spreads them over machines'
    )
    spec: type[WorkloadSpec] = PreprocessSpec
    details: type[Details] = PreprocessDetails
    data_tops: tuple[str, ...] = ("preprocess",)
    places: tuple[str, ...] = ("directory",)
    page: Page = PREPROCESS_PAGE
    figures: tuple[FigureKind, ...] = PREPROCESS_FIGURES

    def check(self, params: dict[str, Any], target: Target) -> list[Problem]:
        """Return the problems that prevent a run with these parameters on a target."""
        problem = target_problem(PreprocessParams.of(params), target)
        return [] if problem is None else [problem]

    def estimate(self, point: Point, header: Header, target: Target) -> Estimate:
        """Estimate the duration of a run at an assumed rate, and the most bytes that it writes."""
        params = PreprocessParams.of(point.params)
        try:
            data = raw_data(params, target)
        except (ValueError, OSError):  # ``check`` reports the error
            resume = params.resume
            return Estimate(header.settle, bytes_written=0, writes=False, continues=resume)
        clicks = clicks_of(params)
        written = written_bytes(params, data)
        return Estimate(
            duration_ns=duration_ns(params, data.bytes, point.engine) + header.settle,
            bytes_written=written,
            writes=True,
            write_share=written / (written + data.bytes),
            reads=clicks is not None,
            data_sets=() if clicks is None else (DataSet(data_set_name(clicks), data.bytes),),
            continues=params.resume,
            raw_files=data.own,
            cautions=cautions(params, data, point.engine),
        )

    def job(self, point: Point, context: JobContext) -> PreprocessJob:
        """Build the job of one run for its engine.

        Raises:
            ValueError: The target has no directory, or the raw files do not exist.
        """
        params = PreprocessParams.of(point.params)
        return run_order(
            params,
            _inputs(params, context),
            _home(context) / context.run_id,
            scheduler=scheduler_of(params, point.engine),
            interval_ns=context.header.interval,
            seed=context.seed,
        )

    def prepare(self, points: Sequence[Point], context: JobContext) -> list[Step]:
        """Return the steps that generate click logs for these points, each data set once."""
        sets = [
            clicks
            for point in points
            if (clicks := clicks_of(PreprocessParams.of(point.params))) is not None
        ]
        return [_generate(clicks, context) for clicks in dict.fromkeys(sets)]

    def after(self, point: Point, context: JobContext) -> list[Step]:
        """Return the step that removes a run's output, even incomplete output after a crash."""
        del point  # the job needs no raw files: they may have been deleted
        order = PreprocessJob(task="remove", directory=str(_home(context) / context.run_id))
        return [Step("removing its output", order)]

    def concurrency(self, point: Point, outcome: RunOutcome) -> Concurrency:
        """Return the number of workers, as configured and at work on average by Little's law."""
        return run_concurrency(PreprocessParams.of(point.params), outcome)

    def metrics(self, point: Point, outcome: RunOutcome) -> list[Metric]:
        """Compute times, rates, CPU, memory and device bytes, by stage and in total."""
        return run_metrics(PreprocessParams.of(point.params), outcome)

    def flags(self, point: Point, target: Target, outcome: RunOutcome) -> list[Flag]:
        """Return the flags of one run: warnings that a brief shows beside its numbers."""
        del target
        return run_flags(PreprocessParams.of(point.params), outcome)

    def proof(self, point: Point, target: Target, outcome: RunOutcome) -> Proof | None:
        """Judge whether the medium (rather than a cache) served the raw data."""
        del target
        evidence = medium_evidence(PreprocessParams.of(point.params), outcome)
        return proof_by(evidence, outcome)


def run_order(
    params: PreprocessParams,
    inputs: list[str],
    directory: Path,
    *,
    scheduler: str | None = None,
    interval_ns: int = NS_PER_S,
    seed: int = 1,
) -> PreprocessJob:
    """Build the job of one run, which writes its output below ``directory``."""
    order = PreprocessJob(
        task="run",
        inputs=inputs,
        directory=str(directory),
        workers=params.workers,
        part_bytes=params.part_size,
        row_group_rows=params.row_group_rows,
        compression=params.compression,
        threshold=params.threshold,
        modulo=params.modulo,
        numerical=params.numerical,
        malformed=params.malformed,
        memory_bytes=params.memory,
        cold=params.cold,
        resume=params.resume,
        interval_ns=interval_ns,
        seed=seed,
    )
    return order if scheduler is None else ScaledJob(**order.model_dump(), scheduler=scheduler)


def data_set_name(clicks: Clicks) -> str:
    """Return the name of a generated data set; equal click logs have equal names."""
    text = json.dumps(clicks.model_dump(mode="json"), sort_keys=True, separators=(",", ":"))
    return f"preprocess-{hashlib.sha256(text.encode()).hexdigest()[:8]}"


def _home(context: JobContext) -> Path:
    if context.access.home is None:
        raise ValueError(f"{context.target.name}: preprocessing needs a target with a directory")
    return context.access.home


def _inputs(params: PreprocessParams, context: JobContext) -> list[str]:
    clicks = clicks_of(params)
    if clicks is None:
        # Patterns are relative to the target's directory, which is the parent of storlab's own
        # directory, and not to the working directory.
        files = input_files(params.input or [], _home(context).parent)
        for file in filter(is_compressed, files):
            raise ValueError(f"input: {file} is compressed; decompress it first")
        return [str(file) for file in files]
    place = _home(context) / data_set_name(clicks)
    return [str(place / f"day_{number}") for number in range(clicks.files)]


def _generate(clicks: Clicks, context: JobContext) -> Step:
    total = clicks.rows * ROW_BYTES
    job = PreprocessJob(
        task="generate",
        directory=str(_home(context) / data_set_name(clicks)),
        clicks=clicks,
        interval_ns=NS_PER_S,
        seed=clicks.seed,
    )
    text = f"{clicks.files:,} file{'' if clicks.files == 1 else 's'}"
    return Step(f"making {text} ({format_bytes_si(total)}) of click logs", job, total)
