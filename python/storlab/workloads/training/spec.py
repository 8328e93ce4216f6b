"""The study table of ``kind = "training"``, and what its values come to."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal

from pydantic import AfterValidator, Field

from storlab.base.errors import Problem, StudyError
from storlab.base.nearest import suggest
from storlab.model.study import WorkloadSpec
from storlab.model.types import Duration, Size, Swept
from storlab.workloads.common.store_fields import REQUEST_TIMEOUT, RETRIES, RETRY_BACKOFF, Retries
from storlab.workloads.training.profiles import is_path, make_profile, profile_names, read_tables
from storlab.workloads.training.rules import (
    combination_problems,
    needless_fields,
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
