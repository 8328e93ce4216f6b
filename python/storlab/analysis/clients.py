"""Clients of a cluster side by side: what each did, of what it should have, and when it began."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from statistics import median

from storlab.analysis.compare import Cell, Comparison
from storlab.analysis.dataset import RunData
from storlab.analysis.points import CLIENTS, Axes, Section, WorkloadPoint, section_key, sort_value
from storlab.model.cluster import ClientRun, ClusterRun


@dataclass(frozen=True, slots=True)
class Seen:
    """A client in one run, with the others of that run."""

    client: ClientRun
    together: ClusterRun
    run: RunData

    @property
    def share(self) -> float | None:
        """What it did over the mean of all clients; None where none did anything."""
        rates = self.together.rates
        mean = sum(rates.values()) / len(rates)
        return rates[self.client.name] / mean if mean else None

    @property
    def network(self) -> float | None:
        """Bytes over its data interfaces, to and fro, over bytes moved; None where not seen."""
        received, sent = self.client.nic_received_bytes, self.client.nic_sent_bytes
        if received is None or sent is None or not self.client.bytes:
            return None
        return (received + sent) / self.client.bytes

    @property
    def clock_ns(self) -> int:
        """How well its clock is known: by the drift, or by half of the round trip."""
        return max(abs(self.client.drift_ns), self.client.round_trip_ns // 2)


def clients_of(cell: Cell) -> list[Seen]:
    """Every client in every run of a cell that counts."""
    return [
        Seen(client, run.record.cluster, run)
        for run in cell.runs
        if run.record.cluster is not None
        for client in run.record.cluster.clients
    ]


def has_clients(comparison: Comparison) -> bool:
    """Whether the clients of a cluster made any of the load."""
    return any(point.clients is not None for point in _plans(comparison))


def _plans(comparison: Comparison) -> Iterator[WorkloadPoint]:
    return (row.point for row in comparison.rows.values())


def by_client(seen: list[Seen]) -> dict[str, list[Seen]]:
    """The same by name, in the order of the study."""
    clients: dict[str, list[Seen]] = {}
    for observed in seen:
        clients.setdefault(observed.client.name, []).append(observed)
    return clients


@dataclass(frozen=True, slots=True)
class Balance:
    """How evenly the clients of one cell shared the work. Shares are means over its runs."""

    shares: dict[str, float]
    clients: int

    @property
    def least(self) -> tuple[str, float]:
        """The client with the smallest share."""
        return min(self.shares.items(), key=lambda pair: pair[1])

    @property
    def most(self) -> tuple[str, float]:
        """The client with the largest."""
        return max(self.shares.items(), key=lambda pair: pair[1])

    @property
    def middle(self) -> float:
        """The median of all clients."""
        return median(self.shares.values())


def balance_of(cell: Cell) -> Balance | None:
    """None with fewer than two clients, or where they did nothing."""
    shares = {}
    for name, runs in by_client(clients_of(cell)).items():
        known = [share for run in runs if (share := run.share) is not None]
        if known:
            shares[name] = sum(known) / len(known)
    return Balance(shares, len(shares)) if len(shares) > 1 else None


@dataclass(frozen=True, slots=True)
class Ending:
    """When the clients of one run had done their shares of a fixed work, after its start."""

    first: ClientRun
    last: ClientRun
    bytes_s_till_first: float | None
    bytes: int  # of all clients

    @property
    def first_ns(self) -> int:
        """First done."""
        return self.first.done_ns or 0

    @property
    def last_ns(self) -> int:
        """Last done."""
        return self.last.done_ns or 0


def endings_of(cell: Cell) -> list[Ending]:
    """Of every run of a cell that counts, where several clients had a fixed work."""
    endings = []
    for run in cell.runs:
        together = run.record.cluster
        done = [] if together is None else [c for c in together.clients if c.done_ns is not None]
        if together is not None and len(done) > 1:
            ordered = sorted(done, key=lambda client: client.done_ns or 0)
            moved = sum(client.bytes for client in together.clients)
            endings.append(Ending(ordered[0], ordered[-1], together.bytes_s_till_first_done, moved))
    return endings


def sections_by_clients(comparison: Comparison) -> list[Section]:
    """Sections whose axis is the number of clients, where another axis is swept beside it.

    At the far end of that other axis; none where clients are the axis of the page anyway.
    """
    sections: dict[tuple[object, ...], Section] = {}
    for section in comparison.sections:
        axes = section.axes
        if axes.x == CLIENTS or CLIENTS not in axes.section:
            continue
        others = (*(name for name in axes.section if name != CLIENTS), axes.x)
        client_axes = Axes(CLIENTS, axes.facet, others)
        for facet in section.facets():
            far = section.of_facet(facet)[-1]
            key = (section.family, section_key(far, client_axes))
            if key not in sections:
                sections[key] = replace(section, axes=client_axes, points=[])
            sections[key].points.append(far)
    for section in sections.values():
        section.points.sort(key=lambda p: sort_value(p.clients))
    return [
        section for section in sections.values() if len({p.clients for p in section.points}) > 1
    ]
