"""How reports present block I/O: axes, sections, titles and phrases."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from storlab.base.units import exact_number
from storlab.contracts import question
from storlab.contracts.page import (
    Load,
    Metrics,
    Operations,
    Page,
    Parameters,
    Publications,
    Text,
    margins,
)
from storlab.workloads.block.flags import BLOCK_FLAGS
from storlab.workloads.block.groups import describe_group
from storlab.workloads.block.metrics import DATA, MOVED
from storlab.workloads.block.params import BlockParams
from storlab.workloads.common.costs import CPU_PER_IO, IOPS
from storlab.workloads.common.groups import BESIDE, describe_groups
from storlab.workloads.common.io_fields import QUEUE_DEPTH_COLUMNS, mix_phrase
from storlab.workloads.common.load_levels import IN_CLOSED_LOOP, LEVEL_TITLE, describe_level
from storlab.workloads.common.load_levels import NAME as LOAD_LEVEL
from storlab.workloads.common.metrics import FLUSH

NBSP = "\u00a0"
MIX = "read_percent"
TRIMS = "trim_percent"  # printed in the phrase for the mix, unless it is 0
ONLY_WITH = {
    "zipf_theta": ("offsets", "zipf"),
    "hot_space_percent": ("offsets", "hot_cold"),
    "hot_access_percent": ("offsets", "hot_cold"),
}
UNSAID_AT_ZERO = (
    "trim_percent",
    "compress_percent",
    "dedupe_percent",
    "region_start",
    "sync_every",
)


def phrase(name: str, params: Mapping[str, Any]) -> str | None:
    """Return a parameter as a phrase, such as ``70/30 read/write`` or ``4 jobs``.

    None means that reports print its name and value. The result for the percentage of trims is "",
    because the phrase for reads includes it.
    """
    value = params[name]
    if name == "group":
        return describe_groups(params, value, describe_group)
    if name == BESIDE:
        return f"beside {describe_groups(params, value, describe_group)}"
    if isinstance(value, bool) or not isinstance(value, int | float):
        return str(value) if name == "access" else None
    if name == MIX:
        return mix_phrase(float(value), float(params.get(TRIMS) or 0))
    if name == TRIMS:
        return "" if value and MIX in params else None
    if name == "jobs":
        return f"{value}{NBSP}job" if value == 1 else f"{value}{NBSP}jobs"
    if name == LOAD_LEVEL:
        return describe_level(value)
    if name == "rate_iops":
        return f"{exact_number(value)} operations/s"
    return None


def is_relevant(name: str, params: Mapping[str, Any]) -> bool:
    """Return whether a parameter affects a point, so that reports print it."""
    if name in ONLY_WITH and params.get(ONLY_WITH[name][0]) != ONLY_WITH[name][1]:
        return False
    return not (name in UNSAID_AT_ZERO and params[name] == 0)


BLOCK_QUESTIONS = (
    *question.USUAL,
    question.latency(
        ("latency_p99_ns.read", "latency_p99_ns.write"),
        "answers the slowest of a hundred operations {times} as fast as {other}",
    ),
)
BLOCK_PAGE = Page(
    operations=Operations(
        main=DATA, moved=MOVED, rate=IOPS, auxiliary=(FLUSH,), names={FLUSH: "flush"}
    ),
    parameters=Parameters(
        axes=("jobs", "queue_depth", "rate_iops"),
        model=BlockParams,
        facet="block_size",
        mix=MIX,
        by_rate=64 << 10,
        titles={
            MIX: "mix (read/write)",
            "block_size": "block size",
            "queue_depth": "queue depth",
            "jobs": "jobs",
            "rate_iops": "rate (1/s)",
            "access": "access",
            "group": "groups",
            LOAD_LEVEL: LEVEL_TITLE,
        },
        phrase=phrase,
        is_relevant=is_relevant,
        axis_titles={"jobs": "jobs (threads), queue depth {queue_depth} each"},
        absent={LOAD_LEVEL: IN_CLOSED_LOOP},
        mix_words="read/write",
    ),
    load=Load(
        workers="jobs",
        outstanding={"jobs": ("numjobs", "jobs", "threads"), "queue_depth": QUEUE_DEPTH_COLUMNS},
        open_loop="rate_iops",
        level=LOAD_LEVEL,
        byte_limit="total_bytes",
    ),
    metrics=Metrics(
        costs=(CPU_PER_IO,),
        questions=BLOCK_QUESTIONS,
        margins=margins(rates={"iops": 0.05}, reported=("cpu_us_per_io",)),
    ),
    text=Text(
        work="{access} I/O", stated=("queue_depth",), last_point="the largest number of jobs"
    ),
    published=Publications(access="access"),
    flags=BLOCK_FLAGS,
)
