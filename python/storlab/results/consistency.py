"""Check a stored run for impossible values, and for values that contradict each other."""

from __future__ import annotations

import math
from base64 import b64decode
from collections.abc import Iterator, Mapping
from datetime import datetime
from itertools import pairwise

from storlab.base.units import MB, NS_PER_S, format_duration, significant
from storlab.contracts.registry import FAMILIES
from storlab.model.latencies import latencies_of
from storlab.model.result import LatencySummary, RunRecord

_TOLERANCE = 1e-6  # relative difference of two ways to sum the same numbers
_BUCKET = 0.02  # relative width of the coarsest histogram buckets, those of fio
_SLACK_NS = NS_PER_S  # allowed excess: clocks of clients differ, and windows are whole intervals
# Units of metrics that cannot be negative. W and J are left out, because net energy can be.
_NEVER_NEGATIVE = ("ns", "us", "s", "1/s", "MB/s", "1")
_ORDER = ("p50", "p90", "p99", "p999", "p9999", "max")

_Latencies = Mapping[tuple[str, str], Mapping[str, float]]
"""Statistic (mean, p99, ...) to value in ns, by quantity (latency, ttfb, ...) and operation."""


def contradiction(record: RunRecord, ramp_ns: int) -> str | None:
    """Return the first impossible or contradictory value of a run, as a sentence, or None.

    Args:
        record: Record of the run. A failed run has no metrics and is not checked.
        ramp_ns: Length of the ramp before the measure window, in which operations may have begun.
    """
    if record.status != "finished":
        return None
    return next(_every(record, ramp_ns), None)


def _every(record: RunRecord, ramp_ns: int) -> Iterator[str]:
    """Yield contradictions in a run, in its groups, and between run and groups."""
    yield from _contradictions(record, ramp_ns)
    for name in record.groups:
        part = record.of_group(name, record.workload, record.params)
        yield from (f"groups.{name}: {text}" for text in _contradictions(part, ramp_ns))
    for operation, totals in record.totals.items() if record.groups else ():
        for field in ("operations", "bytes"):
            of_groups = [
                g.totals[operation] for g in record.groups.values() if operation in g.totals
            ]
            together = sum(getattr(own, field) for own in of_groups)
            if together != getattr(totals, field):
                yield (
                    f"totals.{operation}.{field} is {getattr(totals, field):,}, but the groups of "
                    f"jobs have {together:,} together"
                )


def _contradictions(record: RunRecord, ramp_ns: int) -> Iterator[str]:
    for metric in record.metrics:
        if metric.value < 0 and metric.unit in _NEVER_NEGATIVE:
            value = f"{significant(metric.value, 6)} {metric.unit}"
            yield f"{metric.name} of {metric.operation} is {value}, but cannot be negative"
    if not record.metrics and any(totals.operations for totals in record.totals.values()):
        yield "metrics: missing, although operations completed"
    try:
        datetime.fromisoformat(record.started_at)
    except ValueError:
        yield f'started_at: "{record.started_at}" is not a time (ISO 8601)'
    if record.window_end_ns < record.window_start_ns:
        yield "window_end_ns: it lies before window_start_ns"
    yield from _totals(record)
    latencies = _latencies(record)
    for (time, operation), values in latencies.items():
        names = {statistic: f"{time}_{statistic}_ns of {operation}" for statistic in values}
        yield from _disorder(values, names)
        yield from _too_long(values, names, record, ramp_ns)
    yield from _summaries(record, ramp_ns)
    yield from _histograms(record, latencies)
    yield from _overall(record, latencies)


def _latencies(record: RunRecord) -> _Latencies:
    latencies: dict[tuple[str, str], dict[str, float]] = {}
    for metric in record.metrics:
        if metric.unit == "ns":
            time, _, statistic = metric.name.removesuffix("_ns").rpartition("_")
            latencies.setdefault((time, metric.operation), {})[statistic] = metric.value
    return latencies


def _summaries(record: RunRecord, ramp_ns: int) -> Iterator[str]:
    for operation, totals in record.totals.items():
        for time in ("latency", "intended", "ttfb"):
            summary: LatencySummary | None = getattr(totals, time)
            if summary is None or not summary.count:
                continue
            values = {name: getattr(summary, f"{name}_ns") for name in ("min", *_ORDER, "mean")}
            names = {name: f"totals.{operation}.{time}.{name}_ns" for name in values}
            yield from _disorder(values, names)
            yield from _too_long(values, names, record, ramp_ns)
        if totals.latency is None and totals.latency_mean_ns is not None:
            name = f"totals.{operation}.latency_mean_ns"
            yield from _too_long({"mean": totals.latency_mean_ns}, {"mean": name}, record, ramp_ns)


def _disorder(values: Mapping[str, float], names: Mapping[str, str]) -> Iterator[str]:
    """Yield a sentence for each percentile below a lower one, and each mean outside min and max."""
    known = [name for name in ("min", *_ORDER) if name in values]
    pairs = list(pairwise(known))
    if "mean" in values:
        pairs += [(low, high) for low, high in (("min", "mean"), ("mean", "max"))]
    for low, high in pairs:
        if low in values and high in values and values[low] > values[high] * (1 + _BUCKET) + 1:
            yield (
                f"{names[high]} is {significant(values[high], 6)} ns, less than {names[low]} "
                f"({significant(values[low], 6)} ns)"
            )


def _too_long(
    values: Mapping[str, float], names: Mapping[str, str], record: RunRecord, ramp_ns: int
) -> Iterator[str]:
    """Yield a sentence for each latency that is longer than ramp, window and drain together.

    In a closed loop, an operation starts in the ramp or later and ends in the window. In an open
    loop, it is due in the window and ends, times out or is abandoned in the drain. Imported runs
    are not checked, because their window may be only a part of the load.
    """
    if record.wall_at_start_ns is None:
        return
    window_ns = record.window_end_ns - record.window_start_ns
    if record.cluster is not None and record.cluster.window_kept > 0:
        window_ns = round(window_ns / record.cluster.window_kept)
    load_ns = ramp_ns + window_ns + record.drain_ns
    for statistic, value in values.items():
        if value > load_ns * (1 + _BUCKET) + _SLACK_NS:
            yield (
                f"{names[statistic]} is {significant(value, 6)} ns, longer than the whole load "
                f"(ramp, window and drain: {format_duration(load_ns)})"
            )


def _histograms(record: RunRecord, latencies: _Latencies) -> Iterator[str]:
    """Yield a sentence for each latency metric that differs from the stored histogram's value."""
    stored = [
        (time, operation, text)
        for time, own in record.histograms.items()
        for operation, text in own.items()
        if (time, operation) in latencies
    ]
    try:
        columns = latencies_of(b64decode(text, validate=True) for *_, text in stored)
    except ValueError as error:
        yield f"histograms: a latency histogram cannot be decoded ({error})"
        return
    for (time, operation, _), *figures in zip(stored, *columns, strict=True):
        values = latencies[time, operation]
        for statistic, expected in zip(("mean", "p50", "p99", "max"), figures, strict=True):
            value = values.get(statistic, expected)
            if not math.isclose(value, expected, rel_tol=_BUCKET, abs_tol=1):
                yield (
                    f"{time}_{statistic}_ns of {operation} is {significant(value, 6)} ns, "
                    f"but its histogram gives {significant(expected, 6)} ns"
                )


def _overall(record: RunRecord, latencies: _Latencies) -> Iterator[str]:
    """Yield a sentence for each overall latency that lies outside the range of its operations.

    For example, the median over all operations must lie between the medians of reads and writes. It
    is not checked if an operation of the run lacks it, as in some imported files.
    """
    if record.kind not in FAMILIES:
        return
    done = [
        operation
        for operation in FAMILIES[record.kind].page.operations.main
        if operation in record.totals and record.totals[operation].operations
    ]
    for (time, scope), values in latencies.items():
        if scope != "all":
            continue
        for statistic, value in values.items():
            own = [latencies.get((time, operation), {}).get(statistic) for operation in done]
            known = [value for value in own if value is not None]
            if not known or len(known) < len(own):
                continue
            low, high = min(known), max(known)
            if not (low * (1 - _BUCKET) - 1 <= value <= high * (1 + _BUCKET) + 1):
                yield (
                    f"{time}_{statistic}_ns of all operations is {significant(value, 6)} ns, "
                    f"but must lie between those of the single operations, "
                    f"{significant(low, 6)} and {significant(high, 6)} ns"
                )


def _totals(record: RunRecord) -> Iterator[str]:
    """Yield a sentence for each rate that differs from the window's total divided by its length.

    Workloads of fixed work define these metrics in other ways; the audit checks them.
    """
    if record.kind not in FAMILIES:
        return
    family = FAMILIES[record.kind]
    window_s = (record.window_end_ns - record.window_start_ns) / NS_PER_S
    if family.fixed_work or window_s <= 0 or not record.totals:
        return
    page = family.page
    for metric in record.metrics:
        if metric.name not in ("throughput_mb_s", page.operations.rate.name):
            continue
        chosen = {
            operation: totals
            for operation, totals in record.totals.items()
            if metric.operation in ("all", operation)
        }
        if metric.name == "throughput_mb_s":
            moved = page.operations.moved if metric.operation == "all" else (metric.operation,)
            expected = sum(t.bytes for op, t in chosen.items() if op in moved) / window_s / MB
        else:
            # Flushes do not count in the rate of all operations, but have a rate of their own.
            counted = page.operations.main if metric.operation == "all" else (metric.operation,)
            expected = sum(t.operations for op, t in chosen.items() if op in counted) / window_s
        if not math.isclose(metric.value, expected, rel_tol=_TOLERANCE, abs_tol=_TOLERANCE):
            yield (
                f"{metric.name} of {metric.operation} is {significant(metric.value, 6)} "
                f"{metric.unit}, but the totals of the run give {significant(expected, 6)}"
            )
