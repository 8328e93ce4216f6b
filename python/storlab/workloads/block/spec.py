"""The study table of ``kind = "block"``, and what its values come to."""

from __future__ import annotations

import math
from typing import Annotated, Any, ClassVar, Literal

from pydantic import AfterValidator, BeforeValidator, Field, WithJsonSchema

from storlab.base.errors import Problem
from storlab.base.units import LARGEST, format_size, parse_size
from storlab.model.job import WeightedSize
from storlab.model.study import WorkloadSpec
from storlab.model.types import SIZE_PATTERN, Duration, Size, Swept
from storlab.workloads.block.job import Mix
from storlab.workloads.block.rules import (
    combination_problems,
    needless_fields,
    write_percent,
)

ASSUMED_BYTES_S = 500_000_000  # where a run is bounded by bytes: only to estimate its time
LARGEST_BLOCK = 1 << 30  # of the engine
REGION_GRAIN = 4096  # regions given in percent begin and end on multiples of this
PERCENT_PATTERN = r"^\s*[0-9]+(\.[0-9]+)?\s*%\s*$"

_size_schema = {"anyOf": [{"type": "string", "pattern": SIZE_PATTERN}, {"type": "integer"}]}


def _read_block_size(value: object) -> int | dict[str, float]:
    """Bytes, or weights by size with the sizes in their shortest spelling."""
    if not isinstance(value, dict):
        size = parse_size(value)  # type: ignore[arg-type]
        if size == 0:
            raise ValueError("a block of 0 bytes cannot be read or written")
        return _bounded(size)
    weights: dict[str, float] = {}
    for text, weight in value.items():
        size = parse_size(text)
        number = isinstance(weight, (int, float)) and not isinstance(weight, bool)
        if not (number and math.isfinite(weight) and weight > 0 and size > 0):
            raise ValueError(f'"{text}" = {weight!r}: sizes and weights are numbers above 0')
        _bounded(size)
        if format_size(size) in weights:
            raise ValueError(f'"{text}" stands in the table twice')
        weights[format_size(size)] = float(weight)
    if not weights:
        raise ValueError("the table of block sizes is empty")
    return weights


def _bounded(size: int) -> int:
    if size > LARGEST_BLOCK:
        raise ValueError(f"a block has at most {format_size(LARGEST_BLOCK)}")
    return size


def _read_region(value: object) -> int | str:
    """Bytes, or ``"25%"``."""
    if not isinstance(value, str) or not value.strip().endswith("%"):
        return parse_size(value)  # type: ignore[arg-type]
    try:
        percent = float(value.strip()[:-1])
    except ValueError:
        raise ValueError(f'"{value}" is not a percentage such as "25%"') from None
    if not 0 <= percent <= 100:
        raise ValueError(f'"{value}" is not between 0 % and 100 %')
    return f"{percent:g}%"


def _cpu_numbers(cpus: list[int]) -> list[int]:
    if any(cpu < 0 for cpu in cpus):
        raise ValueError("CPU numbers begin at 0")
    if len(set(cpus)) < len(cpus):
        raise ValueError("a CPU is listed twice; jobs share CPUs in turn anyway")
    return cpus


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
Region = Annotated[
    int | str,
    BeforeValidator(_read_region),
    WithJsonSchema(
        {
            "anyOf": [
                {"type": "string", "pattern": f"{PERCENT_PATTERN}|{SIZE_PATTERN}"},
                {"type": "integer", "minimum": 0},
            ]
        }
    ),
]
Percent = Annotated[float, Field(ge=0, le=100)]
Count = Annotated[int, Field(ge=1, le=65_535)]
Rate = Annotated[float, Field(gt=0, le=1e9)]
Access = Literal["random", "sequential"]
OffsetKind = Literal["uniform", "zipf", "hot_cold", "permutation"]
Backend = Literal["auto", "uring", "posix", "null"]


class BlockSpec(WorkloadSpec):
    """``[[workload]] kind = "block"``: reads, writes and trims of files and block devices."""

    swept: ClassVar[tuple[str, ...]] = (
        "access",
        "block_size",
        "read_percent",
        "trim_percent",
        "queue_depth",
        "jobs",
        "batch",
        "offsets",
        "rate_iops",
        "backend",
        "compress_percent",
        "dedupe_percent",
    )
    asides: ClassVar[frozenset[str]] = frozenset({"backend", "cpus"})

    kind: Literal["block"] = Field(description="block and file I/O")
    access: Swept[Access] = Field(default="random", description="random or sequential; swept")
    block_size: Swept[BlockSize] = Field(
        default="4KiB",  # type: ignore[assignment]
        description='size of an I/O, or weights such as { "4KiB" = 70, "64KiB" = 30 }; swept',
    )
    read_percent: Swept[Percent] = Field(
        default=100.0,
        description="share of reads in all operations; what is neither read nor trim is "
        "written; swept",
    )
    trim_percent: Swept[Percent] = Field(
        default=0.0, description="share of trims (deallocations) in all operations; swept"
    )
    queue_depth: Swept[Count] = Field(
        default=32, description="outstanding operations of each job; swept"
    )
    jobs: Swept[Count] = Field(default=1, description="worker threads; swept")
    batch: Swept[Count] = Field(
        default=1,
        description="most operations handed over by one system call; it changes the result of "
        "many devices, so it is printed with every result; swept",
    )
    offsets: Swept[OffsetKind] = Field(
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
    region_start: Region = Field(
        default=0, description='where I/O begins in each file or device, a size or "25%" of it'
    )
    region_size: Region | None = Field(
        default=None, description="how much of each file or device is used; the rest by default"
    )
    rate_iops: Swept[Rate] | None = Field(
        default=None,
        description="open loop: operations per second over all jobs, started on time whether or "
        "not earlier ones have ended; swept",
    )
    arrival: Literal["constant", "poisson"] | None = Field(
        default=None, description="spacing of an open loop's operations; constant by default"
    )
    backend: Swept[Backend] = Field(
        default="auto",
        description="auto takes io_uring where the kernel allows it, else threads (posix), and "
        "says so; null does no I/O; swept",
    )
    cpus: Annotated[list[int], Field(min_length=1), AfterValidator(_cpu_numbers)] | None = Field(
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
    compress_percent: Swept[Percent] = Field(
        default=0.0, description="share of each written 4 KiB that is zeros; swept"
    )
    dedupe_percent: Swept[Percent] = Field(
        default=0.0, description="share of written 4 KiB chunks that repeat; swept"
    )
    verify: bool = Field(
        default=False, description="write a checked header into each block, and verify afterwards"
    )
    total_bytes: Size | None = Field(
        default=None, gt=0, description="end the window after so many bytes over all jobs"
    )
    drain_timeout: Duration = Field(
        default="30s",  # type: ignore[assignment]
        gt=0,
        description="how long to wait for operations in flight when the load ends",
    )

    def problems(self, values: list[dict[str, Any]]) -> list[Problem]:
        """Fields that contradict one another, or say something of what is not done."""
        del values  # they no longer say what a point has no use for
        return combination_problems(self.product(), self.model_fields_set)

    def reduced(self, params: dict[str, Any]) -> dict[str, Any]:
        """As for every family: fields that a point has no use for have their defaults."""
        return params | {name: self.default_of(name) for name in needless_fields(params)}

    def product(self) -> list[dict[str, Any]]:
        """Every combination of the lists; sequential access has no other offsets."""
        product = super().product()
        for params in product:
            if params["access"] == "sequential":
                params["offsets"] = "sequential"
        return product


def block_sizes(params: dict[str, Any]) -> list[WeightedSize]:
    """Sizes with weights, from a point's ``block_size`` (bytes, or weights by size)."""
    value = params["block_size"]
    if isinstance(value, dict):
        return [
            WeightedSize(bytes=parse_size(text), weight=weight) for text, weight in value.items()
        ]
    return [WeightedSize(bytes=value)]


def mean_block(params: dict[str, Any]) -> float:
    """Weighted mean of the block sizes, in bytes."""
    sizes = block_sizes(params)
    return sum(s.bytes * s.weight for s in sizes) / sum(s.weight for s in sizes)


def largest_block(params: dict[str, Any]) -> int:
    """In bytes; each operation in flight has a buffer of this size."""
    return max(size.bytes for size in block_sizes(params))


def mix_of(params: dict[str, Any]) -> Mix:
    """Shares of reads, writes and trims in percent of all operations."""
    read, trim = params["read_percent"], params["trim_percent"]
    return Mix(read=read, write=write_percent(params), trim=trim)


def granule(params: dict[str, Any]) -> int:
    """The largest length of which all block sizes are multiples: what verify mode checks."""
    return math.gcd(*(size.bytes for size in block_sizes(params)))


def region_of(params: dict[str, Any], size: int) -> tuple[int, int]:
    """Start and length, in bytes, of the region that a point uses of ``size`` bytes."""

    def resolve(value: int | str, round_up: bool) -> int:
        if isinstance(value, int):
            return value
        exact = size * float(value[:-1]) / 100 / REGION_GRAIN
        return (math.ceil(exact) if round_up else math.floor(exact)) * REGION_GRAIN

    start = resolve(params["region_start"], round_up=True)
    wanted = params["region_size"]
    length = size - start if wanted is None else resolve(wanted, round_up=False)
    if isinstance(wanted, str):
        length = min(length, size - start)  # rounding of start and length must not add up
    return start, length
