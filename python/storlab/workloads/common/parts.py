"""What the clients of a cluster tell of their shares, put together."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from storlab.contracts.offers import Part


def zipped(parts: Sequence[Part], name: str) -> list[tuple[Mapping[str, Any], ...]]:
    """Of each of the pieces that all clients have finished, what each tells of it, in order."""
    return list(zip(*(part.details.get(name) or () for part in parts), strict=False))


def moved(entry: Mapping[str, Any], part: Part, times: Iterable[str]) -> dict[str, Any]:
    """The entry with these of its clock readings on the clock of the whole."""
    known = {name: entry[name] for name in times if entry.get(name) is not None}
    return {**entry, **{name: at_ns - part.offset_ns for name, at_ns in known.items()}}


def host_sum(entries: Iterable[Mapping[str, Any]], parts: Iterable[Part], name: str) -> int | None:
    """Of all hosts; None where a client could not count. Clients of one host have all counted
    what it did, each for itself.
    """
    hosts: dict[str, int] = {}
    for entry, part in zip(entries, parts, strict=True):
        counted = entry.get(name)
        if counted is None:
            return None
        hosts[part.host] = max(hosts.get(part.host, 0), counted)
    return sum(hosts.values())
