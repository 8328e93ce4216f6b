"""Merge clients' reports on the same epochs, each of which covers the client's accelerators."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from storlab.contracts.family import ClientDetails
from storlab.workloads.common.merge_details import host_sum, moved, zipped

_TIMES = ("start_ns", "end_ns")
_STEP_TIMES = ("start_ns", "end_ns", "first_end_ns")


def merged_details(parts: Sequence[ClientDetails]) -> dict[str, Any]:
    """Merge the reports of all clients; times are converted to the controller's clock."""
    return {
        **parts[0].details,
        "epochs": [_epoch(entries, parts) for entries in zipped(parts, "epochs")],
        "retries": sum(part.details.get("retries") or 0 for part in parts),
        "device_counters": all(part.details.get("device_counters") for part in parts),
        "accelerator_precedence": _weakest(parts),
        "host_memory_bytes": _memory(parts),
    }


def _epoch(entries: Sequence[Mapping[str, Any]], parts: Sequence[ClientDetails]) -> dict[str, Any]:
    own = [moved(entry, part, _TIMES) for entry, part in zip(entries, parts, strict=True)]
    return {
        "number": entries[0].get("number"),
        "start_ns": min(entry["start_ns"] for entry in own),
        "end_ns": max(entry["end_ns"] for entry in own),
        "bytes": sum(entry["bytes"] for entry in own),
        "samples": sum(entry["samples"] for entry in own),
        "device_read_bytes": host_sum(entries, parts, "device_read_bytes"),
        "accelerators": [
            {**moved(times, part, _STEP_TIMES), "client": part.client}
            for entry, part in zip(entries, parts, strict=True)
            for times in entry["accelerators"]
        ],
    }


def _weakest(parts: Sequence[ClientDetails]) -> str | None:
    """Return the weakest scheduling precedence of clients' accelerators; ``normal`` is weakest."""
    told = [part.details.get("accelerator_precedence") for part in parts]
    return "normal" if "normal" in told else told[0]


def _memory(parts: Sequence[ClientDetails]) -> int | None:
    """Return the total memory of all hosts in bytes; None if a host did not report it."""
    hosts = {part.host: part.memory_bytes for part in parts}
    known = [size for size in hosts.values() if size is not None]
    return sum(known) if len(known) == len(hosts) else None
