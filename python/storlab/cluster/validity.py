"""Flags that warn of distortions in a run on several clients, with the clients' names."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from storlab.base.units import NS_PER_MS, format_duration
from storlab.model.cluster import ClientRun, ClusterRun
from storlab.model.result import Flag

LATE_NS = 10 * NS_PER_MS
CLOCK_NS = NS_PER_MS
KEPT = 0.999
FAIR = 0.8
BUSY_PERCENT = 90.0
SEEN = 0.95
UNSEEN = 0.01
_NAMED = 5


def cluster_flags(cluster: ClusterRun | None, *, cached: bool = False) -> list[Flag]:
    """Return the flags of a run on several clients.

    Args:
        cluster: Results of the clients; None for a run on this machine, which has no such flags.
        cached: Whether clients may read from their page caches, because I/O is not direct.
    """
    if cluster is None:
        return []
    network = _unseen(cluster) if not cached and _is_unseen(cluster) else _caches(cluster)
    return [*_start(cluster), *_clocks(cluster), *_shares(cluster), *_limits(cluster), *network]


def _start(cluster: ClusterRun) -> Iterator[Flag]:
    late = [c for c in cluster.clients if (c.first_io_late_ns or 0) > LATE_NS]
    if late:
        text = _named(late, lambda c: format_duration(c.first_io_late_ns or 0))
        yield Flag(kind="late-start", message=f"the first I/O started late on {text}")
    if cluster.window_kept < KEPT:
        short = min(cluster.clients, key=lambda c: c.window_share)
        yield Flag(
            kind="window-cut",
            message=f"only {cluster.window_kept:.1%} of the measure window was common to all "
            f"clients (shortest: {short.name})",
        )


def _clocks(cluster: ClusterRun) -> Iterator[Flag]:
    unsure = [c for c in cluster.clients if max(abs(c.drift_ns), c.round_trip_ns // 2) > CLOCK_NS]
    if unsure:
        text = _named(unsure, lambda c: format_duration(max(abs(c.drift_ns), c.round_trip_ns // 2)))
        yield Flag(
            kind="clock-unsure",
            message=f"the clock offset of clients is uncertain by more than 1 ms: {text}",
        )


def _shares(cluster: ClusterRun) -> Iterator[Flag]:
    """Yield a flag if a client's rate is below 0.8 of the mean, which the sum would hide.

    In a test, a client limited to a tenth of its link speed reached 6 % of the mean rate.
    """
    if cluster.divided:
        return
    rates = cluster.rates
    mean = sum(rates.values()) / len(rates)
    slow = [c for c in cluster.clients if rates[c.name] < FAIR * mean]
    if slow:
        text = _named(slow, lambda c: f"{rates[c.name] / mean:.2f}")
        yield Flag(kind="straggler", message=f"less than 0.8 of the mean rate: {text}")


def _limits(cluster: ClusterRun) -> Iterator[Flag]:
    limited = [
        (client, words, percent)
        for client in cluster.clients
        for words, percent in (("CPU", client.cpu_percent), ("network", client.nic_busy_percent))
        if (percent or 0) > BUSY_PERCENT
    ]
    if limited:
        text = ", ".join(f"{c.name} ({words} {p:.0f} %)" for c, words, p in limited[:_NAMED])
        more = f" and {len(limited) - _NAMED} more" if len(limited) > _NAMED else ""
        yield Flag(kind="client-limit", message=f"CPU or network limited clients: {text}{more}")


def _is_unseen(cluster: ClusterRun) -> bool:
    """Return whether every client's interfaces counted less than 1 % of the bytes it moved."""
    counted = [
        (client, client.nic_received_bytes + client.nic_sent_bytes)
        for client in cluster.clients
        if client.bytes
        and client.nic_received_bytes is not None
        and client.nic_sent_bytes is not None
    ]
    return bool(counted) and all(moved < UNSEEN * client.bytes for client, moved in counted)


def _unseen(cluster: ClusterRun) -> Iterator[Flag]:
    """Yield a flag for network counters that miss the transferred data on every client.

    If the counters of only some clients miss it, there is no such flag, because caches of these
    clients outside the kernel may be the reason.
    """
    worst = max((c.nic_received_bytes or 0) + (c.nic_sent_bytes or 0) for c in cluster.clients)
    yield Flag(
        kind="network-unseen",
        message="the counters of data_nics saw less than 1 % of the bytes that each client moved "
        f"({worst:,} bytes at most): the data use other paths (DPDK, RDMA, other "
        "interfaces), so client caches and the network limit cannot be checked",
    )


def _caches(cluster: ClusterRun) -> Iterator[Flag]:
    cached = [
        client
        for client in cluster.clients
        if client.nic_received_bytes is not None
        and client.nic_received_bytes < SEEN * client.bytes_read
    ]
    if cached:
        text = _named(cached, lambda c: f"{(c.nic_received_bytes or 0) / c.bytes_read:.2f}")
        yield Flag(
            kind="client-cache",
            message=f"clients received only a fraction of the bytes they read by network: {text}",
        )


def _named(clients: Sequence[ClientRun], value: Callable[[ClientRun], str]) -> str:
    shown = ", ".join(f"{client.name} ({value(client)})" for client in clients[:_NAMED])
    return shown + (f" and {len(clients) - _NAMED} more" if len(clients) > _NAMED else "")
