"""The parameters of ``kind = "training"``."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, ClassVar, Literal

from pydantic import AfterValidator, Field

from storlab.base.nearest import suggest
from storlab.base.units import binary_twin, format_size
from storlab.model.params import Nanoseconds, Params, Sweep
from storlab.model.types import Size
from storlab.workloads.common.store_fields import (
    BEFORE,
    REQUEST_TIMEOUT,
    RETRIES,
    RETRY_BACKOFF,
    Retries,
    Timeout,
)
from storlab.workloads.training.profiles import is_path, profile_names

SECTOR = 4096


def _known_profile(name: str) -> str:
    if not is_path(name) and name not in profile_names():
        raise ValueError(
            f'"{name}" is neither a profile nor the path of one, which ends with .toml; '
            f"{suggest(name, profile_names())}"
        )
    return name


def _whole_sectors(size: int) -> int:
    if size == 0 or size % SECTOR:
        twin = binary_twin(size)
        meant = f'; write "{twin}" for a power of two' if twin else ""
        raise ValueError(
            f"{format_size(size)} is not a positive multiple of 4KiB, as O_DIRECT needs{meant}"
        )
    return size


ProfileName = Annotated[str, Field(min_length=1), AfterValidator(_known_profile)]
ReadSize = Annotated[Size, Field(le=1 << 30), AfterValidator(_whole_sectors)]
Accelerators = Annotated[int, Field(ge=1, le=4096)]
Threads = Annotated[int, Field(ge=1, le=1024)]
EditionName = Literal["storlab", "dlio-2.0", "dlio-2.0-odirect", "dlio-3.0"]


class TrainingParams(Params):
    """Of one point."""

    absent: ClassVar[Mapping[str, Any]] = BEFORE

    profile: Sweep[ProfileName] = Field(
        default="unet3d-h100",
        description="what is read and at which cadence: a profile that ships with storlab, or the "
        "path of your own; swept",
        examples=["unet3d-h100", "profiles/mine.toml"],
    )
    accelerators: Sweep[Accelerators] = Field(
        default=1, description="emulated accelerators on this machine; swept"
    )
    edition: Sweep[EditionName] = Field(
        default="storlab",
        description="whose way of reading: storlab's own, or that of a version of DLIO; swept",
    )
    loader: Sweep[Literal["native", "pytorch"] | None] = Field(
        default=None,
        description="pytorch reads through a real PyTorch DataLoader (the extra storlab[torch]), "
        "native with storlab's own reader; by default the engine decides; swept",
    )
    reader_threads: Sweep[Threads | None] = Field(
        default=None, description="readers of each accelerator; the profile's by default; swept"
    )
    check: Sweep[Literal["bytes", "header", "crc"] | None] = Field(
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
    computation_time: Nanoseconds | None = Field(
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
    request_timeout: Timeout = REQUEST_TIMEOUT
    retries: Retries = RETRIES
    retry_backoff: Nanoseconds = RETRY_BACKOFF
    data_seed: Annotated[int, Field(ge=0, le=2**63 - 1)] = Field(
        default=1, description="of the data set: sizes and contents"
    )
    profile_data: dict[str, Any] | None = None  # of a profile of the user's own: all it says
