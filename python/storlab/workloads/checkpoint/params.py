"""Parameters of ``kind = "checkpoint"``."""

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
        description="which files the ranks write: a profile of storlab's, or the path of a TOML "
        "file of your own; swept",
        examples=["llama3-405b-8gpu-415gb", "profiles/mine.toml"],
    )
    scale: Sweep[Share] = Field(
        default=1.0, description="every file shrunk to this share of its size: 0.01; swept"
    )
    subset: Sweep[Ranks | None] = Field(
        default=None, description="only the first so many ranks; all by default; swept"
    )
    layout: Sweep[Layout] = Field(
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
    io_size: Sweep[Annotated[Size, Field(gt=0)]] = Field(
        default="4MiB",  # type: ignore[assignment]
        description="size of an I/O, a multiple of 4KiB; swept",
    )
    io_depth: Sweep[Depth] = Field(default=8, description="outstanding I/Os of each rank; swept")
    sync: Sweep[Durability] = Field(
        default="fsync",
        description="fsync of every file and directory before a checkpoint is published; none is "
        "flagged; swept",
    )
    publish: Sweep[Publish] = Field(
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
        description="to a bucket: larger files are uploaded in parts of this size, 5MiB to 5GiB",
    )
    request_timeout: Timeout = REQUEST_TIMEOUT
    retries: Retries = RETRIES
    retry_backoff: Nanoseconds = RETRY_BACKOFF
    pause: Nanoseconds = Field(default=0, description="emulated training between two checkpoints")
    verify: bool = Field(default=True, description="a restore compares every byte")
    cold: Literal["direct", "drop", "as_is"] = Field(
        default="direct",
        description="how a restore gets past the page cache: O_DIRECT; dropping the files from "
        "it first; as_is: not at all, and flagged",
    )
    training_interval: Annotated[Nanoseconds, Field(gt=0)] = Field(
        default="30min",  # type: ignore[assignment]
        description="training between two checkpoints, for the share of it that they cost",
    )
    mtbf: Annotated[Nanoseconds, Field(gt=0)] | None = Field(
        default=None,
        description="mean time between failures of the training job, for the optimal interval",
        examples=["24h"],
    )
    writer: Literal["native", "torch"] = Field(
        default="native", description="native, or torch: PyTorch itself writes and reads"
    )
    profile_data: dict[str, Any] | None = None  # tables of a user's own profile file
