"""What several clients did, as the outcome of one run, on the clock of the controller.

Histograms are added and counters summed, by ``storlab._native.Merger``; the window is the one that
all clients had together.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, fields
from operator import attrgetter
from typing import Any, TypeVar

from storlab import _native
from storlab.base.units import NS_PER_S
from storlab.cluster.offsets import ClockOffset
from storlab.cluster.task import ClientPlace
from storlab.lab.site.report import ClientReport, NicBytes
from storlab.lab.site.verification import merged as merged_reports
from storlab.lab.site.whole import spans_of, stretched, whole_details, windows
from storlab.model.cluster import ClientRun, ClusterRun
from storlab.model.result import (
    CpuUse,
    Failure,
    OperationTotals,
    RunOutcome,
    Sample,
    VerifyReport,
)

NumberT = TypeVar("NumberT", int, float)
CLIENTS_FILE = "clients.parquet"
_CLIENTS_AT_ONCE = 16  # whose samples are in memory twice


@dataclass(frozen=True, slots=True)
class Client:
    """One client of a run: who it is, what it did, and its clock before and after."""

    place: ClientPlace
    report: ClientReport
    before: ClockOffset
    after: ClockOffset

    @property
    def outcome(self) -> RunOutcome:
        """Of a client that has one."""
        if self.report.outcome is None:
            raise ValueError(f"{self.place.name} has no outcome")
        return self.report.outcome

    def controller_ns(self, client_ns: int) -> int:
        """A moment of this client's clock on the controller's."""
        return client_ns - self.before.offset_ns


def merge(
    clients: Sequence[Client], interval_ns: int, planned_ns: int | None, kind: str
) -> RunOutcome:
    """The outcome of all. ``planned_ns``: length of the window; None where the work ends it.

    Raises ValueError for histograms that are damaged, or no client at all.
    """
    pairs = [(client.outcome, client.before) for client in clients]
    window = windows(pairs)
    merger = _native.Merger(interval_ns)
    for client in clients:
        outcome = client.outcome
        if planned_ns is None:
            outcome = stretched(outcome, client.before, window, interval_ns)
        merger.add(
            client.place.name,
            client.before.offset_ns,
            outcome.window_start_ns,
            outcome.window_end_ns,
            [_row(sample) for sample in outcome.samples],
        )
    text, rows = merger.finish()
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
        cluster=_cluster(clients, start_ns, end_ns, planned_ns),
    )
    outcome.raw = raw_of((client.place, client.report) for client in clients)
    outcome.raw[CLIENTS_FILE] = clients_to_parquet(clients)
    return outcome


def raw_of(reports: Iterable[tuple[ClientPlace, ClientReport]]) -> dict[str, bytes]:
    """What the engine itself wrote on each client, below a folder with the client's name."""
    return {
        f"{place.name}/{name}": content
        for place, report in reports
        if report.outcome is not None
        for name, content in report.outcome.raw.items()
    }


_row = attrgetter(*(field.name for field in fields(Sample)))


def _failure(clients: Sequence[Client]) -> Failure | None:
    failed = [client for client in clients if client.outcome.failure is not None]
    if not failed:
        return None
    first, failure = failed[0], failed[0].outcome.failure
    assert failure is not None  # noqa: S101  (they were chosen by it)
    also = "" if len(failed) == 1 else f" (and {len(failed) - 1} more clients)"
    message = f"{first.place.name}: {failure.message}{also}"
    return failure.model_copy(update={"message": message})


def _totals(merged: Mapping[str, Any], clients: Sequence[Client]) -> dict[str, OperationTotals]:
    """Histograms are the merger's; what has none is added here."""
    by_operation = {}
    for operation, totals in merged.items():
        parts = [c.outcome.totals[operation] for c in clients if operation in c.outcome.totals]
        errors: dict[str, int] = {}
        for part in parts:
            for kind, count in part.errors.items():
                errors[kind] = errors.get(kind, 0) + count
        late = sum(part.late_operations for part in parts)
        by_operation[operation] = OperationTotals.model_validate(
            {**totals, "late_operations": late, "errors": errors}
        )
    return by_operation


def _cpu(uses: Sequence[tuple[str, CpuUse | None]]) -> CpuUse | None:
    """Times of all, cores of each host once; shares of a core or a machine are the largest."""
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
    )


def _most(values: Iterable[NumberT | None]) -> NumberT | None:
    known = [value for value in values if value is not None]
    return max(known) if known else None


def _notes(clients: Sequence[Client]) -> list[str]:
    """Of each client once; what several say is said of all of them."""
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
    """As the family puts them together, else the first client's; with bytes of all devices."""
    whole = whole_details(kind, [(c.place, c.report, c.before) for c in clients])
    details = clients[0].outcome.details if whole is None else whole
    return {**details, "device": _device_bytes(clients)}


def _device_bytes(clients: Sequence[Client]) -> dict[str, Any] | None:
    """Where each client counted them. Clients of one host have all counted the same devices."""
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
    sums = {n: sum(d[n] for d in hosts.values()) for n in ("read_bytes", "written_bytes")}
    names = [f"{host}:{name}" for host, device in hosts.items() for name in device["devices"]]
    return {**next(iter(hosts.values())), **sums, "devices": names}


def _cluster(
    clients: Sequence[Client], start_ns: int, end_ns: int, planned_ns: int | None
) -> ClusterRun:
    divided = planned_ns is None
    runs = [_client_run(client, start_ns, end_ns, divided=divided) for client in clients]
    begun = [run.first_io_late_ns for run in runs if run.first_io_late_ns is not None]
    longest = planned_ns or max(
        client.outcome.window_end_ns - client.outcome.window_start_ns for client in clients
    )
    return ClusterRun(
        clients=runs,
        start_skew_ns=max(begun) - min(begun) if len(begun) == len(runs) else None,
        window_kept=min(1.0, max(0, end_ns - start_ns) / longest) if longest else 1.0,
        divided=divided,
        bytes_s_till_first_done=_till_first_done(clients, start_ns) if divided else None,
        nics_seen=all(run.nic_received_bytes is not None for run in runs),
    )


def _till_first_done(clients: Sequence[Client], start_ns: int) -> float | None:
    """B/s while all were at work; of the interval in which one ended, its part until then."""
    first_ns = min(client.controller_ns(client.outcome.window_end_ns) for client in clients)
    if len(clients) == 1 or first_ns <= start_ns:
        return None
    moved = 0.0
    for client in clients:
        for sample in client.outcome.samples:
            begin, end = (client.controller_ns(t) for t in (sample.start_ns, sample.end_ns))
            moved += sample.bytes * min(1.0, max(0, first_ns - begin) / max(1, end - begin))
    return moved * NS_PER_S / (first_ns - start_ns)


def _client_run(client: Client, start_ns: int, end_ns: int, *, divided: bool) -> ClientRun:
    outcome, place = client.outcome, client.place
    length_ns = max(1, outcome.window_end_ns - outcome.window_start_ns)
    begin = max(start_ns, client.controller_ns(outcome.window_start_ns))
    done = client.controller_ns(outcome.window_end_ns)
    end = min(end_ns, done)
    totals = outcome.totals.values()
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
        bytes=sum(t.bytes for t in totals),
        by_worker=outcome.by_worker,
        bytes_read=sum(t.bytes for name, t in outcome.totals.items() if name in ("read", "get")),
        bytes_s=sum(t.bytes for t in totals) / seconds,
        operations_s=sum(t.operations for t in totals) / seconds,
        latency_mean_ns=sum(mean * number for mean, number in means) / count if count else None,
        latency_p99_ns=max(
            (t.latency.p99_ns for t in totals if t.latency is not None), default=None
        ),
        cpu_percent=None if cpu is None else cpu.machine_busy_percent,
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


def clients_to_parquet(clients: Sequence[Client]) -> bytes:
    """``raw/clients.parquet``: samples of each client, as in samples.parquet, with its name.

    Times are those of the controller's clock.
    """
    import numpy as np
    import pyarrow as pa
    import pyarrow.compute as pc
    import pyarrow.parquet as pq

    from storlab.model.samples import SAMPLES_SCHEMA, samples_to_table

    name = pa.field("client", pa.string(), nullable=False)
    sink = pa.BufferOutputStream()
    with pq.ParquetWriter(sink, SAMPLES_SCHEMA.insert(0, name), compression="zstd") as file:
        for begin in range(0, len(clients), _CLIENTS_AT_ONCE):
            group = clients[begin : begin + _CLIENTS_AT_ONCE]
            table = samples_to_table([s for client in group for s in client.outcome.samples])
            lengths = [len(client.outcome.samples) for client in group]
            ahead = pa.array(np.repeat([c.before.offset_ns for c in group], lengths), pa.int64())
            for column in ("start_ns", "end_ns"):
                at = table.schema.get_field_index(column)
                moved = pc.subtract(table[column], ahead)
                table = table.set_column(at, table.schema.field(at), moved)
            names = np.repeat([client.place.name for client in group], lengths)
            file.write_table(table.add_column(0, name, pa.array(names, pa.string())))
    return sink.getvalue().to_pybytes()
