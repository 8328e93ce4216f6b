"""Parameters of ``kind = "block"``."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from storlab.base.units import LARGEST
from storlab.model.params import Nanoseconds, Params, Sweep
from storlab.model.types import Size
from storlab.workloads.common.drawn import (
    HOT_ACCESS,
    HOT_SPACE,
    OFFSETS,
    ZIPF_THETA,
    HotAccess,
    HotSpace,
    IoSize,
    OffsetKind,
    Theta,
)
from storlab.workloads.common.io_fields import (
    REGION_SIZE,
    REGION_START,
    Access,
    ArrivalKind,
    Count,
    Cpus,
    Percent,
    Rate,
    Region,
)

Backend = Literal["auto", "uring", "posix", "null"]


class BlockParams(Params):
    """Parameters of one point of block I/O."""

    access: Sweep[Access] = Field(default="random", description="random or sequential; swept")
    block_size: Sweep[IoSize] = Field(
        default="4KiB",  # type: ignore[assignment]
        description='size of an I/O, or weights such as { "4KiB" = 70, "64KiB" = 30 }; swept',
    )
    read_percent: Sweep[Percent] = Field(
        default=100.0,
        description="share of reads in all operations; what is neither read nor trim is "
        "written; swept",
    )
    trim_percent: Sweep[Percent] = Field(
        default=0.0, description="share of trims (deallocations) in all operations; swept"
    )
    queue_depth: Sweep[Count] = Field(
        default=32, description="outstanding operations of each job; swept"
    )
    jobs: Sweep[Count] = Field(default=1, description="worker threads; swept")
    batch: Sweep[Count] = Field(
        default=1,
        description="most operations handed over by one system call; it changes the result of "
        "many devices, so it is printed with every result; swept",
    )
    offsets: Sweep[OffsetKind] = OFFSETS
    zipf_theta: Theta = ZIPF_THETA
    hot_space_percent: HotSpace = HOT_SPACE
    hot_access_percent: HotAccess = HOT_ACCESS
    region_start: Region = REGION_START
    region_size: Region | None = REGION_SIZE
    rate_iops: Sweep[Rate | None] = Field(
        default=None,
        description="open loop: operations per second over all jobs, started on time whether or "
        "not earlier ones have ended; swept",
    )
    arrival: ArrivalKind | None = Field(
        default=None, description="spacing of an open loop's operations; constant by default"
    )
    backend: Sweep[Backend] = Field(
        default="auto",
        description="auto takes io_uring where the kernel allows it, else threads (posix), and "
        "says so; null does no I/O; swept",
    )
    cpus: Cpus | None = Field(
        default=None,
        description="pin job j to the CPU at j modulo the length of this list",
        examples=[[0, 1]],
    )
    sync: Literal["none", "fsync", "fdatasync"] = Field(
        default="none", description="flush sent after every sync_every writes of a job"
    )
    sync_every: Annotated[int, Field(ge=0, le=LARGEST)] = Field(
        default=0, description="writes of a job between two flushes; 0: none in between"
    )
    final_sync: bool = Field(
        default=False, description="one flush after the load, timed apart from the window"
    )
    compress_percent: Sweep[Percent] = Field(
        default=0.0, description="share of each written 4 KiB that is zeros; swept"
    )
    dedupe_percent: Sweep[Percent] = Field(
        default=0.0, description="share of written 4 KiB chunks that repeat; swept"
    )
    verify: bool = Field(
        default=False, description="write a checked header into each block, and verify afterwards"
    )
    total_bytes: Annotated[Size, Field(gt=0)] | None = Field(
        default=None, description="end the window after so many bytes over all jobs"
    )
    drain_timeout: Annotated[Nanoseconds, Field(gt=0)] = Field(
        default="30s",  # type: ignore[assignment]
        description="how long to wait for operations in flight when the load ends",
    )
