"""The study table of ``kind = "block"``, and what its values come to."""

from __future__ import annotations

import math
from typing import Any, ClassVar, Literal

from pydantic import Field

from storlab.base.errors import Problem
from storlab.model.study import WorkloadSpec, study_table
from storlab.workloads.block.job import Mix
from storlab.workloads.block.params import BlockParams
from storlab.workloads.block.rules import (
    combination_problems,
    needless_fields,
    sizes_of,
    write_percent,
)
from storlab.workloads.common.drawn import sequential_offsets

ASSUMED_BYTES_S = 500_000_000  # where a run is bounded by bytes: only to estimate its time


@study_table(BlockParams)
class BlockSpec(WorkloadSpec):
    """``[[workload]] kind = "block"``: reads, writes and trims of files and block devices."""

    asides: ClassVar[frozenset[str]] = frozenset({"backend", "cpus"})

    kind: Literal["block"] = Field(description="block and file I/O")

    def problems(self, values: list[dict[str, Any]]) -> list[Problem]:
        """Fields that contradict one another, or say something of what is not done."""
        del values  # they no longer say what a point has no use for
        return combination_problems(BlockParams.every(self.product()), self.model_fields_set)

    def reduced(self, params: dict[str, Any]) -> dict[str, Any]:
        """As for every family: fields that a point has no use for have their defaults."""
        point = BlockParams.combined(params)
        return params | {name: self.default_of(name) for name in needless_fields(point)}

    def product(self) -> list[dict[str, Any]]:
        """Every combination of the lists; sequential access has no other offsets."""
        return sequential_offsets(super().product())


def largest_block(params: BlockParams) -> int:
    """In bytes; each operation in flight has a buffer of this size."""
    return max(sizes_of(params))


def mix_of(params: BlockParams) -> Mix:
    """Shares of reads, writes and trims in percent of all operations."""
    read, trim = params.read_percent, params.trim_percent
    return Mix(read=read, write=write_percent(params), trim=trim)


def granule(params: BlockParams) -> int:
    """The largest length of which all block sizes are multiples: what verify mode checks."""
    return math.gcd(*sizes_of(params))
