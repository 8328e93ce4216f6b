"""Metrics, effective concurrency and flags of a block I/O run; docs/method/block.md defines them.

Values over "all" operations include reads, writes and trims, but not flushes. Trims transfer no
bytes, so they are not part of the throughput.
"""

from __future__ import annotations

from storlab.model.result import Concurrency, Flag, Metric, Operation, RunOutcome
from storlab.model.study import Target
from storlab.workloads.block.params import BlockParams
from storlab.workloads.block.rules import write_percent
from storlab.workloads.common import metrics as common
from storlab.workloads.common.proof import medium_flags

DATA: tuple[Operation, ...] = ("read", "write", "trim")
MOVED: tuple[Operation, ...] = ("read", "write")


def run_concurrency(params: BlockParams, outcome: RunOutcome) -> Concurrency:
    """Return the number of operations in flight, as configured and by Little's law."""
    return Concurrency(
        configured=float(sum(load.queue_depth * load.jobs for load in params.loads().values())),
        implied=common.implied_outstanding(outcome, DATA),
    )


def _asked(params: BlockParams) -> list[Operation]:
    asked: set[Operation] = set()
    for load in params.loads().values():
        percents = (load.read_percent, write_percent(load), load.trim_percent)
        asked |= {op for op, percent in zip(DATA, percents, strict=True) if percent}
    return [op for op in DATA if op in asked]


def run_metrics(params: BlockParams, outcome: RunOutcome) -> list[Metric]:
    """Compute all metrics of a run; empty if its measure window is empty."""
    if common.window_ns(outcome) <= 0:
        return []
    return [
        *common.rate_metrics(outcome, DATA, MOVED, "iops", _asked(params)),
        *common.flush_metrics(outcome, "iops"),
        *common.time_metrics(outcome, DATA, "latency"),
        *common.time_metrics(outcome, DATA, "intended"),
        *common.cpu_metrics(outcome, DATA, "cpu_us_per_io"),
        *common.concurrency_metric(run_concurrency(params, outcome).implied),
    ]


def run_flags(params: BlockParams, target: Target, outcome: RunOutcome) -> list[Flag]:
    """Return the flags of a run: warnings that a brief shows beside its numbers."""
    # With groups of jobs, flags about the load are those of each group.
    of_load = [] if params.group else [*_load_flags(params, outcome)]
    flags = [
        *of_load,
        common.client_flag(outcome),
        *common.machine_flags(outcome, params.jobs),
        *([] if params.backend == "null" else medium_flags(target, outcome)),
        _fallback_flag(params, outcome),
        _verify_flag(outcome),
        common.note_flag(outcome),
    ]
    return [flag for flag in flags if flag is not None]


def _load_flags(params: BlockParams, outcome: RunOutcome) -> list[Flag | None]:
    return [
        common.concurrency_flag(run_concurrency(params, outcome), "I/O", params.rate_iops),
        _flush_flag(params),
        common.rate_flag(
            params.rate_iops,
            outcome,
            DATA,
            params.arrival,
            params.queue_depth * params.jobs,
        ),
        common.unfinished_flag(outcome, DATA),
    ]


def _fallback_flag(params: BlockParams, outcome: RunOutcome) -> Flag | None:
    if params.backend != "auto" or outcome.engine.backend != "posix":
        return None
    return Flag(
        kind="posix-fallback",
        message="io_uring could not be used, so threads did the I/O (backend posix)",
    )


def _flush_flag(params: BlockParams) -> Flag | None:
    """Return a flag that write latency does not include flushes; None without flushes."""
    if params.sync == "none" or not params.sync_every:
        return None
    which = "every write" if params.sync_every == 1 else f"every {params.sync_every:,} writes"
    return Flag(
        kind="flush-apart",
        message=f"{params.sync} follows {which}: the latency of writes does not include it, as "
        "flushes are timed separately",
    )


def _verify_flag(outcome: RunOutcome) -> Flag | None:
    if outcome.verify is None or outcome.verify.ok:
        return None
    bad = ", ".join(f"{n:,} {kind}" for kind, n in outcome.verify.bad_blocks.items() if n)
    return Flag(
        kind="verify-failed",
        message=f"of {outcome.verify.checked_blocks:,} blocks checked: {bad}",
    )
