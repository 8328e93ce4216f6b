"""Metrics and flags that all families share, with definitions in docs/method.

A family names the operations that values over "all" include; others, such as flushes, are counted
separately. It also names the operations that transfer bytes. Percentiles are computed from merged
histograms and never averaged. Failed operations are counted in the metric of errors only.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Literal

from storlab._native import Histogram
from storlab.base.units import (
    GB,
    MB,
    NS_PER_S,
    exact_number,
    format_duration,
    format_latency,
    significant,
)
from storlab.model.result import (
    Concurrency,
    CpuUse,
    Flag,
    LatencySummary,
    Metric,
    Operation,
    OperationTotals,
    RunOutcome,
    Sample,
)
from storlab.model.target import Target

CONCURRENCY_TOLERANCE = 0.10
CLIENT_BOUND_PERCENT = 90.0
BUSY_MACHINE_PERCENT = 10.0  # of all cores, used by other programs
STARVED_PERCENT = 2.0  # of the window, spent waiting
RATE_TOLERANCE = 0.01
IN_FLIGHT_SHARE = 0.02  # of the due operations, tolerated in flight at the end of a window
UNFINISHED_SHARE = 0.001  # of all operations: the part that lies above p99.9
NOTES_SHOWN = 8  # in a flag's message; the run stores all notes
FLUSH: Operation = "sync"
RATE_SIGMAS = 3.0  # tolerance for the number of Poisson arrivals, in standard deviations

Quantity = Literal["latency", "intended", "ttfb"]
"""Kind of time: from submission or from the intended start to completion, or to the first byte."""
PREFIXES: dict[Quantity, str] = {
    "latency": "latency",
    "intended": "intended_latency",
    "ttfb": "ttfb",
}
_NOTHING = OperationTotals(operations=0, bytes=0)
_PERCENTILES = {"p50": 50.0, "p90": 90.0, "p99": 99.0, "p999": 99.9}


def window_ns(outcome: RunOutcome) -> int:
    """Return the length of the measure window in ns; 0 or less if the run has no whole window."""
    return outcome.window_end_ns - outcome.window_start_ns


def operations_done(outcome: RunOutcome, operations: Sequence[Operation]) -> int:
    """Return how many of these operations succeeded in the measure window."""
    return sum(outcome.totals[op].operations for op in operations if op in outcome.totals)


def bytes_moved(outcome: RunOutcome, moved: Sequence[Operation]) -> int:
    """Return the bytes that these operations transferred in the measure window."""
    return sum(outcome.totals[op].bytes for op in moved if op in outcome.totals)


def rate_metrics(
    outcome: RunOutcome,
    operations: Sequence[Operation],
    moved: Sequence[Operation],
    rate: str,
    asked: Collection[Operation] = (),
) -> Iterable[Metric]:
    """Yield ``throughput_mb_s`` and operations per second, for each operation and for all.

    Args:
        outcome: Outcome of a run with a measure window.
        operations: Operations of the family, all of which count in values over "all".
        moved: Operations whose bytes count in the throughput over "all".
        rate: Name of the metric of operations per second.
        asked: Operations that the study requests. If none of a kind succeeded, its rate is 0
            rather than missing, so that means over repeats add up to the total.
    """
    seconds = window_ns(outcome) / NS_PER_S
    counts = {op: outcome.totals.get(op) or _NOTHING for op in operations}
    scopes = [
        (operation, totals.operations, totals.bytes)
        for operation, totals in counts.items()
        if totals.operations or operation in asked
    ]
    every = operations_done(outcome, operations), bytes_moved(outcome, moved)
    for scope, count, size in [*scopes, ("all", *every)]:
        throughput = size / seconds / MB
        yield Metric(name="throughput_mb_s", value=throughput, unit="MB/s", operation=scope)
        yield Metric(name=rate, value=count / seconds, unit="1/s", operation=scope)


def span_ns(outcome: RunOutcome) -> dict[Operation, int]:
    """Add up by operation the time in ns of a run's spans (timed stages of one operation each)."""
    spent: dict[Operation, int] = {}
    for span in outcome.spans:
        spent[span.kind] = spent.get(span.kind, 0) + span.end_ns - span.start_ns
    return spent


def busy_rate_metrics(
    outcome: RunOutcome, busy_ns: Mapping[Operation, int], rate: str
) -> Iterable[Metric]:
    """Yield ``throughput_mb_s`` and operations per second of busy time, which excludes pauses.

    Args:
        outcome: Outcome of the run.
        busy_ns: Time that each operation took; values over "all" are relative to their sum.
        rate: Name of the metric of operations per second.
    """
    scopes: list[tuple[Operation, Sequence[Operation]]] = [(name, (name,)) for name in busy_ns]
    for scope, operations in [*scopes, ("all", tuple(busy_ns))]:
        seconds = sum(busy_ns[operation] for operation in operations) / NS_PER_S
        count = operations_done(outcome, operations)
        if seconds <= 0 or not count:
            continue
        throughput = bytes_moved(outcome, operations) / seconds / MB
        yield Metric(name="throughput_mb_s", value=throughput, unit="MB/s", operation=scope)
        yield Metric(name=rate, value=count / seconds, unit="1/s", operation=scope)


def flush_metrics(outcome: RunOutcome, rate: str) -> Iterable[Metric]:
    """Yield flushes per second as the metric ``rate``; nothing if the run had no flushes.

    Flushes never count in values over "all".
    """
    flushes = outcome.totals.get(FLUSH)
    if flushes is not None and flushes.operations:
        per_s = flushes.operations * NS_PER_S / window_ns(outcome)
        yield Metric(name=rate, value=per_s, unit="1/s", operation=FLUSH)


def time_metrics(
    outcome: RunOutcome,
    operations: Sequence[Operation],
    quantity: Quantity = "latency",
    *,
    over_all: bool = True,
) -> list[Metric]:
    """Return mean, p50 to p99.9 and maximum of a latency in ns, for each operation and for all.

    Values come from the engine's own summary if it counts every latency of the samples, because its
    mean and maximum are exact; otherwise from the samples' merged histograms. Without histograms,
    values over "all" exist only for a single operation.

    Args:
        outcome: Outcome of the run.
        operations: Operations that count in values over "all".
        quantity: Kind of latency, such as the time to first byte.
        over_all: Whether to add values over "all".
    """
    merged = _merged(outcome, quantity)
    summaries: dict[Operation, LatencySummary | Histogram] = {}
    for operation, totals in outcome.totals.items():
        summary = _summary(totals, quantity)
        histogram = merged.get(operation)
        recorded = histogram.count if histogram else 0
        if summary is not None and summary.count and recorded in (0, summary.count):
            summaries[operation] = summary
        elif histogram is not None and recorded:
            summaries[operation] = histogram
    known = [operation for operation in operations if operation in summaries]
    if over_all and len(known) == 1:
        summaries["all"] = summaries[known[0]]
    elif over_all and known and all(operation in merged for operation in known):
        summaries["all"] = _over_all(
            [summaries[operation] for operation in known], [merged[o] for o in known]
        )
    prefix = PREFIXES[quantity]
    metrics = [
        metric
        for scope, taken in summaries.items()
        for metric in _summary_metrics(prefix, scope, taken)
    ]
    if summaries or quantity != "latency":
        return metrics
    means = {op: mean for op in outcome.totals if (mean := mean_latency_ns(outcome.totals[op]))}
    if over_all and len(means) == 1:
        means["all"] = next(iter(means.values()))
    return [
        Metric(name=f"{prefix}_mean_ns", value=mean, unit="ns", operation=scope)
        for scope, mean in means.items()
    ]


def _over_all(
    parts: Sequence[LatencySummary | Histogram], merged: Sequence[Histogram]
) -> LatencySummary | Histogram:
    """Merge the latencies of several operations.

    If all parts have a summary with exact mean and extremes, the result has these, too.
    """
    overall = Histogram()
    for histogram in merged:
        overall.add(histogram)
    exact = [part for part in parts if isinstance(part, LatencySummary)]
    if len(exact) < len(parts):
        return overall
    low, high = min(part.min_ns for part in exact), max(part.max_ns for part in exact)
    count = sum(part.count for part in exact)
    return LatencySummary(
        count=count,
        mean_ns=sum(part.mean_ns * part.count for part in exact) / count,
        min_ns=low,
        max_ns=high,
        **{
            f"{name}_ns": max(low, min(high, overall.percentile(at)))
            for name, at in {**_PERCENTILES, "p9999": 99.99}.items()
        },
    )


def mean_latency_ns(totals: OperationTotals) -> float | None:
    """Return an operation's mean time from submission to completion; None if not reported."""
    if totals.latency_mean_ns is not None:
        return totals.latency_mean_ns
    return None if totals.latency is None else totals.latency.mean_ns


def _summary(totals: OperationTotals, quantity: Quantity) -> LatencySummary | None:
    by_quantity = {
        "latency": totals.latency,
        "intended": totals.intended,
        "ttfb": totals.ttfb,
    }
    return by_quantity[quantity]


def _histogram(sample: Sample, quantity: Quantity) -> bytes | None:
    by_quantity = {
        "latency": sample.latency,
        "intended": sample.intended,
        "ttfb": sample.ttfb,
    }
    return by_quantity[quantity]


def _merged(outcome: RunOutcome, quantity: Quantity) -> dict[Operation, Histogram]:
    """Merge the histograms of all intervals of the measure window, by kind of operation."""
    merged: dict[Operation, Histogram] = {}
    for sample in outcome.samples:
        data = _histogram(sample, quantity)
        if data:
            merged.setdefault(sample.operation, Histogram()).add(Histogram.from_v2(data))
    return merged


def _summary_metrics(
    prefix: str, scope: Operation, summary: LatencySummary | Histogram
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


def cpu_metrics(
    outcome: RunOutcome, operations: Sequence[Operation], per_operation: str
) -> Iterable[Metric]:
    """Yield the client's CPU use in percent of a core, and its CPU time per operation in us."""
    length = window_ns(outcome)
    if outcome.cpu is None or length <= 0:
        return
    used_ns = outcome.cpu.user_ns + outcome.cpu.system_ns
    done = operations_done(outcome, operations)
    yield Metric(name="cpu_percent", value=100 * used_ns / length, unit="%")
    if done:
        yield Metric(name=per_operation, value=used_ns / done / 1_000, unit="us")


def cpu_per_gb(
    cpu: CpuUse | None, moved_bytes: int, name: str = "cpu_s_per_gb"
) -> Iterable[Metric]:
    """Yield CPU seconds per GB moved, of client or server; nothing if either number is missing."""
    if cpu is not None and moved_bytes:
        used_s = (cpu.user_ns + cpu.system_ns) / NS_PER_S
        yield Metric(name=name, value=used_s / (moved_bytes / GB), unit="s/GB")


def implied_outstanding(outcome: RunOutcome, operations: Sequence[Operation]) -> float | None:
    """Return the mean number of operations in flight by Little's law: rate times mean latency.

    None if the latency of these operations is unknown.
    """
    length = window_ns(outcome)
    waited_ns = 0.0
    known = False
    for operation in operations:
        totals = outcome.totals.get(operation)
        mean_ns = None if totals is None else mean_latency_ns(totals)
        if totals is not None and mean_ns is not None:
            known = True
            waited_ns += totals.operations * mean_ns
    return waited_ns / length if known and length > 0 else None


def concurrency_metric(implied: float | None) -> list[Metric]:
    """Return the metric ``concurrency_effective``; an empty list if it is unknown."""
    if implied is None:
        return []
    return [Metric(name="concurrency_effective", value=implied, unit="1")]


def concurrency_flag(
    concurrency: Concurrency, outstanding: str, offered: float | None = None
) -> Flag | None:
    """Flag latencies that were measured at another concurrency than the configured one.

    Args:
        concurrency: Operations in flight, as configured and by Little's law.
        outstanding: Noun for the operations in the message, such as ``I/O``.
        offered: Rate of an open loop, which has no configured concurrency and so no flag.
    """
    if offered is not None or concurrency.implied is None or concurrency.configured <= 0:
        return None
    if abs(concurrency.implied / concurrency.configured - 1) <= CONCURRENCY_TOLERANCE:
        return None
    return Flag(
        kind="concurrency-mismatch",
        message=f"rate x mean latency is {significant(concurrency.implied, 3)} outstanding "
        f"{outstanding}, but {exact_number(concurrency.configured)} are configured: latencies "
        f"were measured at {significant(concurrency.implied, 3)}",
    )


def client_flag(outcome: RunOutcome) -> Flag | None:
    """Flag a run whose load generator or machine was near the limit of its CPU."""
    cpu, length = outcome.cpu, window_ns(outcome)
    if cpu is None or length <= 0 or cpu.cores <= 0:
        return None
    used_ns = cpu.user_ns + cpu.system_ns if cpu.worker_ns is None else cpu.worker_ns
    percent = 100 * used_ns / (cpu.cores * length)
    cores = f"{cpu.cores} core{'s' if cpu.cores > 1 else ''}"
    of_quota = quota_percent(outcome)
    if of_quota is not None and of_quota > CLIENT_BOUND_PERCENT:
        message = (
            f"the load generator used {of_quota:.0f} % of the {cpu.quota_cores:.3g} cores that its "
            "control group allows"
        )
    elif percent > CLIENT_BOUND_PERCENT:
        message = f"the load generator used {percent:.0f} % of its {cores}"
    elif (cpu.busiest_worker_percent or 0) > CLIENT_BOUND_PERCENT:
        message = f"the busiest worker used {cpu.busiest_worker_percent:.0f} % of a core"
    elif (cpu.machine_busy_percent or 0) > CLIENT_BOUND_PERCENT and not _is_crowded(outcome):
        message = f"all cores of this machine were {cpu.machine_busy_percent:.0f} % busy"
    else:
        return None
    return Flag(
        kind="client-bound", message=f"{message}: the target may be faster than this run shows"
    )


def quota_percent(outcome: RunOutcome) -> float | None:
    """Return how much of its control group's CPU quota a run used, in percent; None if unlimited.

    This includes the embedded S3 server, which is in the same control group.
    """
    cpu, length = outcome.cpu, window_ns(outcome)
    if cpu is None or not cpu.quota_cores or length <= 0:
        return None
    sides = [cpu] if outcome.server_cpu is None else [cpu, outcome.server_cpu]
    used_ns = sum(side.user_ns + side.system_ns for side in sides)
    return 100 * used_ns / (cpu.quota_cores * length)


def own_percent(outcome: RunOutcome) -> float | None:
    """Return the percentage of all cores that a run used, including the embedded S3 server."""
    cpu, length = outcome.cpu, window_ns(outcome)
    if cpu is None or not cpu.machine_cores or length <= 0:
        return None
    sides = [cpu] if outcome.server_cpu is None else [cpu, outcome.server_cpu]
    used_ns = sum(side.user_ns + side.system_ns for side in sides)
    return 100 * used_ns / (cpu.machine_cores * length)


def others_percent(outcome: RunOutcome) -> float | None:
    """Return the percentage of all cores that other programs used, without stolen time."""
    cpu, own = outcome.cpu, own_percent(outcome)
    if cpu is None or own is None or cpu.machine_busy_percent is None:
        return None
    return max(0.0, cpu.machine_busy_percent - (cpu.machine_steal_percent or 0.0) - own)


def _is_crowded(outcome: RunOutcome) -> bool:
    """Return whether other programs used more CPU time than the run."""
    others, own = others_percent(outcome), own_percent(outcome)
    return others is not None and own is not None and others > own


def wait_for_each_other(cpu: CpuUse, workers: int) -> bool:
    """Return whether workers waited for cores because there are more workers than cores."""
    waited = (cpu.longest_wait_percent or 0.0) >= STARVED_PERCENT
    return workers > cpu.cores and waited and not is_throttled(cpu)


def is_throttled(cpu: CpuUse) -> bool:
    """Return whether a control group's CPU quota stopped threads for a relevant time."""
    return (cpu.throttled_percent or 0.0) >= STARVED_PERCENT


def _clients(outcome: RunOutcome) -> int:
    return 1 if outcome.cluster is None else len(outcome.cluster.clients)


def _cores_of(outcome: RunOutcome) -> str:
    """Describe the cores that a run's CPU percentages are relative to, for messages."""
    clients = _clients(outcome)
    return "this machine's cores" if clients < 2 else f"the cores of all {clients:,} clients"


def _busiest(outcome: RunOutcome) -> str:
    """Return the names of the busiest other programs for a message; empty if unknown."""
    programs = (outcome.details.get("machine") or {}).get("programs") or {}
    texts = [f"{name} {percent:.0f} % of a core" for name, percent in programs.items()]
    return f" (busiest: {', '.join(texts)})" if texts else ""


def machine_flags(outcome: RunOutcome, workers: int = 0) -> Iterable[Flag]:
    """Yield flags if other programs used much CPU time, or if workers waited for cores.

    In a run with more workers than cores, workers must wait for each other. Their waits are flagged
    only if other programs may have used cores as well.

    Args:
        outcome: Outcome of the run.
        workers: Worker threads of the run; 0 if unknown.
    """
    others = others_percent(outcome)
    if others is not None and others >= BUSY_MACHINE_PERCENT:
        yield Flag(
            kind="busy-machine",
            message=f"other programs and threads of the kernel used {others:.0f} % of "
            f"{_cores_of(outcome)}{_busiest(outcome)}: the target may be faster than this run "
            "shows",
        )
    cpu = outcome.cpu
    if cpu is None:
        return
    waited, stolen = cpu.longest_wait_percent or 0.0, cpu.machine_steal_percent or 0.0
    sentences = []
    crowded = wait_for_each_other(cpu, workers)
    alone = others is not None and others < BUSY_MACHINE_PERCENT and stolen < STARVED_PERCENT
    if waited >= STARVED_PERCENT and not (crowded and alone):
        partly = f", partly because {workers:,} workers share {cpu.cores:,} cores"
        sentences.append(
            f"a worker waited for a core in {waited:.3g} % of the window{partly if crowded else ''}"
        )
    if stolen >= STARVED_PERCENT:
        owner = "this machine's host" if _clients(outcome) < 2 else "the hosts of the clients"
        sentences.append(f"{owner} took {stolen:.3g} % of the cores' time")
    if is_throttled(cpu) and cpu.throttled_percent is not None:
        quota = "" if cpu.quota_cores is None else f" ({cpu.quota_cores:.3g} cores)"
        sentences.append(
            f"the CPU quota of its control group{quota} stopped the load generator for "
            f"{cpu.throttled_percent:.3g} % of the window"
        )
    if sentences:
        yield Flag(
            kind="starved",
            message=f"{' and '.join(sentences)}, so throughput is understated and latencies "
            "include the waits",
        )


def rate_flag(
    offered: float | None,
    outcome: RunOutcome,
    operations: Sequence[Operation],
    arrival: str | None = None,
    in_flight: float = 0,
) -> Flag | None:
    """Flag an open loop that completed fewer operations than were due.

    Up to ``in_flight`` operations may be incomplete at the end of the window without being late.
    This tolerance is at most 2 % of the due operations, since a deep queue may hide a backlog. With
    Poisson arrivals it is larger, because fewer operations than the mean may be due by chance.

    Args:
        offered: Operations per second of the open loop; None for a closed loop.
        outcome: Outcome of the run.
        operations: Operations to count.
        arrival: Arrival process, ``constant`` or ``poisson``.
        in_flight: Largest possible number of operations in flight.
    """
    length = window_ns(outcome)
    if offered is None or length <= 0:
        return None
    done = operations_done(outcome, operations)
    late = sum(outcome.totals[op].late_operations for op in operations if op in outcome.totals)
    due = offered * length / NS_PER_S
    if done >= due - tolerated_backlog(due, in_flight, arrival) and late <= tolerated_backlog(
        due, in_flight
    ):
        return None
    ended = f"{late:,} that were due in the window of {format_duration(length)} ended after it"
    if done < due:
        ended = (
            f"{significant(done * NS_PER_S / length, 6)} of {significant(offered, 6)} operations "
            "per second were "
            f"completed, and {ended}"
        )
    return Flag(kind="open-loop-behind", message=ended)


def unfinished_flag(outcome: RunOutcome, operations: Sequence[Operation]) -> Flag | None:
    """Flag a closed loop if operations in flight at the window's end could raise p99.9.

    These operations are not in the histograms. They could raise p99.9 if they are at least 0.1 % of
    all operations of their kind, and the slowest of them took longer than p99.9.
    """
    clauses = []
    for operation in operations:
        totals = outcome.totals.get(operation)
        if totals is None or totals.latency is None or not totals.unfinished_operations:
            continue
        number, longest_ns = totals.unfinished_operations, totals.unfinished_longest_ns
        share = number / (totals.operations + number)
        if share >= UNFINISHED_SHARE and longest_ns > totals.latency.p999_ns:
            clauses.append(
                f"{operation}: {number:,} operations ({significant(100 * share, 2)} %) were in "
                "flight at the end of the window and are in no percentile; the longest took "
                f"{format_latency(longest_ns)}, p99.9 is {format_latency(totals.latency.p999_ns)}"
            )
    return Flag(kind="unfinished-operations", message="; ".join(clauses)) if clauses else None


def tolerated_backlog(due: float, in_flight: float, arrival: str | None = None) -> float:
    """Return how many of ``due`` operations may be late in an open loop that keeps its rate."""
    chance = RATE_SIGMAS * due**0.5 if arrival == "poisson" else 0.0
    return RATE_TOLERANCE * due + min(in_flight, max(1.0, IN_FLIGHT_SHARE * due)) + chance


def store_flags(target: Target) -> Iterable[Flag]:
    """Yield flags about the server of an S3 target, such as that its identity was not checked."""
    if target.is_embedded:
        yield Flag(
            kind="embedded-server",
            message="server and load generator share this machine's cores: this measures "
            "storlab's own small server, not a product",
        )
        yield Flag(
            kind="page-cache",
            message="the server reads and writes through the page cache: memory may have served "
            "these requests, not the drive",
        )
    options = target.s3_options
    encrypted = any(
        place.startswith("https:")
        for place in (target.s3 or "", *(options.endpoints if options else ()))
    )
    if options is not None and not options.verify_tls and encrypted:
        yield Flag(
            kind="tls-unverified",
            message="verify_tls = false: the server's identity was not checked",
        )


def note_flag(outcome: RunOutcome) -> Flag | None:
    """Return a flag with the first few notes of the engine; None if it has none."""
    if not outcome.notes:
        return None
    notes = list(dict.fromkeys(outcome.notes))  # an engine may report one bad object many times
    more = [f"and {len(notes) - NOTES_SHOWN} more"] if len(notes) > NOTES_SHOWN else []
    return Flag(kind="engine-note", message="; ".join([*notes[:NOTES_SHOWN], *more]))
