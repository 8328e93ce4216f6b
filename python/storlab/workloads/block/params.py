"""The parameters of ``kind = "block"``."""

from __future__ import annotations

import math
from typing import Annotated, Literal

from pydantic import BeforeValidator, Field, WithJsonSchema

from storlab.base.units import LARGEST, format_size
from storlab.model.params import InStudy, Nanoseconds, Params, Sweep
from storlab.model.types import SIZE_PATTERN, Size
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
    read_block,
)

_size_schema = {"anyOf": [{"type": "string", "pattern": SIZE_PATTERN}, {"type": "integer"}]}


def _read_block_size(value: object) -> int | dict[str, float]:
    """Bytes, or weights by size with the sizes in their shortest spelling."""
    if not isinstance(value, dict):
        return read_block(value)
    weights: dict[str, float] = {}
    for text, weight in value.items():
        size = format_size(read_block(text))
        number = isinstance(weight, (int, float)) and not isinstance(weight, bool)
        if not (number and math.isfinite(weight) and weight > 0):
            raise ValueError(f'"{text}" = {weight!r}: weights are numbers above 0')
        if size in weights:
            raise ValueError(f'"{text}" stands in the table twice')
        weights[size] = float(weight)
    if not weights:
        raise ValueError("the table of block sizes is empty")
    return weights


BlockSize = Annotated[
    int | dict[str, float],
    BeforeValidator(_read_block_size),
    WithJsonSchema(
        {
            "anyOf": [
                {"type": "string", "pattern": SIZE_PATTERN, "examples": ["256KiB", "4MiB"]},
                {"type": "integer", "exclusiveMinimum": 0},
                {
                    "type": "object",
                    "minProperties": 1,
                    "propertyNames": {"pattern": SIZE_PATTERN},
                    "additionalProperties": {"type": "number", "exclusiveMinimum": 0},
                },
            ]
        }
    ),
]
DrawnOffsets = Literal["uniform", "zipf", "hot_cold", "permutation"]
OffsetKind = Annotated[
    Literal["uniform", "zipf", "hot_cold", "permutation", "sequential"], InStudy(DrawnOffsets)
]
"""A point says ``sequential`` where its access is: the table has a field of its own for that."""
Backend = Literal["auto", "uring", "posix", "null"]


class BlockParams(Params):
    """Of one point."""

    access: Sweep[Access] = Field(default="random", description="random or sequential; swept")
    block_size: Sweep[BlockSize] = Field(
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
    offsets: Sweep[OffsetKind] = Field(
        default="uniform",
        description="how random access draws offsets; permutation visits every block once "
        "before any a second time; swept",
    )
    zipf_theta: Annotated[float, Field(gt=0, le=10)] = Field(
        default=1.1, description="skew of offsets = zipf; larger is more skewed"
    )
    hot_space_percent: Annotated[float, Field(gt=0, lt=100)] = Field(
        default=10.0, description="offsets = hot_cold: this share of the region ..."
    )
    hot_access_percent: Annotated[float, Field(gt=0, le=100)] = Field(
        default=90.0, description="... receives this share of the operations"
    )
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
