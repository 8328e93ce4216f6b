"""Table and description of a group of jobs, which run at the same time as those of other groups."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from storlab.base.units import exact_number, format_size
from storlab.workloads.block.params import BlockParams
from storlab.workloads.common.groups import GroupBase, group_table
from storlab.workloads.common.io_fields import mix_phrase
from storlab.workloads.common.random_choice import sizes_of


@group_table(
    BlockParams, of_the_run=("backend", "verify", "total_bytes", "drain_timeout", "load_percent")
)
class BlockGroup(GroupBase):
    """``[[workload.group]]``: jobs that run at the same time as those of the other groups."""


def describe_group(params: Mapping[str, Any]) -> str:
    """Describe a group of jobs, such as ``random, 4 KiB, reads only, queue depth 32, 2 jobs``."""
    values = BlockParams.of(params)
    parts = [
        str(values.access),
        " or ".join(format_size(size) for size in sizes_of(values.block_size)),
        mix_phrase(values.read_percent, values.trim_percent),
        f"queue depth {values.queue_depth}",
        f"{values.jobs} job{'' if values.jobs == 1 else 's'}",
    ]
    if values.rate_iops is not None:
        parts.append(f"{exact_number(values.rate_iops)} operations/s")
    if values.region_start or values.region_size is not None:
        start, size = values.region_start, values.region_size
        texts = [
            format_size(v) if isinstance(v, int) else v for v in (start, size) if v is not None
        ]
        parts.append(
            "region from " + ", ".join(texts[:1]) + "".join(f", {t} long" for t in texts[1:])
        )
    return ", ".join(parts)
