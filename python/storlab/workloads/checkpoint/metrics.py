"""Metrics and flags of checkpoint runs, with definitions in docs/method/checkpoint.md.

They are computed from ``details["writes"]`` and ``details["restores"]``, which have an entry with
times in ns and bytes for each checkpoint or restore. A run's times are means over its checkpoints.
Its rates are the sum of bytes divided by the sum of times.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence

from storlab.base.units import MB, NS_PER_S, format_bytes_si
from storlab.model.result import Concurrency, Flag, Metric, Operation, RunOutcome
from storlab.model.study import Target
from storlab.workloads.checkpoint.details import CheckpointDetails, CheckpointWrite, Moved, Restore
from storlab.workloads.checkpoint.interval import (
    daly_interval,
    of_whole,
    share_lost,
    share_lost_with_failures,
    young_interval,
)
from storlab.workloads.checkpoint.page import WORK, scale_text
from storlab.workloads.checkpoint.params import CheckpointParams
from storlab.workloads.common import metrics as common
from storlab.workloads.common.proof import PAGE_CACHE, Evidence, flags_by, layer_evidence

COLD_SHARE = 0.90  # smallest share of the bytes that the device must have counted
RESIDENT_SHARE = 0.01  # largest share of the bytes in the page cache before a cold restore


def run_concurrency(params: CheckpointParams, ranks: int, outcome: RunOutcome) -> Concurrency:
    """Return the concurrency as configured (ranks times I/O depth) and by Little's law.

    Little's law is applied to the time during which checkpoints were written or restored.
    """
    busy_ns = sum(_busy_ns(outcome).values())
    waited_ns = sum(
        totals.operations * totals.latency.mean_ns
        for operation in WORK
        if (totals := outcome.totals.get(operation)) is not None and totals.latency is not None
    )
    return Concurrency(
        configured=float(ranks * params.io_depth),
        implied=waited_ns / busy_ns if busy_ns > 0 and waited_ns else None,
    )


def run_metrics(params: CheckpointParams, ranks: int, outcome: RunOutcome) -> list[Metric]:
    """Compute all metrics of a run; empty if its measure window is empty."""
    if common.window_ns(outcome) <= 0:
        return []
    told = CheckpointDetails.of(outcome)
    return [
        *common.busy_rate_metrics(outcome, _busy_ns(outcome), "iops"),
        *_write_metrics(params, told.writes),
        *_restore_metrics(told.restores),
        *_lost_metrics(params, told),
        *common.time_metrics(outcome, WORK, "latency"),
        *common.cpu_metrics(outcome, WORK, "cpu_us_per_io"),
        *common.cpu_per_gb(outcome.cpu, common.bytes_moved(outcome, WORK)),
        *common.concurrency_metric(run_concurrency(params, ranks, outcome).implied),
    ]


def _busy_ns(outcome: RunOutcome) -> dict[Operation, int]:
    """Return the total time of checkpoints and of restores in ns, without pauses and deletions."""
    told = CheckpointDetails.of(outcome)
    return {
        "write": sum(write.durable_ns - write.start_ns for write in told.writes),
        "read": sum(restore.end_ns - restore.start_ns for restore in told.restores),
    }


def _seconds(pieces: Sequence[Moved]) -> list[float]:
    return [(piece.ended_ns - piece.start_ns) / NS_PER_S for piece in pieces]


def _time_and_rate(name: str, seconds: Sequence[float], moved: int) -> Iterable[Metric]:
    if not seconds:
        return
    yield _metric(f"{name}_time_s", _mean(seconds), "s")
    total = math.fsum(seconds)
    if total > 0:
        yield _metric(f"{name}_mb_s", moved / total / MB, "MB/s")


def _write_metrics(params: CheckpointParams, writes: Sequence[CheckpointWrite]) -> Iterable[Metric]:
    written = [(w.written_ns - w.start_ns, w.bytes) for w in writes if w.written_ns is not None]
    lengths = [length / NS_PER_S for length, _ in written]
    yield from _time_and_rate("write", lengths, sum(size for _, size in written))
    if params.sync == "fsync":
        seconds = _seconds(writes)
        yield from _time_and_rate("durable", seconds, sum(write.bytes for write in writes))
        if seconds:
            yield _metric("durable_time_max_s", max(seconds), "s")
    yield from _slowest(writes, "slowest_rank")
    yield from _device_ratio(writes, "write_device_ratio")


def _restore_metrics(restores: Sequence[Restore]) -> Iterable[Metric]:
    moved = sum(restore.bytes for restore in restores)
    yield from _time_and_rate("restore", _seconds(restores), moved)
    yield from _slowest(restores, "restore_slowest_rank")
    yield from _device_ratio(restores, "restore_device_ratio")


def _slowest(pieces: Sequence[Moved], name: str) -> Iterable[Metric]:
    """Yield the longest time and the lowest rate of any rank, as means over checkpoints."""
    times, rates = [], []
    for piece in pieces:
        own = [(rank.end_ns - rank.start_ns, rank.bytes) for rank in piece.ranks]
        if own:
            times.append(max(length for length, _ in own) / NS_PER_S)
        moved = [size * NS_PER_S / length / MB for length, size in own if length > 0 and size > 0]
        if moved:
            rates.append(min(moved))
    if times:
        yield _metric(f"{name}_time_s", _mean(times), "s")
    if rates:
        yield _metric(f"{name}_mb_s", _mean(rates), "MB/s")


def _device_ratio(pieces: Sequence[Moved], name: str) -> Iterable[Metric]:
    ratio = device_share(pieces)
    if ratio is not None:
        yield _metric(name, ratio, "1")


def device_share(pieces: Sequence[Moved]) -> float | None:
    """Return the bytes that the device counted per byte of checkpoints; None if not counted."""
    known = [(counted, m.bytes) for m in pieces if (counted := m.device_bytes) is not None]
    moved = sum(size for _, size in known)
    return sum(counted for counted, _ in known) / moved if moved else None


def _lost_metrics(params: CheckpointParams, told: CheckpointDetails) -> Iterable[Metric]:
    """Yield the modelled loss of training time and the optimal intervals.

    If checkpoints were scaled down, the values are for whole ones at an equal rate.
    """
    stops = _seconds(told.writes)
    if not stops or _mean(stops) <= 0:
        return
    cost = of_whole(_mean(stops), params.scale)
    interval = params.training_interval / NS_PER_S
    yield _modelled("training_share_lost_percent", 100 * share_lost(cost, interval), "%")
    if params.mtbf is None:
        return
    mtbf = params.mtbf / NS_PER_S
    yield _modelled("optimal_interval_young_s", young_interval(cost, mtbf), "s")
    daly = daly_interval(cost, mtbf)
    yield _modelled("optimal_interval_daly_s", daly, "s")
    restarts = _seconds(told.restores)
    if not restarts:
        return
    for name, at in (
        ("training_share_lost_with_failures_percent", interval),
        ("training_share_lost_at_optimum_percent", daly),
    ):
        restart = of_whole(_mean(restarts), params.scale)
        lost = share_lost_with_failures(cost, at, mtbf, restart)
        yield _modelled(name, 100 * lost, "%")


def _mean(values: Sequence[float]) -> float:
    return math.fsum(values) / len(values)


def _metric(name: str, value: float, unit: str) -> Metric:
    return Metric(name=name, value=value, unit=unit)


def _modelled(name: str, value: float, unit: str) -> Metric:
    return Metric(name=name, value=value, unit=unit, provenance="modelled")


def run_flags(
    params: CheckpointParams, ranks: int, target: Target, outcome: RunOutcome
) -> list[Flag]:
    """Return the flags of a run: warnings that a brief shows beside its numbers."""
    makers: list[Callable[[], Flag | None]] = [
        lambda: _scaled_flag(params),
        lambda: _durable_flag(params, outcome),
        lambda: _damage_flag(outcome),
        lambda: common.client_flag(outcome),
        lambda: common.note_flag(outcome),
    ]
    flags = [flag for make in makers if (flag := make()) is not None]
    flags += flags_by(medium_evidence(params, target, outcome))
    return [*flags, *common.machine_flags(outcome, ranks), *common.store_flags(target)]


def _scaled_flag(params: CheckpointParams) -> Flag | None:
    text = scale_text(params.scale)
    if not text:
        return None
    return Flag(
        kind="scaled",
        message=f"{text}: files have only that fraction of their size, so times are not those of "
        "whole checkpoints. The training time lost is modelled for whole ones, at an equal rate",
    )


def _durable_flag(params: CheckpointParams, outcome: RunOutcome) -> Flag | None:
    if params.sync == "none":
        return Flag(
            kind="not-durable",
            message='sync = "none": nothing was flushed, so a power failure could have destroyed '
            "checkpoints that were reported as written",
        )
    share = device_share(CheckpointDetails.of(outcome).writes)
    if share is None or share >= COLD_SHARE:
        return None
    return Flag(
        kind="not-durable",
        message=f"the device had counted only {100 * share:.0f} % of the bytes when files had been "
        "flushed: the flush did not write them, or the device's counter misses writes",
    )


def medium_evidence(
    params: CheckpointParams, target: Target, outcome: RunOutcome
) -> Iterator[Evidence]:
    """Yield all evidence that a cache, not the medium, may have stored or returned checkpoints."""
    told = CheckpointDetails.of(outcome)
    if params.cold != "as_is":
        yield from _warm_restores(told.restores)
    if target.s3 is None and not target.direct and not told.page_cache_unknown:
        text = "checkpoints were written through the page cache (direct = false)"
        yield Evidence(PAGE_CACHE, "unproven", text)
    if params.restores and params.cold == "as_is":
        text = 'restores may have read from the page cache (cold = "as_is")'
        yield Evidence(PAGE_CACHE, "unproven", text)
    shares = [device_share(pieces) for pieces in (told.writes, told.restores) if pieces]
    yield from layer_evidence(outcome, counted=None not in shares)


def _warm_restores(restores: Sequence[Restore]) -> Iterator[Evidence]:
    """Yield evidence that memory served restores that should have read from the medium."""
    share = device_share(restores)
    moved = sum(restore.bytes for restore in restores)
    resident = sum(restore.resident_before_bytes or 0 for restore in restores)
    if resident > RESIDENT_SHARE * moved:
        size = f"{format_bytes_si(resident)} of {format_bytes_si(moved)}"
        text = f"{size} lay in memory before it was read"
        yield Evidence("restore-not-cold", "contradicted", text)
    if share is not None and share < COLD_SHARE:
        text = f"the device counted {100 * share:.0f} % of the bytes that were read"
        yield Evidence("restore-not-cold", "contradicted", text)


def _damage_flag(outcome: RunOutcome) -> Flag | None:
    failure = outcome.failure
    if failure is None or failure.operation != "verify":
        return None
    return Flag(kind="verify-failed", message=failure.message)
