"""What one run of block I/O says: metrics by name, effective concurrency, and flags.

Definitions are in docs/method.md. Data operations are reads, writes and trims; flushes are counted
apart and are part of no "all" value. Bytes of trims are not transferred, so "all" throughput leaves
them out. Histograms of intervals are merged; percentiles are never averaged.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Literal

from storlab._native import Histogram
from storlab.base.units import MB, NS_PER_S, format_duration
from storlab.model.result import (
    Concurrency,
    Flag,
    LatencySummary,
    Metric,
    Operation,
    OperationTotals,
    RunOutcome,
)
from storlab.model.study import Target

DATA: tuple[Operation, ...] = ("read", "write", "trim")
MOVED: tuple[Operation, ...] = ("read", "write")
CONCURRENCY_TOLERANCE = 0.10
CLIENT_BOUND_PERCENT = 90.0
RATE_TOLERANCE = 0.01

_PERCENTILES = {"p50": 50.0, "p90": 90.0, "p99": 99.0, "p999": 99.9}

Params = dict[str, Any]
Scope = Operation | Literal["all"]


def run_concurrency(params: Params, outcome: RunOutcome) -> Concurrency:
    """Outstanding data operations: as configured, and implied by Little's law (rate x mean)."""
    configured = float(params["queue_depth"] * params["jobs"])
    window_ns = outcome.window_end_ns - outcome.window_start_ns
    waited_ns = 0.0
    known = False
    for operation in DATA:
        totals = outcome.totals.get(operation)
        if totals is not None and totals.latency is not None:
            known = True
            waited_ns += totals.operations * totals.latency.mean_ns
    if not known or window_ns <= 0:
        return Concurrency(configured=configured, implied=None)
    return Concurrency(configured=configured, implied=waited_ns / window_ns)


def run_metrics(params: Params, outcome: RunOutcome) -> list[Metric]:
    """All metrics of a run; none when its window is empty."""
    window_ns = outcome.window_end_ns - outcome.window_start_ns
    if window_ns <= 0:
        return []
    found = [*_rates(outcome.totals, window_ns / NS_PER_S)]
    for prefix, intended in (("latency", False), ("intended_latency", True)):
        found += _latencies(prefix, outcome, intended)
    found += _cpu(outcome, window_ns)
    implied = run_concurrency(params, outcome).implied
    if implied is not None:
        found.append(Metric(name="concurrency_effective", value=implied, unit="1"))
    return found


def _rates(totals: dict[Operation, OperationTotals], window_s: float) -> Iterable[Metric]:
    scopes: list[tuple[Scope, int, int]] = [
        (operation, totals[operation].operations, totals[operation].bytes)
        for operation in DATA
        if operation in totals and totals[operation].operations
    ]
    operations = sum(count for _, count, _ in scopes)
    moved = sum(size for scope, _, size in scopes if scope in MOVED)
    for scope, count, size in [*scopes, ("all", operations, moved)]:
        rate = size / window_s / MB
        yield Metric(name="throughput_mb_s", value=rate, unit="MB/s", operation=scope)
        yield Metric(name="iops", value=count / window_s, unit="1/s", operation=scope)


def _latencies(prefix: str, outcome: RunOutcome, intended: bool) -> list[Metric]:
    merged = _merged(outcome, intended)
    found: list[Metric] = []
    everything = Histogram()
    summaries: dict[Scope, LatencySummary | Histogram] = {}
    for operation, totals in outcome.totals.items():
        summary = totals.intended if intended else totals.latency
        if operation in merged and merged[operation].count:
            summaries[operation] = merged[operation]
        elif summary is not None and summary.count:
            summaries[operation] = summary
    data = [operation for operation in DATA if operation in summaries]
    if data and all(operation in merged for operation in data):
        for operation in data:
            everything.add(merged[operation])
        summaries["all"] = everything
    elif len(data) == 1:
        summaries["all"] = summaries[data[0]]
    for scope, taken in summaries.items():
        found += _summary_metrics(prefix, scope, taken)
    return found


def _merged(outcome: RunOutcome, intended: bool) -> dict[Operation, Histogram]:
    """One histogram for each operation kind, over all intervals of the window."""
    merged: dict[Operation, Histogram] = {}
    for sample in outcome.samples:
        data = sample.intended if intended else sample.latency
        if data:
            merged.setdefault(sample.operation, Histogram()).add(Histogram.from_v2(data))
    return merged


def _summary_metrics(
    prefix: str, scope: Scope, summary: LatencySummary | Histogram
) -> Iterable[Metric]:
    if isinstance(summary, LatencySummary):
        percentiles: dict[str, int] = {
            name: getattr(summary, f"{name}_ns") for name in _PERCENTILES
        }
    else:
        percentiles = {name: summary.percentile(at) for name, at in _PERCENTILES.items()}
    values = {"mean": summary.mean_ns, **percentiles, "max": summary.max_ns}
    for name, value in values.items():
        yield Metric(name=f"{prefix}_{name}_ns", value=value, unit="ns", operation=scope)


def _cpu(outcome: RunOutcome, window_ns: int) -> Iterable[Metric]:
    if outcome.cpu is None:
        return
    used_ns = outcome.cpu.user_ns + outcome.cpu.system_ns
    operations = _data_operations(outcome)
    yield Metric(name="cpu_percent", value=100 * used_ns / window_ns, unit="%")
    if operations:
        yield Metric(name="cpu_us_per_io", value=used_ns / operations / 1_000, unit="us")


def _data_operations(outcome: RunOutcome) -> int:
    return sum(outcome.totals[op].operations for op in DATA if op in outcome.totals)


def run_flags(params: Params, target: Target, outcome: RunOutcome) -> list[Flag]:
    """Warnings that belong beside the numbers of a run."""
    found = [
        _concurrency_flag(params, outcome),
        _client_flag(outcome),
        _page_cache_flag(target),
        _fallback_flag(params, outcome),
        _verify_flag(outcome),
        _rate_flag(params, outcome),
        _note_flag(outcome),
    ]
    return [flag for flag in found if flag is not None]


def _concurrency_flag(params: Params, outcome: RunOutcome) -> Flag | None:
    both = run_concurrency(params, outcome)
    if params["rate_iops"] is not None or both.implied is None:
        return None
    if abs(both.implied / both.configured - 1) <= CONCURRENCY_TOLERANCE:
        return None
    return Flag(
        kind="concurrency-mismatch",
        message=f"rate x mean latency is {both.implied:.3g} outstanding I/O, and "
        f"{both.configured:g} are configured: read the latencies as taken at {both.implied:.3g}",
    )


def _client_flag(outcome: RunOutcome) -> Flag | None:
    cpu = outcome.cpu
    window_ns = outcome.window_end_ns - outcome.window_start_ns
    if cpu is None or window_ns <= 0 or cpu.cores <= 0:
        return None
    used_ns = cpu.user_ns + cpu.system_ns if cpu.worker_ns is None else cpu.worker_ns
    percent = 100 * used_ns / (cpu.cores * window_ns)
    cores = f"{cpu.cores} core{'s' if cpu.cores > 1 else ''}"
    if percent > CLIENT_BOUND_PERCENT:
        message = f"the load generator used {percent:.0f} % of its {cores}"
    elif (cpu.busiest_worker_percent or 0) > CLIENT_BOUND_PERCENT:
        message = f"the busiest worker used {cpu.busiest_worker_percent:.0f} % of a core"
    elif (cpu.machine_busy_percent or 0) > CLIENT_BOUND_PERCENT:
        # The kernel's own threads do I/O too, and other programs take cores.
        message = f"all cores of this machine were {cpu.machine_busy_percent:.0f} % busy"
    else:
        return None
    return Flag(
        kind="client-bound", message=f"{message}: the target may be faster than this run shows"
    )


def _page_cache_flag(target: Target) -> Flag | None:
    if target.direct or target.is_null:
        return None
    return Flag(
        kind="page-cache",
        message="direct = false: memory may have served this I/O, not the device",
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


def _rate_flag(params: Params, outcome: RunOutcome) -> Flag | None:
    offered = params["rate_iops"]
    window_ns = outcome.window_end_ns - outcome.window_start_ns
    if offered is None or window_ns <= 0:
        return None
    done = _data_operations(outcome)
    late = sum(outcome.totals[op].late_operations for op in DATA if op in outcome.totals)
    achieved = done * NS_PER_S / window_ns
    due = offered * window_ns / NS_PER_S
    if achieved >= (1 - RATE_TOLERANCE) * offered and late <= RATE_TOLERANCE * due:
        return None
    return Flag(
        kind="open-loop-behind",
        message=f"{achieved:.6g} of {offered:.6g} operations per second were completed, and "
        f"{late:,} that were due in the window of {format_duration(window_ns)} ended after it",
    )


def _note_flag(outcome: RunOutcome) -> Flag | None:
    """What the engine said: one flag, because readers look up the rest in the run."""
    if not outcome.notes:
        return None
    return Flag(kind="engine-note", message="; ".join(outcome.notes))
