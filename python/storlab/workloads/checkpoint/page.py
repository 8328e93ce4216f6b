"""How reports present checkpoint workloads: axes, sections, titles and phrases."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from storlab.base.errors import StudyError
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
from storlab.workloads.checkpoint.checkpoint_values import CHECKPOINT_WORK_ITEMS
from storlab.workloads.checkpoint.definitions import CHECKPOINT_DEFINITIONS
from storlab.workloads.checkpoint.flags import CHECKPOINT_FLAGS
from storlab.workloads.checkpoint.params import CheckpointParams
from storlab.workloads.checkpoint.quantities import (
    CHECKPOINT_FINDINGS,
    CHECKPOINT_HEADLINE,
    CHECKPOINT_QUANTITIES,
    CHECKPOINT_QUESTIONS,
)
from storlab.workloads.checkpoint.rules import profile_of, ranks_of
from storlab.workloads.common.costs import CPU_PER_IO, IOPS
from storlab.workloads.common.metrics import FLUSH

WORK = ("write", "read")
RESTORE_ONLY = ("verify", "cold")
UNSAID_AT_NONE = ("subset", "keep_last", "mtbf", "preallocate")
LAYOUTS = {
    "profile": "files as in the profile",
    "file_per_rank": "one file per rank",
    "safetensors": "safetensors files",
}


def scale_text(scale: float) -> str:
    """Describe a scale of 0.01 as ``scaled to 1 %``; empty for full size."""
    return "" if scale == 1 else f"scaled to {100 * scale:g} %"


def phrase(name: str, params: Mapping[str, Any]) -> str | None:
    """Return a parameter as a phrase, such as ``scaled to 1 %``; None to print name and value."""
    value = params[name]
    if name == "scale":
        return scale_text(float(value))
    if name == "subset":
        return "all ranks" if value is None else f"first {value} ranks"
    if name == "layout":
        return LAYOUTS.get(str(value))
    if name == "sync":
        return "flushed" if value == "fsync" else "not flushed"
    if name == "io_depth":
        return f"depth {value}"
    if name == "profile":
        return str(value)
    if name == "profile_data":
        return ""  # the profile's name is printed instead
    return None


def is_relevant(name: str, params: Mapping[str, Any]) -> bool:
    """Return whether a parameter affects a point, so that reports print it."""
    if name in RESTORE_ONLY:
        return bool(params.get("restores"))
    if name == "profile_data":
        return False
    if name in UNSAID_AT_NONE:
        return params[name] is not None
    usual = {"scale": 1, "pause": 0, "writer": "native"}
    return not (name in usual and params[name] == usual[name])


def _ranks(params: Mapping[str, Any]) -> int:
    given = CheckpointParams.of(params)
    try:
        return ranks_of(profile_of(given), given)
    except StudyError:  # the profile may have been deleted since the runs
        return 0


CHECKPOINT_PAGE = Page(
    operations=Operations(
        main=WORK, moved=WORK, rate=IOPS, auxiliary=(FLUSH,), names={FLUSH: "flush"}
    ),
    parameters=Parameters(
        axes=("io_depth", "io_size", "subset", "scale"),
        model=CheckpointParams,
        facet="profile",
        titles={
            "io_depth": "I/O depth of each rank",
            "io_size": "I/O size",
            "subset": "ranks",
            "keep_last": "checkpoints kept",
            "preallocate": "files preallocated",
            "sync": "durability",
            "cold": "how restores get past the page cache",
            "training_interval": "training between checkpoints",
            "mtbf": "mean time between failures",
            "writes": "checkpoints written",
            "restores": "checkpoints restored",
        },
        phrase=phrase,
        is_relevant=is_relevant,
    ),
    load=Load(threads=_ranks),
    metrics=Metrics(
        quantities=CHECKPOINT_QUANTITIES,
        costs=(CPU_PER_IO,),
        headline=CHECKPOINT_HEADLINE,
        questions=CHECKPOINT_QUESTIONS,
        findings=CHECKPOINT_FINDINGS,
        margins=margins(rates={"iops": 0.05}, reported=("cpu_us_per_io",)),
    ),
    text=Text(
        work="LLM checkpoints",
        stated=("profile", "scale"),
        last_point="the largest I/O depth",
        scale_note=lambda params: scale_text(CheckpointParams.of(params).scale),
        definitions=CHECKPOINT_DEFINITIONS,
    ),
    published=Publications(names=("checkpoint",)),
    work_items=CHECKPOINT_WORK_ITEMS,
    flags=CHECKPOINT_FLAGS,
)
