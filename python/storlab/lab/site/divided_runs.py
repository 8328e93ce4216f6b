"""Merge of runs whose clients divide one work: windows, spans, details and live snapshots.

A window lasts until the last client is done.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from statistics import fmean
from typing import Any

from storlab import _native
from storlab.base.units import format_bytes_si
from storlab.cluster.offsets import ClockOffset
from storlab.cluster.task import ClientPlace
from storlab.contracts.family import ClientDetails
from storlab.contracts.registry import FAMILIES
from storlab.lab.site.report import ClientReport
from storlab.model.result import RunOutcome, Sample, Snapshot, Span


def windows(clients: Sequence[tuple[RunOutcome, ClockOffset]]) -> tuple[int, int]:
    """Return the first client's start and the last client's end, on the controller's clock."""
    starts = [clock.controller_ns(outcome.window_start_ns) for outcome, clock in clients]
    ends = [clock.controller_ns(outcome.window_end_ns) for outcome, clock in clients]
    return min(starts), max(ends)


def first_done_ns(clients: Sequence[tuple[RunOutcome, ClockOffset]]) -> int:
    """Return when the first client was done with its share, on the controller's clock."""
    return min(clock.controller_ns(outcome.window_end_ns) for outcome, clock in clients)


def bytes_until(moment_ns: int, samples: Iterable[Sample], clock: ClockOffset) -> float:
    """Return the bytes a client had transferred by then, with a share of the current interval."""
    moved = 0.0
    for sample in samples:
        begin, end = (clock.controller_ns(t) for t in (sample.start_ns, sample.end_ns))
        moved += sample.bytes * min(1.0, max(0, moment_ns - begin) / max(1, end - begin))
    return moved


def stretched(
    outcome: RunOutcome, clock: ClockOffset, window: tuple[int, int], interval_ns: int
) -> RunOutcome:
    """Extend a client that is done to the end of the common window, with empty intervals."""
    start_ns, end_ns = (clock.client_ns(moment) for moment in window)
    samples = [*outcome.samples, *_idle(outcome.samples, start_ns, end_ns, interval_ns)]
    return replace(outcome, window_start_ns=start_ns, window_end_ns=end_ns, samples=samples)


def _idle(
    samples: Sequence[Sample], start_ns: int, end_ns: int, interval_ns: int
) -> Iterator[Sample]:
    if not samples:
        return
    last = max(samples, key=lambda sample: sample.interval)
    nothing = bytes(_native.Histogram().to_v2())
    for interval in range(last.interval + 1, -(-(end_ns - start_ns) // interval_ns)):
        begin_ns = start_ns + interval * interval_ns
        yield replace(
            last,
            interval=interval,
            start_ns=begin_ns,
            end_ns=min(begin_ns + interval_ns, end_ns),
            operations=0,
            bytes=0,
            latency=nothing,
            intended=None,
            worker_cpu_ns=0,
            ttfb=None,
            errors=0,
        )


def spans_of(clients: Sequence[tuple[RunOutcome, ClockOffset]]) -> list[Span]:
    """Return the spans that all clients have, from the first start to the last end."""
    by_name: dict[tuple[str, str], list[Span]] = {}
    for outcome, clock in clients:
        for span in outcome.spans:
            moved = {
                "start_ns": clock.controller_ns(span.start_ns),
                "end_ns": clock.controller_ns(span.end_ns),
            }
            same = by_name.setdefault((span.kind, span.name), [])
            same.append(span.model_copy(update=moved))
    spans = [
        same[0].model_copy(
            update={
                "start_ns": min(span.start_ns for span in same),
                "end_ns": max(span.end_ns for span in same),
                "bytes": sum(span.bytes for span in same),
            }
        )
        for same in by_name.values()
        if len(same) == len(clients)
    ]
    return sorted(spans, key=lambda span: span.start_ns)


def whole_details(
    kind: str, clients: Sequence[tuple[ClientPlace, ClientReport, ClockOffset]]
) -> dict[str, Any] | None:
    """Return the details as the family merges them; None if it does not."""
    family = FAMILIES[kind]
    parts = [
        ClientDetails(
            place.name, place.host, clock.offset_ns, report.outcome.details, report.memory_bytes
        )
        for place, report, clock in clients
        if report.outcome is not None
    ]
    merged = family.merge_details(parts)
    if merged is None or not family.pieces_word:
        return merged
    meetings = [(clock, report.meetings) for _, report, clock in clients]
    return {**merged, "meetings": meeting_times(meetings)}


def meeting_times(
    clients: Sequence[tuple[ClockOffset, Sequence[tuple[int, int, int]]]],
) -> Mapping[str, Any] | None:
    """Return the latency of messages between clients, or None if there were none.

    The latency lasts from the last client's announcement that it will be ready until the last
    client has the answer. ``waited_ns`` is the part after all clients were ready, during which work
    stood still.
    """
    count = min((len(met) for _, met in clients), default=0)
    if not count:
        return None
    latencies, waits = [], []
    for number in range(count):
        held = [(clock, met[number]) for clock, met in clients]
        asked_ns = max(clock.controller_ns(announced) for clock, (announced, _, _) in held)
        told_ns = max(clock.controller_ns(told) for clock, (_, told, _) in held)
        latencies.append(max(0, told_ns - asked_ns))
        ready_ns = max(clock.controller_ns(ready) for clock, (_, _, ready) in held)
        waits.append(max(0, told_ns - max(asked_ns, ready_ns)))
    return {
        "count": count,
        "mean_ns": round(fmean(latencies)),
        "max_ns": max(latencies),
        "waited_ns": sum(waits),
    }


def whole_snapshot(live: dict[str, Any]) -> Snapshot:
    """Return the sums over all active clients, naming the slowest one."""
    clients: dict[str, dict[str, Any]] = live["clients"]
    going = {name: client for name, client in clients.items() if not client.get("ended")}
    bytes_s = _sum_known(going, "bytes_s")
    by = "bytes_s" if bytes_s else "operations_s"
    told = _sum_known(going, by) is not None
    rates = {n: c.get(by) or 0.0 for n, c in going.items()} if told else {}
    phases = [c.get("phase") for c in going.values()]
    loading = [p for p in phases if p in ("ramp", "measure", "drain")]
    begun = loading or ["drain" for c in clients.values() if c.get("ended")]
    longest = max((c.get("elapsed_ns") or 0 for c in clients.values()), default=0)
    lengths = [c["phase_ns"] for c in clients.values() if c.get("phase_ns")]
    flushes = [c["flush_p99_ns"] for c in going.values() if c.get("flush_p99_ns")]
    latencies = [c["latency_p99_ns"] for c in going.values() if c.get("latency_p99_ns")]
    slowest = min(rates, key=lambda name: rates[name]) if loading and len(rates) > 1 else ""
    note = f"slowest {slowest}: {_rate(by, rates[slowest])}" if slowest else live["phase"]
    return Snapshot(
        phase=min(begun, key=("ramp", "measure", "drain").index, default="prepare"),
        elapsed_ns=longest if begun else 0,
        phase_ns=max(lengths, default=None) if begun else None,
        operations_s=_sum_known(going, "operations_s"),
        bytes_s=bytes_s,
        latency_p99_ns=max(latencies, default=None),
        flush_p99_ns=max(flushes, default=None),
        cpu_percent=_sum_known(going, "cpu_percent"),
        note=note,
        latency_bins=_whole_bins(going.values()),
    )


def _rate(by: str, rate: float) -> str:
    return f"{format_bytes_si(rate)}/s" if by == "bytes_s" else f"{rate:,.0f} operations/s"


def _sum_known(clients: dict[str, dict[str, Any]], name: str) -> float | None:
    """Return the sum over the clients that have the value; None if no client has it."""
    known = [c[name] for c in clients.values() if c.get(name) is not None]
    return sum(known) if known else None


def _whole_bins(clients: Iterable[dict[str, Any]]) -> list[list[int]]:
    """Return the latency bins of all clients together."""
    whole: Counter[int] = Counter()
    for client in clients:
        whole.update(dict(client.get("latency_bins") or ()))
    return [[place, count] for place, count in sorted(whole.items())]
