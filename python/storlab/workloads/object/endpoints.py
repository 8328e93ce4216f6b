"""Add up requests by endpoint and server address, and find slow endpoints."""

from __future__ import annotations

from base64 import b64decode, b64encode
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from storlab._native import Histogram
from storlab.base.units import significant
from storlab.contracts.details import HasDetails
from storlab.model.result import Flag
from storlab.workloads.object.details import EndpointRequests, ObjectDetails
from storlab.workloads.object.page import WORDS

UNEVEN = "uneven-endpoints"
JUDGED = {**WORDS, "part": "part"}  # kinds with comparable requests
LEAST_FOR_MEDIAN = 100  # requests of each of two servers for a comparison of medians
LEAST_FOR_TAIL = 1000
SLOW_MEDIAN = 1.5  # times the fastest server's median
SLOW_TAIL = 2.0  # times the fastest server's p99
SLOW_TAIL_SHARE = 0.05  # of requests slower than that; about 0.01 if servers are equal


@dataclass(slots=True)
class Traffic:
    """Counters of the requests of one kind to one server, added up over clients or runs."""

    requests: int = 0
    bytes: int = 0
    errors: int = 0
    latency_ns: float = 0.0  # sum over requests
    latency: Histogram = field(default_factory=Histogram)

    def add(self, row: EndpointRequests) -> None:
        """Add the counters of a row; raise ValueError if its histogram is damaged."""
        self.requests += row.requests
        self.bytes += row.bytes
        self.errors += row.errors
        self.latency_ns += row.mean_ns * row.requests
        if row.latency:
            self.latency.add(Histogram.from_v2(b64decode(row.latency)))

    @property
    def p50_ns(self) -> int:
        """Median latency; 0 without requests."""
        return self.latency.percentile(50.0) if self.requests else 0

    @property
    def p99_ns(self) -> int:
        """99th percentile of latency; 0 without requests."""
        return self.latency.percentile(99.0) if self.requests else 0

    def share_beyond(self, limit_ns: float) -> float:
        """Return the fraction of requests that took at least ``limit_ns``."""
        beyond = sum(count for low, _, count in self.latency.buckets() if low >= limit_ns)
        return beyond / self.requests if self.requests else 0.0


def merged_endpoints(rows: Iterable[EndpointRequests]) -> list[dict[str, Any]]:
    """Add up request counters of several clients by endpoint, server address and kind.

    Raises:
        ValueError: A histogram is damaged.
    """
    traffic: dict[tuple[str, str | None, str], Traffic] = {}
    for row in rows:
        traffic.setdefault((row.endpoint, row.address, row.kind), Traffic()).add(row)
    return [
        EndpointRequests(
            endpoint=endpoint,
            address=address,
            kind=kind,
            requests=own.requests,
            bytes=own.bytes,
            errors=own.errors,
            mean_ns=own.latency_ns / max(1, own.requests),
            p50_ns=own.p50_ns,
            p99_ns=own.p99_ns,
            latency=b64encode(own.latency.to_v2()).decode(),
        ).model_dump()
        for (endpoint, address, kind), own in traffic.items()
    ]


def traffic_by_server(rows: Iterable[EndpointRequests]) -> dict[str, dict[str, Traffic]]:
    """Add up request counters of runs by kind of request and server.

    The name of a server is its endpoint, followed by the address if the endpoint has several.

    Raises:
        ValueError: A histogram is damaged.
    """
    told = list(rows)
    addresses: dict[str, set[str]] = {}
    for row in told:
        addresses.setdefault(row.endpoint, set()).update([row.address] if row.address else [])
    traffic: dict[str, dict[str, Traffic]] = {}
    for row in told:
        several = len(addresses[row.endpoint]) > 1
        address = f" ({row.address or 'no connection'})" if several else ""
        own = traffic.setdefault(row.kind, {})
        own.setdefault(f"{row.endpoint}{address}", Traffic()).add(row)
    return traffic


@dataclass(frozen=True, slots=True)
class SlowEndpoint:
    """Server that answers one kind of request more slowly than the fastest server."""

    kind: str
    name: str
    traffic: Traffic
    fastest_name: str
    fastest: Traffic


def slow_endpoints(run: HasDetails) -> Iterator[SlowEndpoint]:
    """Yield servers of a run that were clearly slower than the fastest one.

    docs/method/object.md gives the limits.

    Raises:
        ValueError: A histogram is damaged.
    """
    by_server = traffic_by_server(ObjectDetails.of(run).endpoints)
    for kind in JUDGED:
        traffic = {
            name: own
            for name, own in by_server.get(kind, {}).items()
            if own.requests >= LEAST_FOR_MEDIAN
        }
        if len(traffic) > 1:
            yield from _slower(kind, traffic)


def _slower(kind: str, traffic: Mapping[str, Traffic]) -> Iterator[SlowEndpoint]:
    first = min(traffic, key=lambda name: traffic[name].p50_ns)
    fastest = traffic[first]
    for name, own in traffic.items():
        enough = min(own.requests, fastest.requests) >= LEAST_FOR_TAIL
        tail = enough and own.share_beyond(SLOW_TAIL * fastest.p99_ns) > SLOW_TAIL_SHARE
        slow = own.p50_ns >= SLOW_MEDIAN * fastest.p50_ns
        if own is not fastest and (slow or tail):
            yield SlowEndpoint(kind, name, own, first, fastest)


def uneven_flag(run: HasDetails) -> Flag | None:
    """Return a flag that names the slow endpoints of a run; None if there is none."""
    slow = list(slow_endpoints(run))
    if not slow:
        return None
    texts = [
        f"{JUDGED[one.kind]} at {one.name}: {_latencies(one.traffic)}, in "
        f"{one.traffic.requests:,} requests; at {one.fastest_name}: {_latencies(one.fastest)}"
        for one in slow
    ]
    return Flag(kind=UNEVEN, message=". ".join(texts))


def _latencies(traffic: Traffic) -> str:
    p50, p99 = (significant(ns / 1e6, 3) for ns in (traffic.p50_ns, traffic.p99_ns))
    return f"p50 {p50} ms, p99 {p99} ms"
