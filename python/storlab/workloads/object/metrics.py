"""Metrics, effective concurrency and flags of a run of object requests.

docs/method/object.md defines them. Failed requests count only in ``errors`` and ``error_percent``,
but not in rates, bytes or histograms.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable

from storlab.base.units import significant
from storlab.model.result import Concurrency, Flag, Metric, Operation, RunOutcome
from storlab.model.study import Target
from storlab.workloads.common import metrics as common
from storlab.workloads.object.details import ObjectDetails
from storlab.workloads.object.endpoints import uneven_flag
from storlab.workloads.object.job import OBJECT_OPERATIONS
from storlab.workloads.object.page import MOVED, WORDS
from storlab.workloads.object.params import ObjectParams
from storlab.workloads.object.rules import shares

FIRST_BYTE: tuple[Operation, ...] = ("get",)  # the response to a PUT has no relevant body
MIX_SIGMAS = 4.0
SHOWN_KINDS = 5  # kinds of errors in a flag's message; the run stores all
_DAMAGED = ("wrong body",)  # a short body counts as an error of the connection, not as damage


def run_concurrency(params: ObjectParams, outcome: RunOutcome) -> Concurrency:
    """Return the requests in flight, as configured and (successful ones) by Little's law."""
    return Concurrency(
        configured=float(params.concurrency),
        implied=common.implied_outstanding(outcome, OBJECT_OPERATIONS),
    )


def run_metrics(params: ObjectParams, outcome: RunOutcome) -> list[Metric]:
    """Compute all metrics of a run; empty if its measure window is empty."""
    if common.window_ns(outcome) <= 0:
        return []
    return [
        *common.rate_metrics(outcome, OBJECT_OPERATIONS, MOVED, "requests_s", _asked(params)),
        *common.time_metrics(outcome, OBJECT_OPERATIONS, "latency"),
        *common.time_metrics(outcome, OBJECT_OPERATIONS, "intended"),
        *_first_byte(outcome),
        *_errors(outcome),
        *common.cpu_metrics(outcome, OBJECT_OPERATIONS, "cpu_us_per_request"),
        *_cpu_per_gb(outcome),
        *common.concurrency_metric(run_concurrency(params, outcome).implied),
    ]


def _asked(params: ObjectParams) -> set[str]:
    return {kind for load in params.loads().values() for kind in shares(load)}


def _first_byte(outcome: RunOutcome) -> Iterable[Metric]:
    metrics = common.time_metrics(outcome, FIRST_BYTE, "ttfb", over_all=False)
    return (metric for metric in metrics if metric.operation in FIRST_BYTE)


def _failed(outcome: RunOutcome, operation: Operation) -> int:
    totals = outcome.totals.get(operation)
    return 0 if totals is None else sum(totals.errors.values())


def _errors(outcome: RunOutcome) -> Iterable[Metric]:
    counts = [
        (operation, _failed(outcome, operation), outcome.totals[operation].operations)
        for operation in OBJECT_OPERATIONS
        if operation in outcome.totals
    ]
    counts = [count for count in counts if count[1] + count[2]]
    every = ("all", sum(c[1] for c in counts), sum(c[2] for c in counts))
    for scope, failed, done in [*counts, every]:
        yield Metric(name="errors", value=failed, unit="1", operation=scope)
        if failed + done:
            percent = 100 * failed / (failed + done)
            yield Metric(name="error_percent", value=percent, unit="%", operation=scope)


def _cpu_per_gb(outcome: RunOutcome) -> Iterable[Metric]:
    """Yield CPU seconds per GB of the client, and of the embedded S3 server if it was used."""
    moved = common.bytes_moved(outcome, MOVED)
    yield from common.cpu_per_gb(outcome.cpu, moved)
    yield from common.cpu_per_gb(outcome.server_cpu, moved, "server_cpu_s_per_gb")


def run_flags(params: ObjectParams, target: Target, outcome: RunOutcome) -> list[Flag]:
    """Return the flags of a run: warnings that a brief shows beside its numbers."""
    # With groups, flags about the load are those of each group.
    of_load = [] if params.group else [*_load_flags(params, outcome)]
    threads = sum(load.threads or 0 for load in params.loads().values())
    flags = [
        *of_load,
        _damage_flag(outcome),
        common.client_flag(outcome),
        *common.machine_flags(outcome, threads),
        uneven_flag(outcome),
        *common.store_flags(target),
        common.note_flag(outcome),
    ]
    return [flag for flag in flags if flag is not None]


def _load_flags(params: ObjectParams, outcome: RunOutcome) -> list[Flag | None]:
    return [
        _error_flag(params, outcome),
        _concurrency_flag(params, outcome),
        common.rate_flag(
            params.rate_requests,
            outcome,
            OBJECT_OPERATIONS,
            params.arrival,
            params.concurrency,
        ),
        common.unfinished_flag(outcome, OBJECT_OPERATIONS),
        _mix_flag(params, outcome),
        _payload_flag(params),
    ]


def _error_flag(params: ObjectParams, outcome: RunOutcome) -> Flag | None:
    kinds: Counter[str] = Counter()
    for operation in OBJECT_OPERATIONS:
        if operation in outcome.totals:
            kinds.update(outcome.totals[operation].errors)
    failed = kinds.total()
    if not failed:
        return None
    every = failed + common.operations_done(outcome, OBJECT_OPERATIONS)
    shown = [f"{count:,} {kind}" for kind, count in kinds.most_common(SHOWN_KINDS)]
    rest = failed - sum(count for _, count in kinds.most_common(SHOWN_KINDS))
    if rest:
        shown.append(f"{rest:,} of other kinds")
    # With retries, one request can have several attempts, and each failed attempt is counted.
    noun = "attempts" if params.retries else "requests"
    return Flag(
        kind="errors",
        message=f"{failed:,} of {every:,} {noun} failed ({_percent(failed, every)} %): "
        f"{', '.join(shown)}",
    )


def _percent(part: int, whole: int) -> str:
    percent = 100 * part / whole
    return f"{percent:.0f}" if percent >= 10 else significant(percent, 2)


def _damage_flag(outcome: RunOutcome) -> Flag | None:
    totals = outcome.totals.get("get")
    bad = (
        {kind: totals.errors[kind] for kind in _DAMAGED if kind in totals.errors} if totals else {}
    )
    if not totals or not any(bad.values()):
        return None
    every = totals.operations + sum(totals.errors.values())
    text = ", ".join(f"{count:,} {kind}" for kind, count in bad.items())
    examples = ObjectDetails.of(outcome).error_examples
    text += "".join(f"; {examples[kind]}" for kind in bad if kind in examples)
    return Flag(
        kind="verify-failed",
        message=f"some of {every:,} GETs returned other data than had been written: {text}",
    )


def _concurrency_flag(params: ObjectParams, outcome: RunOutcome) -> Flag | None:
    concurrency = run_concurrency(params, outcome)
    flag = common.concurrency_flag(concurrency, "requests", params.rate_requests)
    if flag is None or not any(_failed(outcome, op) for op in OBJECT_OPERATIONS):
        return flag
    return Flag(kind=flag.kind, message=f"{flag.message}; failed requests are not included")


def _mix_flag(params: ObjectParams, outcome: RunOutcome) -> Flag | None:
    """Flag a run whose percentages of requests differ from the study's by more than chance."""
    requests = {
        op: outcome.totals[op].operations + _failed(outcome, op)
        for op in OBJECT_OPERATIONS
        if op in outcome.totals
    }
    every = sum(requests.values())
    retried = params.retries and any(_failed(outcome, op) for op in OBJECT_OPERATIONS)
    if params.concurrency_per_operation is not None or not every or retried:
        return None
    off: list[str] = []
    asked = shares(params)
    for kind in OBJECT_OPERATIONS:
        share = asked.get(kind, 0.0) / 100
        scatter = MIX_SIGMAS * math.sqrt(every * share * (1 - share))
        # Requests in flight at the ends of the window are mostly of the slower kind: tolerate them.
        edges = params.concurrency if share else 0
        if abs(requests.get(kind, 0) - every * share) > scatter + edges:
            achieved = 100 * requests.get(kind, 0) / every
            off.append(
                f"{significant(achieved, 3)} % of the requests were {WORDS[kind]}s, not "
                f"{significant(100 * share, 3)} %"
            )
    if not off:
        return None
    return Flag(
        kind="mix-off", message=f"{'; '.join(off)}: the difference is more than chance explains"
    )


def _payload_flag(params: ObjectParams) -> Flag | None:
    if params.payload == "unsigned" or "put" not in shares(params):
        return None
    return Flag(
        kind="payload-mode",
        message=f'bodies were sent with payload = "{params.payload}": signing and checksums '
        "cost CPU on both sides, so compare only with runs that used the same payload",
    )
