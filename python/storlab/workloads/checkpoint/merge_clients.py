"""Merge clients' reports on the same checkpoints, each of which covers the client's own ranks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from storlab.contracts.family import ClientDetails
from storlab.workloads.common.merge_details import host_sum, moved, zipped

_RANK_TIMES = ("start_ns", "moved_ns", "end_ns")


def merged_details(parts: Sequence[ClientDetails]) -> dict[str, Any]:
    """Merge the reports of all clients; times are converted to the controller's clock."""
    return {
        **parts[0].details,
        "writes": [_write(entries, parts) for entries in zipped(parts, "writes")],
        "restores": [_restore(entries, parts) for entries in zipped(parts, "restores")],
        "device_counters": all(part.details.get("device_counters") for part in parts),
    }


def _write(entries: Sequence[Mapping[str, Any]], parts: Sequence[ClientDetails]) -> dict[str, Any]:
    return {
        **_common(entries, parts),
        "written_ns": _last(entries, parts, "written_ns"),
        "durable_ns": _last(entries, parts, "durable_ns"),
        "device_written_bytes": host_sum(entries, parts, "device_written_bytes"),
    }


def _restore(
    entries: Sequence[Mapping[str, Any]], parts: Sequence[ClientDetails]
) -> dict[str, Any]:
    verified = [entry.get("verified") for entry in entries]
    return {
        **_common(entries, parts),
        "end_ns": _last(entries, parts, "end_ns"),
        "device_read_bytes": host_sum(entries, parts, "device_read_bytes"),
        "resident_before_bytes": sum(entry.get("resident_before_bytes") or 0 for entry in entries),
        "verified": None if None in verified else all(verified),
    }


def _common(entries: Sequence[Mapping[str, Any]], parts: Sequence[ClientDetails]) -> dict[str, Any]:
    """Merge fields that checkpoints and restores share; the start is the earliest client's."""
    pairs = list(zip(entries, parts, strict=True))
    ranks = [
        {**moved(rank, part, _RANK_TIMES), "client": part.client}
        for entry, part in pairs
        for rank in entry.get("ranks") or ()
    ]
    return {
        "number": entries[0].get("number"),
        "start_ns": min(entry["start_ns"] - part.offset_ns for entry, part in pairs),
        "bytes": sum(entry["bytes"] for entry in entries),
        "ranks": ranks,
    }


def _last(
    entries: Sequence[Mapping[str, Any]], parts: Sequence[ClientDetails], name: str
) -> int | None:
    pairs = zip(entries, parts, strict=True)
    ends = [moved(entry, part, (name,)).get(name) for entry, part in pairs]
    known = [end for end in ends if end is not None]
    return max(known) if len(known) == len(ends) else None
