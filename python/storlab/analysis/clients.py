"""Comparison of the clients of a cluster: work done, fair share and finish times."""

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
    """Result of one client in one run, with the results of all clients of that run."""

    client: ClientRun
    together: ClusterRun
    run: RunData

    @property
    def share(self) -> float | None:
        """Rate of the client over the mean rate of all clients; None if no client did any work."""
        rates = self.together.rates
        mean = sum(rates.values()) / len(rates)
        return rates[self.client.name] / mean if mean else None

    @property
    def network(self) -> float | None:
        """Network bytes, received and sent, per byte of I/O; None if not measured."""
        received, sent = self.client.nic_received_bytes, self.client.nic_sent_bytes
        if received is None or sent is None or not self.client.bytes:
            return None
        return (received + sent) / self.client.bytes

    @property
    def clock_ns(self) -> int:
        """Uncertainty of the client's clock: the larger of its drift and half the round trip."""
        return max(abs(self.client.drift_ns), self.client.round_trip_ns // 2)


def clients_of(cell: Cell) -> list[Seen]:
    """Return every client in every finished run of a target at one point."""
    return [
        Seen(client, run.record.cluster, run)
        for run in cell.runs
        if run.record.cluster is not None
        for client in run.record.cluster.clients
    ]


def has_clients(comparison: Comparison) -> bool:
    """Return whether clients of a cluster generated any of the load."""
    return any(point.clients is not None for point in _plans(comparison))


def _plans(comparison: Comparison) -> Iterator[WorkloadPoint]:
    return (row.point for row in comparison.rows.values())


def by_client(seen: list[Seen]) -> dict[str, list[Seen]]:
    """Group client observations by client name, in the order of the study."""
    clients: dict[str, list[Seen]] = {}
    for observed in seen:
        clients.setdefault(observed.client.name, []).append(observed)
    return clients


@dataclass(frozen=True, slots=True)
class Balance:
    """Distribution of work over the clients at one point; shares are means over the runs."""

    shares: dict[str, float]
    clients: int

    @property
    def least(self) -> tuple[str, float]:
        """Client with the smallest share, and the share."""
        return min(self.shares.items(), key=lambda pair: pair[1])

    @property
    def most(self) -> tuple[str, float]:
        """Client with the largest share, and the share."""
        return max(self.shares.items(), key=lambda pair: pair[1])

    @property
    def middle(self) -> float:
        """Median share of all clients."""
        return median(self.shares.values())


def balance_of(cell: Cell) -> Balance | None:
    """Return how evenly clients shared the work; None if fewer than two did any."""
    shares = {}
    for name, runs in by_client(clients_of(cell)).items():
        known = [share for run in runs if (share := run.share) is not None]
        if known:
            shares[name] = sum(known) / len(known)
    return Balance(shares, len(shares)) if len(shares) > 1 else None


@dataclass(frozen=True, slots=True)
class Ending:
    """First and last client to finish a fixed amount of work in one run."""

    first: ClientRun
    last: ClientRun
    bytes_s_till_first: float | None
    bytes: int  # bytes moved by all clients

    @property
    def first_ns(self) -> int:
        """Time from the start of the run until the first client finished."""
        return self.first.done_ns or 0

    @property
    def last_ns(self) -> int:
        """Time from the start of the run until the last client finished."""
        return self.last.done_ns or 0


def endings_of(cell: Cell) -> list[Ending]:
    """Return the clients' finish times in each run of a target at a point.

    Runs are left out unless several clients had a fixed amount of work.
    """
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
    """Return page sections that have the number of clients on their horizontal axis.

    They supplement sections that have another parameter on that axis, and show only the largest
    value of that parameter. Empty if all sections have the number of clients on it already.
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
