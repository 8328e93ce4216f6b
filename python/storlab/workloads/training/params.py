"""Parameters of training workloads: fields of a study file with defaults and descriptions."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, ClassVar, Literal

from pydantic import AfterValidator, Field

from storlab.base.nearest import suggest
from storlab.base.units import format_size, same_number_in_binary_units
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
        twin = same_number_in_binary_units(size)
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
    """Parameters of one point of a training workload."""

    absent: ClassVar[Mapping[str, Any]] = BEFORE

    profile: Sweep[ProfileName] = Field(
        default="unet3d-h100",
        description="files to read and compute time of steps: a profile of storlab, or the path "
        "of your own, which ends with .toml; swept",
        examples=["unet3d-h100", "profiles/mine.toml"],
    )
    accelerators: Sweep[Accelerators] = Field(
        default=1,
        description="emulated accelerators; with a cluster, of all clients together; swept",
    )
    edition: Sweep[EditionName] = Field(
        default="storlab",
        description="way of reading: storlab's own, or that of a version of DLIO; swept",
    )
    loader: Sweep[Literal["native", "pytorch"] | None] = Field(
        default=None,
        description="native reads with storlab's reader, pytorch through a PyTorch DataLoader "
        "(the extra storlab[torch]); by default the engine decides, and it cannot be "
        "combined with engine; swept",
    )
    reader_threads: Sweep[Threads | None] = Field(
        default=None, description="readers per accelerator; by default the profile's; swept"
    )
    check: Sweep[Literal["bytes", "header", "crc"] | None] = Field(
        default=None,
        description="check of the data by a reader: bytes none; header parses the format; crc "
        "also compares checksums. By default that of the edition; can be set only "
        "with edition storlab; swept",
    )
    shuffle: Literal["none", "same", "epoch"] | None = Field(
        default=None,
        description="order of files: none by number, same shuffled once for all epochs, epoch "
        "shuffled for each epoch. By default the edition and profile decide",
    )
    barrier: bool | None = Field(
        default=None,
        description="accelerators wait for each other after every step, as in data-parallel "
        "training; by default true",
    )
    epochs: Annotated[int, Field(ge=1, le=1_000_000)] | None = Field(
        default=None, description="passes over the data set; by default the profile's"
    )
    max_steps: Annotated[int, Field(ge=1)] | None = Field(
        default=None, description="largest number of steps of an accelerator per epoch"
    )
    batch_size: Annotated[int, Field(ge=1, le=1_000_000)] | None = Field(
        default=None,
        description="samples per step; if it differs from the profile's, set computation_time "
        "as well",
    )
    computation_time: Nanoseconds | None = Field(
        default=None, description="compute time per step; by default the profile's"
    )
    files: Annotated[int, Field(ge=1, le=1_000_000_000)] | None = Field(
        default=None, description="files of the data set; by default the profile's"
    )
    scale: Annotated[float, Field(gt=0, le=1000)] = Field(
        default=1.0,
        description="multiple of the profile's number of files; not together with files",
    )
    read_size: ReadSize = Field(
        default="1MiB",  # type: ignore[assignment]
        description="size of one read of a file, a multiple of 4 KiB; an object is read in one "
        "request",
    )
    io_depth: Annotated[int, Field(ge=1, le=1024)] = Field(
        default=16,
        description="reads in flight per reader of files. Buffers take at most accelerators "
        "x reader_threads x (io_depth + 2) x read_size of memory",
    )
    request_timeout: Timeout = REQUEST_TIMEOUT
    retries: Retries = RETRIES
    retry_backoff: Nanoseconds = RETRY_BACKOFF
    data_seed: Annotated[int, Field(ge=0, le=2**63 - 1)] = Field(
        default=1, description="seed of the data set's sizes and contents"
    )
    profile_data: dict[str, Any] | None = None  # tables of a user's own profile file
