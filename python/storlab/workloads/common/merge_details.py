"""Helpers to merge the details that the clients of a cluster report for their shares of a run."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from storlab.contracts.family import ClientDetails


def zipped(parts: Sequence[ClientDetails], name: str) -> list[tuple[Mapping[str, Any], ...]]:
    """Group the clients' entries by piece (epoch, checkpoint), for pieces that all finished.

    Args:
        parts: Details of each client's share.
        name: Field of the details with one entry per piece.
    """
    return list(zip(*(part.details.get(name) or () for part in parts), strict=False))


def moved(entry: Mapping[str, Any], part: ClientDetails, times: Iterable[str]) -> dict[str, Any]:
    """Return the entry with these times converted from the client's clock to the run's clock."""
    known = {name: entry[name] for name in times if entry.get(name) is not None}
    return {**entry, **{name: at_ns - part.offset_ns for name, at_ns in known.items()}}


def host_sum(
    entries: Iterable[Mapping[str, Any]], parts: Iterable[ClientDetails], name: str
) -> int | None:
    """Sum a counter over the hosts of the clients; None if a client could not count.

    Clients on one host each count the activity of the whole host, so its largest value is used.
    """
    hosts: dict[str, int] = {}
    for entry, part in zip(entries, parts, strict=True):
        counted = entry.get(name)
        if counted is None:
            return None
        hosts[part.host] = max(hosts.get(part.host, 0), counted)
    return sum(hosts.values())
