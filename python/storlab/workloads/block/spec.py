"""Table ``[[workload]]`` of a study with ``kind = "block"``, and values derived from it."""

from __future__ import annotations

import math
from typing import Any, ClassVar, Literal

from pydantic import Field

from storlab.base.errors import Problem
from storlab.model.study import WorkloadSpec, study_table
from storlab.workloads.block.groups import Group, divided, group_problems, list_problems
from storlab.workloads.block.job import Mix
from storlab.workloads.block.params import BlockParams
from storlab.workloads.block.rules import (
    combination_problems,
    needless_fields,
    sizes_of,
    write_percent,
)
from storlab.workloads.common.random_choice import sequential_offsets

ASSUMED_BYTES_S = 500_000_000  # assumed rate, to estimate the time of runs bounded by bytes


@study_table(BlockParams)
class BlockSpec(WorkloadSpec):
    """``[[workload]] kind = "block"``: reads, writes and trims of files and block devices."""

    non_work_parameters: ClassVar[frozenset[str]] = frozenset({"backend", "cpus"})

    shared: ClassVar[frozenset[str]] = WorkloadSpec.shared | {"group"}

    kind: Literal["block"] = Field(description="block and file I/O")
    group: list[Group] = Field(
        default_factory=list,
        description="groups of jobs that run at the same time, each with a load of its own; the "
        "fields of the workload are their defaults",
    )

    def problems(self, values: list[dict[str, Any]]) -> list[Problem]:
        """Return a problem for each field of the table that is contradictory or has no effect."""
        if self.group:
            found = list_problems(self.group, self.model_fields_set, self)
            return found or group_problems(values, self.group)
        del values  # values lack the fields that points do not use, so the product is built again
        return combination_problems(BlockParams.every(self.product()), self.model_fields_set)

    def reduced(self, params: dict[str, Any]) -> dict[str, Any]:
        """Return a point's parameters; fields that have no effect get their defaults."""
        if self.group:
            return params
        point = BlockParams.combined(params)
        return params | {name: self.default_of(name) for name in needless_fields(point)}

    def product(self) -> list[dict[str, Any]]:
        """Return all combinations of swept values; sequential access implies sequential offsets."""
        if self.group:
            swept = {name for name in self.swept if isinstance(getattr(self, name), list)}
            return [divided(values, self.group, swept) for values in super().product()]
        return sequential_offsets(super().product())


def largest_block(params: BlockParams) -> int:
    """Return the largest block size in bytes, which is the size of every I/O buffer."""
    return max(sizes_of(params))


def mix_of(params: BlockParams) -> Mix:
    """Return the percentages of reads, writes and trims of a point."""
    read, trim = params.read_percent, params.trim_percent
    return Mix(read=read, write=write_percent(params), trim=trim)


def granule(params: BlockParams) -> int:
    """Return the unit of verification in bytes: the greatest common divisor of all block sizes."""
    return math.gcd(*sizes_of(params))
