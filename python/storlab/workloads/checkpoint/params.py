"""Parameters of checkpoint workloads: fields of a study file with defaults and descriptions."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, ClassVar, Literal

from pydantic import Field

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

Share = Annotated[float, Field(gt=0, le=1)]
Ranks = Annotated[int, Field(ge=1, le=65_535)]
Depth = Annotated[int, Field(ge=1, le=1_024)]
Layout = Literal["profile", "file_per_rank", "safetensors"]
Durability = Literal["fsync", "none"]
Publish = Literal["rename", "in_place"]


class CheckpointParams(Params):
    """Parameters of one point of a checkpoint workload."""

    absent: ClassVar[Mapping[str, Any]] = {"preallocate": None, **BEFORE}

    profile: Sweep[Annotated[str, Field(min_length=1)]] = Field(
        description="files that the ranks write: a profile of storlab, or the path of your own "
        "TOML file; swept",
        examples=["llama3-405b-8gpu-415gb", "profiles/mine.toml"],
    )
    scale: Sweep[Share] = Field(
        default=1.0,
        description="share of its size that every file has: 0.01 is 1 %; the number of files and "
        "ranks stays; swept",
    )
    subset: Sweep[Ranks | None] = Field(
        default=None, description="only the first ranks, this many; by default all; swept"
    )
    layout: Sweep[Layout] = Field(
        default="profile",
        description="profile: files as in the profile; file_per_rank: one file with all bytes of "
        "a rank; safetensors: the profile's files in that format; swept",
    )
    writes: Annotated[int, Field(ge=1, le=100_000)] = Field(
        default=10, description="checkpoints per run"
    )
    restores: Annotated[int, Field(ge=0, le=100_000)] = Field(
        default=1, description="how often the newest checkpoint is read back after the last write"
    )
    io_size: Sweep[Annotated[Size, Field(gt=0)]] = Field(
        default="4MiB",  # type: ignore[assignment]
        description="size of an I/O, a multiple of 4 KiB up to 1 GiB; swept",
    )
    io_depth: Sweep[Depth] = Field(
        default=8, description="I/Os in flight per rank; to a bucket, connections per rank; swept"
    )
    sync: Sweep[Durability] = Field(
        default="fsync",
        description="fsync flushes every file and directory before a checkpoint is published; "
        "none does not, and runs are flagged not-durable; swept",
    )
    publish: Sweep[Publish] = Field(
        default="rename",
        description="rename: written under another name and renamed when whole; in_place: written "
        "under its name; swept",
    )
    preallocate: bool | None = Field(
        default=True,
        description="allocate blocks and length of a file before its bytes are written "
        "(fallocate), as fio does; false lets it grow",
    )
    keep_last: Annotated[int, Field(ge=1)] | None = Field(
        default=None,
        description="delete all but this many last checkpoints; by default all stay, and a run "
        "needs room for them",
    )
    part_size: Size = Field(
        default="64MiB",  # type: ignore[assignment]
        description="buckets only: files larger than this are uploaded in parts of this size, 5 "
        "MiB to 5 GiB",
    )
    request_timeout: Timeout = REQUEST_TIMEOUT
    retries: Retries = RETRIES
    retry_backoff: Nanoseconds = RETRY_BACKOFF
    pause: Nanoseconds = Field(
        default=0, description="pause between two checkpoints, in the place of training"
    )
    verify: bool = Field(
        default=True, description="a restore compares every byte with what was written"
    )
    cold: Literal["direct", "drop", "as_is"] = Field(
        default="direct",
        description="how a restore avoids the page cache: direct drops it and reads with "
        "O_DIRECT; drop drops it and reads through it; as_is does neither, and the "
        "run is flagged page-cache",
    )
    training_interval: Annotated[Nanoseconds, Field(gt=0)] = Field(
        default="30min",  # type: ignore[assignment]
        description="training time between two checkpoints, for the share of time that they cost",
    )
    mtbf: Annotated[Nanoseconds, Field(gt=0)] | None = Field(
        default=None,
        description="mean time between failures of the training job, for the optimal interval",
        examples=["24h"],
    )
    writer: Literal["native", "torch"] = Field(
        default="native", description="native, or torch: PyTorch writes and reads"
    )
    profile_data: dict[str, Any] | None = None  # tables of a user's own profile file
