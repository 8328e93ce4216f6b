"""Training reads: the parameters of ``kind = "training"``, and the engine's orders for a point.

The data set is made once for each target, and read by all runs that ask for the same files.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal

from pydantic import AfterValidator, Field

from storlab.base.errors import Problem, StudyError
from storlab.base.nearest import suggest
from storlab.base.units import NS_PER_S, format_bytes_si
from storlab.contracts.family import Estimate, JobContext, Step
from storlab.contracts.figure import FigureKind
from storlab.contracts.page import Page
from storlab.model.place import DataPlace
from storlab.model.point import Point
from storlab.model.result import Concurrency, Flag, Metric, RunOutcome
from storlab.model.study import Header, Target, WorkloadSpec
from storlab.model.types import Duration, Size, Swept
from storlab.workloads.common.store_fields import REQUEST_TIMEOUT, RETRIES, RETRY_BACKOFF, Retries
from storlab.workloads.training.figures import TRAINING_FIGURES
from storlab.workloads.training.job import Records, TrainingJob
from storlab.workloads.training.metrics import run_concurrency, run_flags, run_metrics
from storlab.workloads.training.page import TRAINING_PAGE
from storlab.workloads.training.profiles import is_path, make_profile, profile_names, read_tables
from storlab.workloads.training.rules import (
    Settings,
    cautions,
    combination_problems,
    needless_fields,
    settings_of,
    target_problem,
)

READER_FILES = 4  # of each reader: its file and its ring
READ_BYTES_S = 2_000_000_000  # assumed of storage, to estimate the time of a run
SECTOR = 4096
ENGINES = {"native": "native", "pytorch": "torch"}
"""Which engine a loader is."""


def _known_profile(name: str) -> str:
    if not is_path(name) and name not in profile_names():
        raise ValueError(
            f'"{name}" is neither a profile nor the path of one, which ends with .toml; '
            f"{suggest(name, profile_names())}"
        )
    return name


def _whole_sectors(size: int) -> int:
    if size == 0 or size % SECTOR:
        raise ValueError("is no multiple of 4KiB, as O_DIRECT needs")
    return size


ProfileName = Annotated[str, Field(min_length=1), AfterValidator(_known_profile)]
ReadSize = Annotated[Size, Field(le=1 << 30), AfterValidator(_whole_sectors)]
Accelerators = Annotated[int, Field(ge=1, le=4096)]
Threads = Annotated[int, Field(ge=1, le=1024)]
EditionName = Literal["storlab", "dlio-2.0", "dlio-2.0-odirect", "dlio-3.0"]


class TrainingSpec(WorkloadSpec):
    """``[[workload]] kind = "training"``: what the training of a model reads."""

    swept: ClassVar[tuple[str, ...]] = (
        "profile",
        "accelerators",
        "reader_threads",
        "edition",
        "loader",
        "check",
    )
    asides: ClassVar[frozenset[str]] = frozenset({"loader"})

    kind: Literal["training"] = Field(description="training reads of emulated accelerators")
    profile: Swept[ProfileName] = Field(
        default="unet3d-h100",
        description="what is read and at which cadence: a profile that ships with storlab, or the "
        "path of your own; swept",
        examples=["unet3d-h100", "profiles/mine.toml"],
    )
    accelerators: Swept[Accelerators] = Field(
        default=1, description="emulated accelerators on this machine; swept"
    )
    edition: Swept[EditionName] = Field(
        default="storlab",
        description="whose way of reading: storlab's own, or that of a version of DLIO; swept",
    )
    loader: Swept[Literal["native", "pytorch"]] | None = Field(
        default=None,
        description="pytorch reads through a real PyTorch DataLoader (the extra storlab[torch]), "
        "native with storlab's own reader; by default the engine decides; swept",
    )
    reader_threads: Swept[Threads] | None = Field(
        default=None, description="readers of each accelerator; the profile's by default; swept"
    )
    check: Swept[Literal["bytes", "header", "crc"]] | None = Field(
        default=None,
        description="what a reader does with what it read: nothing; parse its headers; compare its "
        "checksums, too; by default the edition decides; swept",
    )
    shuffle: Literal["none", "same", "epoch"] | None = Field(
        default=None,
        description="order of files: by number; at random, the same in all epochs; anew in each; "
        "by default the edition and the profile decide",
    )
    barrier: bool | None = Field(
        default=None,
        description="accelerators wait for one another after every step, as in data-parallel "
        "training; true by default",
    )
    epochs: Annotated[int, Field(ge=1, le=1_000_000)] | None = Field(
        default=None, description="passes over the data set; the profile's by default"
    )
    max_steps: Annotated[int, Field(ge=1)] | None = Field(
        default=None, description="most steps of an accelerator in an epoch"
    )
    batch_size: Annotated[int, Field(ge=1, le=1_000_000)] | None = Field(
        default=None, description="samples of a step; the profile's by default"
    )
    computation_time: Duration | None = Field(
        default=None, description="compute time of a step; the profile's by default"
    )
    files: Annotated[int, Field(ge=1, le=1_000_000_000)] | None = Field(
        default=None, description="files of the data set; the profile's by default"
    )
    scale: Annotated[float, Field(gt=0, le=1000)] = Field(
        default=1.0, description="the data set has so many times the profile's files"
    )
    read_size: ReadSize = Field(
        default="1MiB",  # type: ignore[assignment]
        description="size of one read of a file; an object is read in one request",
    )
    io_depth: Annotated[int, Field(ge=1, le=1024)] = Field(
        default=16, description="reads in flight of each reader of files"
    )
    request_timeout: Duration = REQUEST_TIMEOUT
    retries: Retries = RETRIES
    retry_backoff: Duration = RETRY_BACKOFF
    data_seed: Annotated[int, Field(ge=0, le=2**63 - 1)] = Field(
        default=1, description="of the data set: sizes and contents"
    )

    def problems(self, values: list[dict[str, Any]]) -> list[Problem]:
        """Fields that contradict one another."""
        del values  # they no longer say what a point has no use for
        return [*combination_problems(self.product(), self.model_fields_set, self.engine)]

    def reduced(self, params: dict[str, Any]) -> dict[str, Any]:
        """As for every family: a point has nothing of what it has no use for.

        A profile of the user's is read here, so that the plan holds it; where that fails, the
        plan is refused later, and results can still be read.
        """
        own = {"profile_data": _own_profile(params["profile"])}
        return params | dict.fromkeys(needless_fields(params)) | own

    def engine_of(self, params: dict[str, Any]) -> str | None:
        """A loader is an engine."""
        loader = params["loader"]
        return self.engine if loader is None else ENGINES[loader]


def _own_profile(name: str) -> dict[str, Any] | None:
    if not is_path(name):
        return None
    try:
        tables = read_tables(Path(name))
        make_profile(tables, name)
    except StudyError:
        return None
    return tables


class TrainingWorkload:
    """Training reads. Implements :class:`storlab.workloads.Workload`."""

    kind = "training"
    fixed_work = True
    spec: type[WorkloadSpec] = TrainingSpec
    places: tuple[str, ...] = ("directory", "s3")
    page: Page = TRAINING_PAGE
    figures: tuple[FigureKind, ...] = TRAINING_FIGURES

    def check(self, params: dict[str, Any], target: Target) -> str | None:
        """Why these values cannot run on this target, or None. Names the fields."""
        return target_problem(params, target)

    def estimate(self, point: Point, header: Header, target: Target) -> Estimate:
        """Time and bytes of one run: computing, or reading at 2 GB/s where that takes longer."""
        del target
        try:
            settings = settings_of(point.params)
        except StudyError:  # check refuses it
            return Estimate(header.settle, bytes_written=0, writes=False, files=0)
        computing = settings.steps * settings.computation_ns
        reading = settings.epoch_bytes * NS_PER_S // READ_BYTES_S
        return Estimate(
            duration_ns=settings.epochs * max(computing, reading) + header.settle,
            bytes_written=0,
            writes=False,
            files=0,
            data_bytes=settings.data_bytes,
            data_set=data_set_name(settings.records()),
            open_files=READER_FILES * settings.accelerators * settings.reader_threads,
            cautions=cautions(settings),
        )

    def job(self, point: Point, context: JobContext) -> TrainingJob:
        """The engine's order for one run. Raises ValueError where no place was granted."""
        params = point.params
        settings = settings_of(params)
        return TrainingJob(
            task="run",
            place=_place(params, settings, context, direct=settings.direct(context.target)),
            records=settings.records(),
            accelerators=settings.accelerators,
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
            read_bytes=params["read_size"],
            queue_depth=params["io_depth"],
            interval_ns=context.header.interval,
            seed=context.seed,
        )

    def prepare(self, points: Sequence[Point], context: JobContext) -> list[Step]:
        """The data sets of these points, each once."""
        sets: dict[str, dict[str, Any]] = {}
        for point in points:
            sets.setdefault(data_set_name(settings_of(point.params).records()), point.params)
        return [_generate(params, context) for params in sets.values()]

    def after(self, point: Point, context: JobContext) -> list[Step]:
        """Nothing: a run only reads."""
        del point, context
        return []

    def concurrency(self, point: Point, outcome: RunOutcome) -> Concurrency:
        """Readers, and how many of them were reading by Little's law."""
        return run_concurrency(point.params, outcome)

    def metrics(self, point: Point, outcome: RunOutcome) -> list[Metric]:
        """Utilisation, rates, waits, stalls, CPU and what the device read."""
        return run_metrics(point.params, outcome)

    def flags(self, point: Point, target: Target, outcome: RunOutcome) -> list[Flag]:
        """Warnings that belong beside the numbers of one run."""
        return run_flags(point.params, target, outcome)


def data_set_name(records: Records) -> str:
    """Equal for equal files, whatever is done with them."""
    said = records.model_dump(mode="json", exclude={"resize_bytes"})
    text = json.dumps(said, sort_keys=True, separators=(",", ":"))
    return f"training-{hashlib.sha256(text.encode()).hexdigest()[:8]}"


def _place(
    params: dict[str, Any], settings: Settings, context: JobContext, *, direct: bool
) -> DataPlace:
    name = data_set_name(settings.records())
    s3, home = context.access.s3, context.access.home
    if s3 is not None:
        return DataPlace.in_store(s3.store, f"{s3.prefix}{name}/", params)
    if home is None:
        raise ValueError(f"{context.target.name}: neither a directory nor a bucket was granted")
    return DataPlace(directory=str(home / name), direct=direct)


def _generate(params: dict[str, Any], context: JobContext) -> Step:
    settings = settings_of(params)
    total = settings.data_bytes
    job = TrainingJob(
        task="generate",
        place=_place(params, settings, context, direct=context.target.direct),
        records=settings.records(),
        interval_ns=NS_PER_S,
        seed=settings.data_seed,
    )
    return Step(f"making {settings.files:,} files ({format_bytes_si(total)})", job, total)
