"""What one run of block I/O says: metrics by name, effective concurrency, and flags.

Definitions are in docs/method.md. Data operations are reads, writes and trims; flushes are counted
apart and are part of no "all" value. Bytes of trims are not transferred, so "all" throughput leaves
them out.
"""

from __future__ import annotations

from typing import Any

from storlab.base.units import format_bytes_si
from storlab.contracts.details import Details
from storlab.model.result import Concurrency, Flag, Metric, Operation, RunOutcome
from storlab.model.study import Target
from storlab.workloads.block.rules import write_percent
from storlab.workloads.common import metrics as common

DATA: tuple[Operation, ...] = ("read", "write", "trim")
MOVED: tuple[Operation, ...] = ("read", "write")

LEAST_DEVICE_SHARE = 0.5
"""Of the bytes read with O_DIRECT, what their device must have seen."""

Params = dict[str, Any]


def run_concurrency(params: Params, outcome: RunOutcome) -> Concurrency:
    """Outstanding data operations: as configured, and implied by Little's law (rate x mean)."""
    return Concurrency(
        configured=float(params["queue_depth"] * params["jobs"]),
        implied=common.implied_outstanding(outcome, DATA),
    )


def _asked(params: Params) -> list[Operation]:
    percents = (params["read_percent"], write_percent(params), params["trim_percent"])
    return [op for op, percent in zip(("read", "write", "trim"), percents, strict=True) if percent]


def run_metrics(params: Params, outcome: RunOutcome) -> list[Metric]:
    """All metrics of a run; none when its window is empty."""
    if common.window_ns(outcome) <= 0:
        return []
    return [
        *common.rate_metrics(outcome, DATA, MOVED, "iops", _asked(params)),
        *common.time_metrics(outcome, DATA, "latency"),
        *common.time_metrics(outcome, DATA, "intended"),
        *common.cpu_metrics(outcome, DATA, "cpu_us_per_io"),
        *common.concurrency_metric(run_concurrency(params, outcome).implied),
    ]


def run_flags(params: Params, target: Target, outcome: RunOutcome) -> list[Flag]:
    """Warnings that belong beside the numbers of a run."""
    found = [
        _concurrency_flag(params, outcome),
        common.client_flag(outcome),
        *common.machine_flags(outcome, params["jobs"]),
        _page_cache_flag(target),
        _device_bytes_flag(params, target, outcome),
        _fallback_flag(params, outcome),
        _verify_flag(outcome),
        common.rate_flag(
            params["rate_iops"],
            outcome,
            DATA,
            params["arrival"],
            params["queue_depth"] * params["jobs"],
        ),
        common.note_flag(outcome),
    ]
    return [flag for flag in found if flag is not None]


def _concurrency_flag(params: Params, outcome: RunOutcome) -> Flag | None:
    if params["rate_iops"] is not None:
        return None
    return common.concurrency_flag(run_concurrency(params, outcome), "I/O")


def _page_cache_flag(target: Target) -> Flag | None:
    if target.direct or target.is_null:
        return None
    return Flag(
        kind="page-cache",
        message="direct = false: memory may have served this I/O, not the device",
    )


def _device_bytes_flag(params: Params, target: Target, outcome: RunOutcome) -> Flag | None:
    """Reads that never came to the device. Reads by others only add to what it counts."""
    device = Details.of(outcome).device
    if device is None or not target.direct or params["backend"] == "null":
        return None
    read = common.bytes_moved(outcome, ("read",))
    if not device.read_bytes < LEAST_DEVICE_SHARE * read:
        return None
    return Flag(
        kind="device-bytes",
        message=f"{format_bytes_si(read)} were read, and the device counted "
        f"{format_bytes_si(device.read_bytes)}: a cache served the rest",
    )


def _fallback_flag(params: Params, outcome: RunOutcome) -> Flag | None:
    if params["backend"] != "auto" or outcome.engine.backend != "posix":
        return None
    return Flag(
        kind="posix-fallback",
        message="io_uring could not be used, so threads did the I/O (backend posix)",
    )


def _verify_flag(outcome: RunOutcome) -> Flag | None:
    if outcome.verify is None or outcome.verify.ok:
        return None
    bad = ", ".join(f"{n:,} {kind}" for kind, n in outcome.verify.bad_blocks.items() if n)
    return Flag(
        kind="verify-failed",
        message=f"of {outcome.verify.checked_blocks:,} blocks checked: {bad}",
    )
