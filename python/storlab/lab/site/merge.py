"""Merge of several clients' reports into the outcome of one run, on the controller's clock.

``storlab._native.Merger`` merges histograms and adds up counters. The measure window is the time
that all clients have in common; if they divide one amount of work, it lasts until the last client
is done. The samples of each client are stored in ``raw/clients.parquet``, with the columns of
``samples.parquet`` and the client's name.
"""

from __future__ import annotations

import io
import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import AbstractContextManager
from dataclasses import dataclass, fields, replace
from itertools import chain
from statistics import fmean
from typing import Any, NamedTuple, TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from storlab import _native
from storlab.base.units import NS_PER_S, format_bytes_si
from storlab.cluster.offsets import ClockOffset
from storlab.cluster.task import ClientPlace
from storlab.contracts.family import ClientDetails
from storlab.contracts.page import Page
from storlab.contracts.registry import FAMILIES
from storlab.lab.site.client_report import ClientReport, NicBytes
from storlab.lab.site.verification import merged as merged_reports
from storlab.model.cluster import ClientRun, ClusterRun
from storlab.model.latencies import LatencyColumns, latencies_of
from storlab.model.result import (
    READS,
    CpuUse,
    Failure,
    Flag,
    OperationTotals,
    RunOutcome,
    Sample,
    Snapshot,
    Span,
    VerifyReport,
    sample_row,
)
from storlab.model.samples import SAMPLES_SCHEMA, rows_to_table
from storlab.workloads.common.metrics import quota_percent

NumberT = TypeVar("NumberT", int, float)
CLIENTS_FILE = "clients.parquet"
_NAME_FIELD = pa.field("client", pa.string(), nullable=False)
_SCHEMA = SAMPLES_SCHEMA.insert(0, _NAME_FIELD)
# Columns to store with dictionaries and statistics: not histograms, which are all different.
_PLAIN = [column for column in _SCHEMA.names if not column.endswith("_hist")]
_CLIENTS_AT_ONCE = 16  # limits the samples in memory
_LATENCY = [field.name for field in fields(Sample)].index("latency")


@dataclass(frozen=True, slots=True)
class Client:
    """One client of a run, with its report, and its clock offsets before and after the run."""

    place: ClientPlace
    report: ClientReport
    before: ClockOffset
    after: ClockOffset

    @property
    def outcome(self) -> RunOutcome:
        """Outcome of the client; raises ValueError if there is none."""
        if self.report.outcome is None:
            raise ValueError(f"client {self.place.name} reported no outcome")
        return self.report.outcome


def merge(
    clients: Sequence[Client],
    interval_ns: int,
    planned_ns: int | None,
    kind: str,
    *,
    divided: bool = False,
) -> RunOutcome:
    """Merge the reports of all clients into the outcome of one run.

    The rows of the reports are released in the process.

    Args:
        clients: Clients of the run.
        interval_ns: Length of a sampling interval.
        planned_ns: Length of the window; None if the run ends when its work is done.
        kind: Workload family.
        divided: Whether the clients divide one amount of work, so that the window ends when the
            last client is done.

    Raises:
        ValueError: A histogram is damaged, or there are no clients.
    """
    pairs = [(client.outcome, client.before) for client in clients]
    with _Sum(pairs, interval_ns, divided=divided) as summed:
        for begin in range(0, len(clients), _CLIENTS_AT_ONCE):
            summed.add(clients[begin : begin + _CLIENTS_AT_ONCE])
        summed.flush()
    text, rows = summed.merger.finish()
    merged = json.loads(text)
    start_ns, end_ns = merged["window_start_ns"], merged["window_end_ns"]
    first = clients[0].outcome
    failure = _failure(clients)
    cancelled = any(client.outcome.status == "cancelled" for client in clients)
    status = "failed" if failure else "cancelled" if cancelled else "finished"
    outcome = RunOutcome(
        status=status,  # type: ignore[arg-type]
        engine=first.engine,
        window_start_ns=start_ns,
        window_end_ns=end_ns,
        samples=[Sample(*row) for row in rows],
        totals=_totals(merged["totals"], clients),
        cpu=_cpu([(client.place.host, client.outcome.cpu) for client in clients]),
        failure=failure,
        notes=_notes(clients),
        final_sync_ns=_most(client.outcome.final_sync_ns for client in clients),
        drain_ns=max(client.outcome.drain_ns for client in clients),
        verify=_verified(clients),
        details=_details(clients, kind),
        spans=spans_of(pairs),
        first_io_late_ns=_most(client.outcome.first_io_late_ns for client in clients),
        last_worker_late_ns=_most(client.outcome.last_worker_late_ns for client in clients),
        flags=_flags(clients),
    )
    outcome.cluster = _cluster(
        clients,
        kind,
        (start_ns, end_ns),
        planned_ns,
        summed.bytes_till_first_done if divided else None,
    )
    outcome.raw = raw_of((client.place, client.report) for client in clients)
    outcome.raw[CLIENTS_FILE] = summed.file.close()
    return outcome


class _Sum(AbstractContextManager["_Sum"]):
    """Adds up the samples of all clients, a few clients at a time.

    Meanwhile, a thread writes the file with the samples of each client.
    """

    def __init__(
        self, pairs: Sequence[tuple[RunOutcome, ClockOffset]], interval_ns: int, *, divided: bool
    ) -> None:
        self.merger = _native.Merger(interval_ns)
        self.file = ClientsFile()
        self.bytes_till_first_done = 0.0  # only for divided work
        self._window = windows(pairs) if divided else None
        self._first_done_ns = first_done_ns(pairs)
        self._interval_ns = interval_ns
        self._writer = ThreadPoolExecutor(1, "storlab-clients-file")
        self._written: Future[None] | None = None

    def __exit__(self, *_: object) -> None:
        self._writer.shutdown()

    def add(self, clients: Sequence[Client]) -> None:
        """Add the samples of some clients; raise ValueError if a histogram is damaged."""
        given = [self._rows(client) for client in clients]
        self.flush()
        self._written = self._writer.submit(self.file.write, given)
        summed = [self._summed(c, own.rows) for c, own in zip(clients, given, strict=True)]
        self.merger.add(summed)

    def flush(self) -> None:
        """Wait until all samples added so far are written to the file."""
        if self._written is not None:
            self._written.result()

    def _rows(self, client: Client) -> ClientRows:
        rows = client.report.take_rows()
        latencies = client.report.latencies or latencies_of(row[_LATENCY] for row in rows)
        return ClientRows(client.place.name, client.before.offset_ns, rows, latencies)

    def _summed(self, client: Client, rows: Sequence[tuple[Any, ...]]) -> tuple[Any, ...]:
        """Return the arguments of ``Merger.add`` for a client: name, clock, window and samples.

        If the work is divided, empty samples are added up to the end of the common window.
        """
        outcome, clock = client.outcome, client.before
        if self._window is not None:
            samples = [Sample(*row) for row in rows]
            self.bytes_till_first_done += bytes_until(self._first_done_ns, samples, clock)
            whole = replace(outcome, samples=samples)
            outcome = stretched(whole, clock, self._window, self._interval_ns)
            rows = [sample_row(sample) for sample in outcome.samples]
        window = outcome.window_start_ns, outcome.window_end_ns
        return client.place.name, clock.offset_ns, *window, rows


def raw_of(reports: Iterable[tuple[ClientPlace, ClientReport]]) -> dict[str, bytes]:
    """Return the raw files of each client's engine, named ``<client>/<file>``."""
    return {
        f"{place.name}/{name}": content
        for place, report in reports
        if report.outcome is not None
        for name, content in report.outcome.raw.items()
    }


def _failure(clients: Sequence[Client]) -> Failure | None:
    failed = [client for client in clients if client.outcome.failure is not None]
    if not failed:
        return None
    first, failure = failed[0], failed[0].outcome.failure
    assert failure is not None  # noqa: S101  (chosen for having a failure)
    also = "" if len(failed) == 1 else f" (and {len(failed) - 1} more clients)"
    message = f"{first.place.name}: {failure.message}{also}"
    return failure.model_copy(update={"message": message})


def _totals(merged: Mapping[str, Any], clients: Sequence[Client]) -> dict[str, OperationTotals]:
    """Return totals by operation: those that the merger computed, with sums of other counters."""
    by_operation = {}
    for operation, totals in merged.items():
        parts = [c.outcome.totals[operation] for c in clients if operation in c.outcome.totals]
        errors: dict[str, int] = {}
        for part in parts:
            for kind, count in part.errors.items():
                errors[kind] = errors.get(kind, 0) + count
        apart = {
            "late_operations": sum(part.late_operations for part in parts),
            "unfinished_operations": sum(part.unfinished_operations for part in parts),
            "unfinished_longest_ns": max((p.unfinished_longest_ns for p in parts), default=0),
        }
        by_operation[operation] = OperationTotals.model_validate(
            {**totals, **apart, "errors": errors}
        )
    return by_operation


def _cpu(uses: Sequence[tuple[str, CpuUse | None]]) -> CpuUse | None:
    """Return the CPU use of all clients together, or None if one is unknown.

    Times are added up, the cores of each host count once, and percentages are the largest ones.
    """
    known = [use for _, use in uses if use is not None]
    if len(known) < len(uses):
        return None
    hosts: dict[str, list[CpuUse]] = {}
    for host, use in uses:
        hosts.setdefault(host, []).extend([use] if use is not None else [])
    machines = [_most(use.machine_cores for use in own) for own in hosts.values()]
    usable = [sum(use.cores for use in own) for own in hosts.values()]

    def total(name: str) -> int | None:
        values = [getattr(use, name) for use in known]
        return None if None in values else sum(values)

    def most(name: str) -> float | None:
        return _most(getattr(use, name) for use in known)

    return CpuUse(
        user_ns=sum(use.user_ns for use in known),
        system_ns=sum(use.system_ns for use in known),
        cores=sum(min(own, there or own) for own, there in zip(usable, machines, strict=True)),
        worker_ns=total("worker_ns"),
        busiest_worker_percent=most("busiest_worker_percent"),
        machine_busy_percent=most("machine_busy_percent"),
        machine_cores=None if None in machines else sum(cores or 0 for cores in machines),
        machine_steal_percent=most("machine_steal_percent"),
        waited_ns=total("waited_ns"),
        longest_wait_percent=most("longest_wait_percent"),
        throttled_percent=most("throttled_percent"),  # each client has its own quota: client-limit
    )


def _flags(clients: Sequence[Client]) -> list[Flag]:
    """Return the flags of all clients, with the client's name before each message."""
    return [
        flag.model_copy(update={"message": f"{client.place.name}: {flag.message}"})
        for client in clients
        for flag in client.outcome.flags
    ]


def _most(values: Iterable[NumberT | None]) -> NumberT | None:
    known = [value for value in values if value is not None]
    return max(known) if known else None


def _notes(clients: Sequence[Client]) -> list[str]:
    """Return the notes of all clients.

    A note that not all clients have is preceded by the names of those that have it.
    """
    sayers: dict[str, list[str]] = {}
    for client in clients:
        for note in [*client.outcome.notes, *client.report.notes]:
            sayers.setdefault(note, []).append(client.place.name)
    every = len(clients)
    return [
        note if len(names) == every else f"{', '.join(names)}: {note}"
        for note, names in sayers.items()
    ]


def _verified(clients: Sequence[Client]) -> VerifyReport | None:
    report: VerifyReport | None = None
    for client in clients:
        if client.outcome.verify is not None:
            report = merged_reports(report, client.outcome.verify)
    return report


def _details(clients: Sequence[Client], kind: str) -> dict[str, Any]:
    """Return the details of the run, with facts about devices, processes and medium.

    The workload family merges the details of all clients; if it cannot, the first client's count.
    """
    whole = whole_details(kind, clients)
    details = clients[0].outcome.details if whole is None else whole
    facts: dict[str, Any] = {
        "device": _device_bytes(clients),
        "process": _process_bytes(clients),
        "medium": _medium(clients),
        "machine": None,  # of each client; flags name the clients
    }
    if stand_ins := _stand_ins(clients):
        facts["stand_ins"] = stand_ins
    if health := _health(clients):
        facts["health"] = health
    return {**details, **facts}


def _stand_ins(clients: Sequence[Client]) -> list[str]:
    """Return descriptions of everything that is emulated on any client.

    One emulated part makes the whole run emulated.
    """
    every = (text for c in clients for text in c.outcome.details.get("stand_ins", ()))
    return list(dict.fromkeys(every))


def _health(clients: Sequence[Client]) -> list[dict[str, Any]]:
    """Return the health of the drives of all clients, each with the name of its client."""
    return [
        {**drive, "drive": f"{client.place.name}: {drive['drive']}"}
        for client in clients
        for drive in client.outcome.details.get("health", ())
    ]


def _process_bytes(clients: Sequence[Client]) -> dict[str, Any] | None:
    """Return the bytes that all clients' processes transferred; None if one is unknown."""
    counted = [client.outcome.details.get("process") for client in clients]
    if not all(counted):
        return None
    return _counters_summed([one for one in counted if one])


def _counters_summed(counted: Sequence[Mapping[str, Any]]) -> dict[str, int]:
    """Add up byte counters, each in the form of ``contracts.details.BytesCounted``.

    The bytes counted inside the windows belong to times of different lengths. They are scaled to
    the shortest one, so that the resulting rate is the sum of all rates.
    """
    names = ("read_bytes", "written_bytes")
    inside_ns = min(one.get("inside_ns", 0) for one in counted)
    summed = {
        "over_ns": max(one.get("over_ns", 0) for one in counted),
        "inside_ns": inside_ns,
        **{name: sum(one.get(name, 0) for one in counted) for name in names},
    }
    for name in (f"inside_{name}" for name in names):
        shares = (one.get(name, 0) * inside_ns / (one.get("inside_ns") or 1) for one in counted)
        summed[name] = round(sum(shares))
    return summed


def _medium(clients: Sequence[Client]) -> dict[str, Any] | None:
    """Return facts about the media of all clients together; None if a client has none."""
    media = [client.outcome.details.get("medium") for client in clients]
    if not all(media):
        return None
    known = [dict(medium) for medium in media if medium]
    return {
        name: list(dict.fromkeys(clause for medium in known for clause in medium[name]))
        for name in known[0]
    }


def _device_bytes(clients: Sequence[Client]) -> dict[str, Any] | None:
    """Return the bytes that all hosts' devices transferred; None if one is unknown.

    Clients on the same host count the same devices, so each host is counted once.
    """
    hosts: dict[str, dict[str, Any]] = {}
    for client in clients:
        device = client.outcome.details.get("device")
        if not device:
            return None
        before = hosts.setdefault(client.place.host, device)
        if device["read_bytes"] + device["written_bytes"] > (
            before["read_bytes"] + before["written_bytes"]
        ):
            hosts[client.place.host] = device
    names = [f"{host}:{name}" for host, device in hosts.items() for name in device["devices"]]
    return {**_counters_summed(list(hosts.values())), "devices": names}


def _cluster(
    clients: Sequence[Client],
    kind: str,
    window: tuple[int, int],
    planned_ns: int | None,
    bytes_till_first_done: float | None,
) -> ClusterRun:
    """Return the summary of all clients for the run's record.

    ``bytes_till_first_done`` is None unless the work is divided.
    """
    (start_ns, end_ns), divided = window, bytes_till_first_done is not None
    together_ns = first_done_ns([(c.outcome, c.before) for c in clients]) - start_ns
    first_bytes_s = None
    if bytes_till_first_done is not None and len(clients) > 1 and together_ns > 0:
        first_bytes_s = bytes_till_first_done * NS_PER_S / together_ns
    page = FAMILIES[kind].page
    runs = [_client_run(client, page, start_ns, end_ns, divided=divided) for client in clients]
    begun = [run.first_io_late_ns for run in runs if run.first_io_late_ns is not None]
    longest = planned_ns or max(
        client.outcome.window_end_ns - client.outcome.window_start_ns for client in clients
    )
    return ClusterRun(
        clients=runs,
        start_skew_ns=max(begun) - min(begun) if len(begun) == len(runs) else None,
        window_kept=min(1.0, max(0, end_ns - start_ns) / longest) if longest else 1.0,
        divided=divided,
        bytes_s_till_first_done=first_bytes_s,
        nics_seen=all(run.nic_received_bytes is not None for run in runs),
    )


def _client_run(
    client: Client, page: Page, start_ns: int, end_ns: int, *, divided: bool
) -> ClientRun:
    outcome, place = client.outcome, client.place
    length_ns = max(1, outcome.window_end_ns - outcome.window_start_ns)
    begin = max(start_ns, client.before.controller_ns(outcome.window_start_ns))
    done = client.before.controller_ns(outcome.window_end_ns)
    end = min(end_ns, done)
    # As in the metrics of the whole run, flushes do not count as operations.
    totals = [t for name, t in outcome.totals.items() if name in page.operations.main]
    moved = sum(
        t.bytes for name, t in outcome.totals.items() if name in page.operations.transferred
    )
    seconds = length_ns / NS_PER_S
    means = [(t.latency.mean_ns, t.latency.count) for t in totals if t.latency is not None]
    count = sum(number for _, number in means)
    cpu = outcome.cpu
    nics = client.report.nic_bytes
    return ClientRun(
        name=place.name,
        host=place.host,
        offset_ns=client.before.offset_ns,
        round_trip_ns=max(client.before.round_trip_ns, client.after.round_trip_ns),
        drift_ns=client.after.offset_ns - client.before.offset_ns,
        armed_ns=client.report.armed_ns,
        first_io_late_ns=outcome.first_io_late_ns,
        last_worker_late_ns=outcome.last_worker_late_ns,
        done_ns=done - start_ns if divided else None,
        window_share=max(0, end - begin) / length_ns,
        operations=sum(t.operations for t in totals),
        bytes=moved,
        by_worker=outcome.by_worker,
        bytes_read=sum(t.bytes for name, t in outcome.totals.items() if name in READS),
        bytes_s=moved / seconds,
        operations_s=sum(t.operations for t in totals) / seconds,
        latency_mean_ns=sum(mean * number for mean, number in means) / count if count else None,
        latency_p99_ns=max(
            (t.latency.p99_ns for t in totals if t.latency is not None), default=None
        ),
        cpu_percent=_most(
            (None if cpu is None else cpu.machine_busy_percent, quota_percent(outcome))
        ),
        cores=None if cpu is None else cpu.machine_cores,
        nic_received_bytes=None if nics is None else nics.received,
        nic_sent_bytes=None if nics is None else nics.sent,
        nic_busy_percent=_busy(nics, client.report.nic_speeds),
    )


def _busy(nics: NicBytes | None, speeds: Sequence[int | None]) -> float | None:
    known = [speed for speed in speeds if speed is not None]
    if nics is None or not known or len(known) < len(speeds):
        return None
    bit_s = 8 * max(nics.received, nics.sent) * NS_PER_S / max(1, nics.over_ns)
    return 100 * bit_s / sum(known)


def windows(clients: Sequence[tuple[RunOutcome, ClockOffset]]) -> tuple[int, int]:
    """Return the earliest start and latest end of all windows, on the controller's clock."""
    starts = [clock.controller_ns(outcome.window_start_ns) for outcome, clock in clients]
    ends = [clock.controller_ns(outcome.window_end_ns) for outcome, clock in clients]
    return min(starts), max(ends)


def first_done_ns(clients: Sequence[tuple[RunOutcome, ClockOffset]]) -> int:
    """Return when the first client had done its part of the work, on the controller's clock."""
    return min(clock.controller_ns(outcome.window_end_ns) for outcome, clock in clients)


def bytes_until(moment_ns: int, samples: Iterable[Sample], clock: ClockOffset) -> float:
    """Return the bytes that a client had transferred at a moment of the controller's clock.

    The interval in which the moment lies counts in part.
    """
    moved = 0.0
    for sample in samples:
        begin, end = (clock.controller_ns(t) for t in (sample.start_ns, sample.end_ns))
        moved += sample.bytes * min(1.0, max(0, moment_ns - begin) / max(1, end - begin))
    return moved


def stretched(
    outcome: RunOutcome, clock: ClockOffset, window: tuple[int, int], interval_ns: int
) -> RunOutcome:
    """Extend the outcome of a client to the common window, by empty intervals at its end."""
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
    """Merge time spans that all clients have: from the earliest start to the latest end of each."""
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


def whole_details(kind: str, clients: Sequence[Client]) -> dict[str, Any] | None:
    """Return the details of all clients, merged by the workload family if it can, else None."""
    family = FAMILIES[kind]
    parts = [
        ClientDetails(
            client.place.name,
            client.place.host,
            client.before.offset_ns,
            client.outcome.details,
            client.report.memory_bytes,
        )
        for client in clients
    ]
    merged = family.merge_details(parts)
    if merged is None or not family.pieces_word:
        return merged
    meetings = [(client.before, client.report.meetings) for client in clients]
    return {**merged, "meetings": meeting_times(meetings)}


def meeting_times(
    clients: Sequence[tuple[ClockOffset, Sequence[tuple[int, int, int]]]],
) -> Mapping[str, Any] | None:
    """Return how long synchronisation between clients took; None if there was none.

    At each synchronisation point, the latency lasts from the last client's announcement that it
    will be ready until the last client has the answer. ``waited_ns`` is the part of the latency
    after all clients were ready, in which they did no work.
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
    """Return one snapshot for all active clients: sums of rates, and a note on the slowest one."""
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
    """Return the sum of a value over the clients that report it; None if no client does."""
    known = [c[name] for c in clients.values() if c.get(name) is not None]
    return sum(known) if known else None


def _whole_bins(clients: Iterable[dict[str, Any]]) -> list[list[int]]:
    """Return the merged latency bins of all clients, as pairs of bin and count."""
    whole: Counter[int] = Counter()
    for client in clients:
        whole.update(dict(client.get("latency_bins") or ()))
    return [[place, count] for place, count in sorted(whole.items())]


class ClientRows(NamedTuple):
    """Samples of one client on its own clock, which is ``offset_ns`` ahead of the controller's."""

    name: str
    offset_ns: int
    rows: Sequence[tuple[Any, ...]]
    latencies: LatencyColumns


class ClientsFile:
    """Writer of ``clients.parquet``; samples are appended for some clients at a time."""

    def __init__(self) -> None:
        self._sink = io.BytesIO()
        self._file = pq.ParquetWriter(
            self._sink,
            _SCHEMA,
            compression="zstd",
            use_dictionary=_PLAIN,  # type: ignore[arg-type]  # the stubs lack lists of column names
            write_statistics=_PLAIN,
        )

    def write(self, clients: Sequence[ClientRows]) -> None:
        """Append samples of clients; raise ValueError for times outside the clock's range."""
        known = zip(*(client.latencies for client in clients), strict=True)
        latencies = LatencyColumns(*([*chain.from_iterable(column)] for column in known))
        table = rows_to_table([row for client in clients for row in client.rows], latencies)
        lengths = [len(client.rows) for client in clients]
        ahead = pa.array(np.repeat([client.offset_ns for client in clients], lengths), pa.int64())
        for column in ("start_ns", "end_ns"):
            at = table.schema.get_field_index(column)
            moved = pc.subtract(table[column], ahead)
            table = table.set_column(at, table.schema.field(at), moved)
        names = np.repeat([client.name for client in clients], lengths)
        self._file.write_table(table.add_column(0, _NAME_FIELD, pa.array(names, pa.string())))

    def close(self) -> bytes:
        """Finish the file and return its content."""
        self._file.close()
        return self._sink.getvalue()
