"""DLRM preprocessing: the parameters of ``kind = "preprocess"``, and the orders for a point.

Raw click logs become Parquet, vocabularies and split binary. They are made once for each target, or
are the user's own and only read. The work is fixed: there is no ramp and no runtime.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal

from pydantic import Field

from storlab.base.errors import Problem
from storlab.base.units import NS_PER_S, format_bytes_si
from storlab.contracts.family import Estimate, JobContext, Step
from storlab.contracts.figure import FigureKind
from storlab.contracts.page import Page
from storlab.model.point import Point
from storlab.model.result import Concurrency, Flag, Metric, RunOutcome
from storlab.model.study import Header, Target, WorkloadSpec
from storlab.model.types import Size, Swept
from storlab.workloads.preprocess.figures import PREPROCESS_FIGURES
from storlab.workloads.preprocess.job import Clicks, PreprocessJob
from storlab.workloads.preprocess.metrics import run_concurrency, run_flags, run_metrics
from storlab.workloads.preprocess.page import PREPROCESS_PAGE
from storlab.workloads.preprocess.rules import (
    GENERATED,
    LEAST_PART_BYTES,
    ROW_BYTES,
    cautions,
    clicks_of,
    combination_problems,
    duration_ns,
    input_files,
    is_compressed,
    needless_fields,
    raw_data,
    target_problem,
    written_bytes,
)

Rows = Annotated[int, Field(ge=1, le=1_000_000_000_000)]
Workers = Annotated[int, Field(ge=1, le=1024)]
GroupRows = Annotated[int, Field(ge=1, le=1 << 30)]
Threshold = Annotated[int, Field(ge=0, le=2**63 - 1)]
PartSize = Annotated[Size, Field(ge=LEAST_PART_BYTES)]
Memory = Annotated[Size, Field(gt=0)]
Codec = Literal["none", "snappy", "lz4", "zstd"]
Implementation = Literal["native", "pandas", "polars"]
"""Each is the engine of that name."""


class PreprocessSpec(WorkloadSpec):
    """``[[workload]] kind = "preprocess"``: click logs to what a DLRM is trained on."""

    swept: ClassVar[tuple[str, ...]] = (
        "rows",
        "workers",
        "implementation",
        "compression",
        "row_group_rows",
        "part_size",
        "threshold",
        "modulo",
        "numerical",
        "memory",
    )
    asides: ClassVar[frozenset[str]] = frozenset({"implementation"})

    kind: Literal["preprocess"] = Field(description="preprocessing of click logs for a DLRM")
    rows: Swept[Rows] = Field(
        default=GENERATED["rows"], description="rows of the click logs that are made; swept"
    )
    files: Annotated[int, Field(ge=1, le=1_000_000)] = Field(
        default=GENERATED["files"], description="raw files that these rows are spread over"
    )
    input: list[Annotated[str, Field(min_length=1)]] | None = Field(
        default=None,
        min_length=1,
        description="your own raw files instead, such as the day files of Criteo: paths or "
        "patterns below the target's directory; they are only read",
        examples=[["day_*"], ["criteo/day_0", "criteo/day_1"]],
    )
    workers: Swept[Workers] = Field(
        default=1, description="parts that are worked on at a time; swept"
    )
    implementation: Swept[Implementation] | None = Field(
        default=None,
        description="whose code does it: native is storlab's own, pandas and polars are data "
        "frameworks (the extra storlab[preprocess]); by default the engine decides; swept",
    )
    compression: Swept[Codec] = Field(default="snappy", description="of the Parquet files; swept")
    row_group_rows: Swept[GroupRows] = Field(
        default=262_144, description="rows of a row group of the Parquet files; swept"
    )
    part_size: Swept[PartSize] = Field(
        default="64MiB",  # type: ignore[assignment]
        description="raw bytes that a worker takes at a time; swept",
    )
    threshold: Swept[Threshold] = Field(
        default=15,
        description="a category that fewer rows have gets id 0, as a missing one; swept",
    )
    modulo: Swept[Annotated[int, Field(ge=1, le=1 << 32)]] | None = Field(
        default=None,
        description="category values are taken modulo this before they are counted; swept",
    )
    numerical: Swept[Literal["float16", "float32"]] = Field(
        default="float16", description="type of the numerical features; swept"
    )
    malformed: Literal["refuse", "skip"] = Field(
        default="refuse",
        description="what becomes of lines that are no rows: the run fails, or leaves them out",
    )
    memory: Swept[Memory] = Field(
        default="4GiB",  # type: ignore[assignment]
        description="most memory that the stages take, at any size of the data; swept",
    )
    cold: bool = Field(default=True, description="each stage finds its input out of the page cache")
    resume: bool = Field(
        default=False,
        description="a run that was killed goes on after its last finished part; it is flagged",
    )
    data_seed: Annotated[int, Field(ge=0, le=2**63 - 1)] = Field(
        default=GENERATED["data_seed"], description="of the click logs that are made"
    )

    def problems(self, values: list[dict[str, Any]]) -> list[Problem]:
        """Fields that contradict one another."""
        del values  # they no longer say what a point has no use for
        return [*combination_problems(self.product(), self.model_fields_set, self.engine)]

    def reduced(self, params: dict[str, Any]) -> dict[str, Any]:
        """As for every family: a point has nothing of what it has no use for."""
        return params | dict.fromkeys(needless_fields(params))

    def engine_of(self, params: dict[str, Any]) -> str | None:
        """An implementation is an engine."""
        return params["implementation"] or self.engine


class PreprocessWorkload:
    """Preprocessing. Implements :class:`storlab.workloads.Workload`."""

    kind = "preprocess"
    fixed_work = True
    spec: type[WorkloadSpec] = PreprocessSpec
    places: tuple[str, ...] = ("directory",)
    page: Page = PREPROCESS_PAGE
    figures: tuple[FigureKind, ...] = PREPROCESS_FIGURES

    def check(self, params: dict[str, Any], target: Target) -> str | None:
        """Why these values cannot run on this target, or None. Names the fields."""
        return target_problem(params, target)

    def estimate(self, point: Point, header: Header, target: Target) -> Estimate:
        """Time of one run at an assumed rate, and the most bytes that it writes."""
        params = point.params
        try:
            data = raw_data(params, target)
        except (ValueError, OSError):  # check refuses it
            return Estimate(header.settle, bytes_written=0, writes=False, files=0)
        clicks = clicks_of(params)
        written = written_bytes(params, data.rows)
        return Estimate(
            duration_ns=duration_ns(params, data.bytes, point.engine) + header.settle,
            bytes_written=written,
            writes=True,
            files=0,
            write_share=written / (written + data.bytes),
            reads=clicks is not None,
            data_bytes=0 if clicks is None else data.bytes,
            data_set="" if clicks is None else data_set_name(clicks),
            cautions=cautions(params, data),
        )

    def job(self, point: Point, context: JobContext) -> PreprocessJob:
        """The engine's order for one run.

        Raises ValueError where no directory was granted, or its raw files are not there.
        """
        params = point.params
        return run_order(
            params,
            _inputs(params, context),
            _home(context) / context.run_id,
            interval_ns=context.header.interval,
            seed=context.seed,
        )

    def prepare(self, points: Sequence[Point], context: JobContext) -> list[Step]:
        """The click logs of these points, each data set once; none of the user's own files."""
        sets = [clicks for point in points if (clicks := clicks_of(point.params)) is not None]
        return [_generate(clicks, context) for clicks in dict.fromkeys(sets)]

    def after(self, point: Point, context: JobContext) -> list[Step]:
        """Removes the run's output, also what a crash left half."""
        del point  # its raw files may be gone, and what it has left still has to be removed
        order = PreprocessJob(task="remove", directory=str(_home(context) / context.run_id))
        return [Step("removing its output", order)]

    def concurrency(self, point: Point, outcome: RunOutcome) -> Concurrency:
        """Workers, and how many of them had a part by Little's law."""
        return run_concurrency(point.params, outcome)

    def metrics(self, point: Point, outcome: RunOutcome) -> list[Metric]:
        """Times, rates, CPU, memory and what the device moved, by stage and in all."""
        return run_metrics(point.params, outcome)

    def flags(self, point: Point, target: Target, outcome: RunOutcome) -> list[Flag]:
        """Warnings that belong beside the numbers of one run."""
        del target
        return run_flags(point.params, outcome)


def run_order(
    params: dict[str, Any],
    inputs: list[str],
    directory: Path,
    *,
    interval_ns: int = NS_PER_S,
    seed: int = 1,
) -> PreprocessJob:
    """The order for one run with these parameters, outputs below ``directory``."""
    return PreprocessJob(
        task="run",
        inputs=inputs,
        directory=str(directory),
        workers=params["workers"],
        part_bytes=params["part_size"],
        row_group_rows=params["row_group_rows"],
        compression=params["compression"],
        threshold=params["threshold"],
        modulo=params["modulo"],
        numerical=params["numerical"],
        malformed=params["malformed"],
        memory_bytes=params["memory"],
        cold=params["cold"],
        resume=params["resume"],
        interval_ns=interval_ns,
        seed=seed,
    )


def data_set_name(clicks: Clicks) -> str:
    """Equal for equal click logs, whatever is done with them."""
    text = json.dumps(clicks.model_dump(mode="json"), sort_keys=True, separators=(",", ":"))
    return f"preprocess-{hashlib.sha256(text.encode()).hexdigest()[:8]}"


def _home(context: JobContext) -> Path:
    if context.access.home is None:
        raise ValueError(f"{context.target.name}: no directory was granted")
    return context.access.home


def _inputs(params: dict[str, Any], context: JobContext) -> list[str]:
    clicks = clicks_of(params)
    if clicks is None:
        # The home lies in the directory that was granted, wherever storlab was started since.
        files = input_files(params["input"], _home(context).parent)
        for file in filter(is_compressed, files):
            raise ValueError(f"input: {file} is compressed; unpack it first")
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
    said = f"{clicks.files:,} file{'' if clicks.files == 1 else 's'}"
    return Step(f"making {said} ({format_bytes_si(total)}) of click logs", job, total)
