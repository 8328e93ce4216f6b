"""Parameters of block workloads: fields of a study file with defaults and descriptions."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from storlab.base.units import LARGEST
from storlab.model.params import Nanoseconds, Sweep
from storlab.model.types import Size
from storlab.workloads.common.groups import GroupedParams
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
from storlab.workloads.common.load_levels import LOAD_LEVELS, LoadPercent
from storlab.workloads.common.random_choice import (
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

Backend = Literal["auto", "uring", "posix", "null"]


class BlockParams(GroupedParams):
    """Parameters of one point of a block workload."""

    access: Sweep[Access] = Field(
        default="random", description="random offsets, or sequential ones; swept"
    )
    block_size: Sweep[IoSize] = Field(
        default="4KiB",  # type: ignore[assignment]
        description='size of an operation, or weights: { "4KiB" = 70, "64KiB" = 30 } draws 4 KiB '
        "in 70 of 100 operations; swept",
    )
    read_percent: Sweep[Percent] = Field(
        default=100.0,
        description="share of reads in all operations, drawn for each operation; what is neither "
        "read nor trim is written; swept",
    )
    trim_percent: Sweep[Percent] = Field(
        default=0.0,
        description="share of trims: discards on devices, punched holes in files. They move no "
        "bytes and are not part of throughput. Before Linux 6.12 each trim of a "
        "device blocks its job; swept",
    )
    queue_depth: Sweep[Count] = Field(
        default=32, description="operations in flight per job; each has its own buffer; swept"
    )
    jobs: Sweep[Count] = Field(
        default=1, description="worker threads, each with its own queue; swept"
    )
    batch: Sweep[Count] = Field(
        default=1,
        description="most operations per system call. Larger values cost less CPU and change the "
        "result of many devices, so it is printed with every result; swept",
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
        "not earlier ones have ended; by default the loop is closed; swept",
    )
    load_percent: Sweep[LoadPercent | None] = LOAD_LEVELS
    arrival: ArrivalKind | None = Field(
        default=None, description="spacing of an open loop's operations; by default constant"
    )
    backend: Sweep[Backend] = Field(
        default="auto",
        description="uring, posix (threads) or null (no I/O); auto takes io_uring if the kernel "
        "allows it, else posix, and says which; swept",
    )
    cpus: Cpus | None = Field(
        default=None,
        description="job j is pinned to the CPU at position j of this list, modulo its length",
        examples=[[0, 1]],
    )
    sync: Literal["none", "fsync", "fdatasync"] = Field(
        default="none",
        description="flush sent after every sync_every writes of a job; flushes are counted apart "
        "and have no due time in an open loop",
    )
    sync_every: Annotated[int, Field(ge=0, le=LARGEST)] = Field(
        default=0, description="writes of a job between two flushes; 0: none in between"
    )
    final_sync: bool = Field(
        default=False,
        description="one flush after the load, timed apart from the window; Ctrl-C does not wait "
        "for it",
    )
    compress_percent: Sweep[Percent] = Field(
        default=0.0,
        description="share of each written 4 KiB that is zeros; 0 is incompressible; swept",
    )
    dedupe_percent: Sweep[Percent] = Field(
        default=0.0, description="share of written 4 KiB chunks that repeat; 0 is unique; swept"
    )
    verify: bool = Field(
        default=False,
        description="write offset, generation and checksum into each block and verify them "
        "afterwards: lost, torn, stale and misplaced blocks are reported with their "
        "offsets",
    )
    total_bytes: Annotated[Size, Field(gt=0)] | None = Field(
        default=None,
        description="end the window after this many bytes over all jobs instead of after runtime; "
        "fio needs ramp = 0 for it",
    )
    drain_timeout: Annotated[Nanoseconds, Field(gt=0)] = Field(
        default="30s",  # type: ignore[assignment]
        description="how long to wait for operations in flight when the load ends",
    )
