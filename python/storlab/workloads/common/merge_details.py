"""Helpers to merge what the clients of a cluster report about their parts of a run."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from storlab.contracts.family import ClientDetails


def zipped(parts: Sequence[ClientDetails], name: str) -> list[tuple[Mapping[str, Any], ...]]:
    """Group the entries of all clients by stage (epoch, checkpoint) up to the last common stage.

    Args:
        parts: What each client reports about its part of the run.
        name: Field of the report with one entry per stage.
    """
    return list(zip(*(part.details.get(name) or () for part in parts), strict=False))


def moved(entry: Mapping[str, Any], part: ClientDetails, times: Iterable[str]) -> dict[str, Any]:
    """Convert the fields ``times`` of an entry from the client's clock to the run's clock."""
    known = {name: entry[name] for name in times if entry.get(name) is not None}
    return {**entry, **{name: at_ns - part.offset_ns for name, at_ns in known.items()}}


def host_sum(
    entries: Iterable[Mapping[str, Any]], parts: Iterable[ClientDetails], name: str
) -> int | None:
    """Add up a counter over the hosts of all clients; None if a client has no count.

    Each client counts the activity of its whole host. If several clients share a host, only the
    largest of their counts is added.
    """
    hosts: dict[str, int] = {}
    for entry, part in zip(entries, parts, strict=True):
        counted = entry.get(name)
        if counted is None:
            return None
        hosts[part.host] = max(hosts.get(part.host, 0), counted)
    return sum(hosts.values())
