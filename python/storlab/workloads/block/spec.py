"""Table ``[[workload]]`` of a study with ``kind = "block"``, and values derived from it."""

from __future__ import annotations

import math
from typing import Any, ClassVar, Literal

from pydantic import Field

from storlab.base.errors import Problem
from storlab.model.study import study_table
from storlab.workloads.block.groups import BlockGroup
from storlab.workloads.block.job import Mix
from storlab.workloads.block.params import BlockParams
from storlab.workloads.block.rules import (
    combination_problems,
    needless_fields,
    sizes_of,
    write_percent,
)
from storlab.workloads.common.groups import GroupedSpec
from storlab.workloads.common.random_choice import sequential_offsets

ASSUMED_BYTES_S = 500_000_000  # assumed rate, to estimate the time of runs bounded by bytes


@study_table(BlockParams)
class BlockSpec(GroupedSpec):
    """``[[workload]] kind = "block"``: reads, writes and trims of files and block devices."""

    non_work_parameters: ClassVar[frozenset[str]] = frozenset({"backend", "cpus"})
    amount: ClassVar[str] = "jobs"

    kind: Literal["block"] = Field(description="block and file I/O")
    group: list[BlockGroup] = Field(
        default_factory=list,
        description="groups of jobs that run at the same time, each with a load of its own; the "
        "fields of the workload are their defaults",
    )

    def needless_fields(self, params: BlockParams) -> list[str]:
        """Return the fields that have no effect at a point because of its other parameters."""
        return needless_fields(params)

    def combination_problems(self, values: list[BlockParams], given: set[str]) -> list[Problem]:
        """Return the problems of parameters that do not fit together."""
        return combination_problems(values, given)

    def problems_with_groups(self) -> list[Problem]:
        """Return the problems of settings of the workload that are not supported with groups."""
        problems = []
        # The decorator adds the parameters as fields, which mypy does not see.
        verify, total_bytes = (getattr(self, name) for name in ("verify", "total_bytes"))
        if verify:
            what = "is not supported with groups of jobs"
            fix = "set verify = false, or verify the writes in a workload without groups"
            problems.append(Problem(("verify",), what, fix))
        if total_bytes is not None:
            what = "groups run at the same time, so their window cannot end after a number of bytes"
            problems.append(Problem(("total_bytes",), what, "remove it; runtime ends the window"))
        return problems

    def with_implied_values(self, product: list[dict[str, Any]]) -> list[dict[str, Any]]:
        """Return combinations of values, in which sequential access has sequential offsets."""
        return sequential_offsets(product)


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
