"""LLM checkpoints: the parameters of ``kind = "checkpoint"``, and the engine's orders for a point.

The ranks of a training job write one checkpoint after the other, each published whole or not at
all, and then read the newest one back. The work is fixed: there is no ramp and no runtime.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any, ClassVar, Literal

from pydantic import Field, model_validator

from storlab.base.errors import Problem, StudyError
from storlab.base.units import NS_PER_S
from storlab.contracts.family import Estimate, JobContext, Step
from storlab.contracts.figure import FigureKind
from storlab.contracts.page import Page
from storlab.model.place import DataPlace
from storlab.model.point import Point
from storlab.model.result import Concurrency, Flag, Metric, RunOutcome
from storlab.model.study import Header, Target, WorkloadSpec
from storlab.model.types import Duration, Size, Swept
from storlab.workloads.checkpoint.figures import CHECKPOINT_FIGURES
from storlab.workloads.checkpoint.job import CheckpointFile, CheckpointJob
from storlab.workloads.checkpoint.metrics import entries, run_concurrency, run_flags, run_metrics
from storlab.workloads.checkpoint.page import CHECKPOINT_PAGE
from storlab.workloads.checkpoint.rules import (
    combination_problems,
    memory_problem,
    own_profile,
    point_files,
    ranks_of,
    target_problem,
)
from storlab.workloads.common.store_fields import REQUEST_TIMEOUT, RETRIES, RETRY_BACKOFF, Retries

RING_FILES = 4  # of each rank, beside those that it writes
ASSUMED_BYTES_S = 1_000_000_000  # of a checkpoint, to estimate its time before it was ever written

Share = Annotated[float, Field(gt=0, le=1)]
Ranks = Annotated[int, Field(ge=1, le=65_535)]
Depth = Annotated[int, Field(ge=1, le=1_024)]
Layout = Literal["profile", "file_per_rank", "safetensors"]
Durability = Literal["fsync", "none"]
Publish = Literal["rename", "in_place"]


class CheckpointSpec(WorkloadSpec):
    """``[[workload]] kind = "checkpoint"``: checkpoints of large language models."""

    swept: ClassVar[tuple[str, ...]] = (
        "profile",
        "scale",
        "subset",
        "layout",
        "io_size",
        "io_depth",
        "sync",
        "publish",
    )
    asides: ClassVar[frozenset[str]] = frozenset({"writer", "training_interval", "mtbf"})

    kind: Literal["checkpoint"] = Field(description="checkpoints of large language models")
    profile: Swept[Annotated[str, Field(min_length=1)]] = Field(
        description="which files the ranks write: a profile of storlab's, or the path of a TOML "
        "file of your own; swept",
        examples=["llama3-405b-8gpu-415gb", "profiles/mine.toml"],
    )
    scale: Swept[Share] = Field(
        default=1.0, description="every file shrunk to this share of its size: 0.01; swept"
    )
    subset: Swept[Ranks] | None = Field(
        default=None, description="only the first so many ranks; all by default; swept"
    )
    layout: Swept[Layout] = Field(
        default="profile",
        description="files as in the profile; file_per_rank: one with all bytes of a rank; "
        "safetensors: those of the profile in that format; swept",
    )
    writes: Annotated[int, Field(ge=1, le=100_000)] = Field(
        default=10, description="checkpoints of a run"
    )
    restores: Annotated[int, Field(ge=0, le=100_000)] = Field(
        default=1, description="how often the newest one is then read back"
    )
    io_size: Swept[Annotated[Size, Field(gt=0)]] = Field(
        default="4MiB",  # type: ignore[assignment]
        description="size of an I/O, a multiple of 4KiB; swept",
    )
    io_depth: Swept[Depth] = Field(default=8, description="outstanding I/Os of each rank; swept")
    sync: Swept[Durability] = Field(
        default="fsync",
        description="fsync of every file and directory before a checkpoint is published; none is "
        "flagged; swept",
    )
    publish: Swept[Publish] = Field(
        default="rename",
        description="rename: written aside and given its name when it is whole; in_place; swept",
    )
    preallocate: bool | None = Field(
        default=True,
        description="files get their blocks and length before their bytes (fallocate), as with "
        "fio; files of storlab's own writer only",
    )
    keep_last: Annotated[int, Field(ge=1)] | None = Field(
        default=None, description="older checkpoints than the last so many are deleted"
    )
    part_size: Size = Field(
        default="64MiB",  # type: ignore[assignment]
        description="to a bucket: larger files are uploaded in parts of this size, from 5MiB on",
    )
    request_timeout: Duration = REQUEST_TIMEOUT
    retries: Retries = RETRIES
    retry_backoff: Duration = RETRY_BACKOFF
    pause: Duration = Field(default=0, description="emulated training between two checkpoints")
    verify: bool = Field(default=True, description="a restore compares every byte")
    cold: Literal["direct", "drop", "as_is"] = Field(
        default="direct",
        description="how a restore gets past the page cache: O_DIRECT; dropping the files from "
        "it first; as_is: not at all, and flagged",
    )
    training_interval: Duration = Field(
        default="30min",  # type: ignore[assignment]
        gt=0,
        description="training between two checkpoints, for the share of it that they cost",
    )
    mtbf: Annotated[Duration, Field(gt=0)] | None = Field(
        default=None,
        description="mean time between failures of the training job, for the optimal interval",
        examples=["24h"],
    )
    writer: Literal["native", "torch"] = Field(
        default="native", description="native, or torch: PyTorch itself writes and reads"
    )

    @model_validator(mode="before")
    @classmethod
    def _writer_is_an_engine(cls, data: Any) -> Any:
        """PyTorch is an engine of its own: ``writer`` names it, and ``engine`` follows."""
        if isinstance(data, dict) and data.get("writer") == "torch" and "engine" not in data:
            return {**data, "engine": "torch"}
        if isinstance(data, dict) and data.get("engine") == "torch" and "writer" not in data:
            return {**data, "writer": "torch"}
        return data

    def reduced(self, params: dict[str, Any]) -> dict[str, Any]:
        """Without what it has no use for, and with a profile of the user's own as it reads now.

        So the plan and its hash hold that profile.
        """
        if params["writer"] != "native":
            params = params | {"preallocate": None}
        own = own_profile(params["profile"])
        return params if own is None else {**params, "profile_data": own}

    def problems(self, values: list[dict[str, Any]]) -> list[Problem]:
        """Fields that contradict one another, or say something of what is not done."""
        return combination_problems(values, self.model_fields_set, self.engine)


class CheckpointWorkload:
    """Checkpoints. Implements :class:`storlab.workloads.Workload`."""

    kind = "checkpoint"
    fixed_work = True
    spec: type[WorkloadSpec] = CheckpointSpec
    places: tuple[str, ...] = ("directory", "s3")
    page: Page = CHECKPOINT_PAGE
    figures: tuple[FigureKind, ...] = CHECKPOINT_FIGURES

    def check(self, params: dict[str, Any], target: Target) -> str | None:
        """Why these values cannot run on this target, or None. Names the fields."""
        return target_problem(params, target)

    def estimate(self, point: Point, header: Header, target: Target) -> Estimate:
        """Bytes of one run, and its time at an assumed rate: the work is fixed, not the time."""
        params = point.params
        try:
            profile, files = point_files(params)
        except StudyError:  # check refuses it, and names the line of the study
            return Estimate(header.settle, bytes_written=0, writes=False, files=0)
        size, ranks = sum(file.bytes for file in files), ranks_of(profile, params)
        open_each = len(files) if target.s3 is None else ranks * params["io_depth"]
        writes, restores, keep = params["writes"], params["restores"], params["keep_last"]
        moved_ns = (writes + restores) * size * NS_PER_S // ASSUMED_BYTES_S
        kept = writes if keep is None else min(writes, keep + 1)
        return Estimate(
            duration_ns=moved_ns + (writes - 1) * params["pause"] + header.settle,
            bytes_written=writes * size,
            writes=True,
            files=0,
            write_share=writes / (writes + restores),
            reads=False,
            space_bytes=kept * size,
            open_files=open_each + RING_FILES * ranks,
        )

    def job(self, point: Point, context: JobContext) -> CheckpointJob:
        """The engine's order for one run.

        Raises ValueError where no place was granted or buffers would not fit into memory,
        StudyError where there is no such profile.
        """
        params = point.params
        profile, files = point_files(params)
        ranks = ranks_of(profile, params)
        problem = memory_problem(params, ranks)
        if problem is not None:
            raise ValueError(problem)
        return CheckpointJob(
            place=_place(params, context),
            files=files,
            ranks=ranks,
            format="safetensors" if params["layout"] == "safetensors" else "raw",
            writes=params["writes"],
            restores=params["restores"],
            interval_ns=context.header.interval,
            pause_ns=params["pause"],
            sync=params["sync"],
            publish=params["publish"],
            keep_last=params["keep_last"],
            preallocate=bool(params.get("preallocate")),
            io_bytes=params["io_size"],
            queue_depth=params["io_depth"],
            verify=params["verify"],
            cold=params["cold"],
            part_size=params["part_size"],
            seed=context.seed,
        )

    def prepare(self, points: Sequence[Point], context: JobContext) -> list[Step]:
        """Nothing: a restore reads what the run has written."""
        del points, context
        return []

    def after(self, point: Point, context: JobContext) -> list[Step]:
        """Removes the run's checkpoints, also those that a crash left half."""
        # Its profile may be gone, and what it has left still has to be removed.
        order = CheckpointJob(
            task="clean",
            place=_place(point.params, context),
            files=[CheckpointFile(name="none", rank=0, bytes=0)],
            ranks=1,
        )
        return [Step("removing its checkpoints", order)]

    def concurrency(self, point: Point, outcome: RunOutcome) -> Concurrency:
        """Ranks x I/O depth, and what Little's law says while checkpoints moved."""
        return run_concurrency(point.params, _ranks_seen(outcome), outcome)

    def metrics(self, point: Point, outcome: RunOutcome) -> list[Metric]:
        """Times and rates to written, to durable and of restores, and what training loses."""
        return run_metrics(point.params, _ranks_seen(outcome), outcome)

    def flags(self, point: Point, target: Target, outcome: RunOutcome) -> list[Flag]:
        """Warnings that belong beside the numbers of one run."""
        return run_flags(point.params, target, outcome)


def _place(params: dict[str, Any], context: JobContext) -> DataPlace:
    """The run's own; nothing of another run is in it."""
    s3, home = context.access.s3, context.access.home
    name = f"checkpoints-{context.run_id}"
    if s3 is not None:
        return DataPlace.in_store(s3.store, f"{s3.prefix}{name}/", params)
    if home is None:
        raise ValueError("neither directory nor bucket was granted for checkpoints")
    return DataPlace(directory=str(home / name), direct=context.target.direct)


def _ranks_seen(outcome: RunOutcome) -> int:
    """How many ranks wrote. From the run itself: a profile may have changed since."""
    found = [*entries(outcome, "writes"), *entries(outcome, "restores")]
    return max((len(entry.get("ranks") or ()) for entry in found), default=0)
