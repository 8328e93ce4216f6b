"""Merge what the clients of a cluster report about a GPUDirect run."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from storlab.contracts.details import DeviceMoved
from storlab.workloads.gpudirect.details import (
    Compared,
    GpuDirectDetails,
    Registration,
    RouteReport,
)


def merged_details(clients: Sequence[GpuDirectDetails]) -> dict[str, Any]:
    """Add up bytes by route to the GPU, registrations, comparisons and device bytes of all clients.

    If one client did not count bytes by route (p2p, nvfs, posix), the merged run has no such
    counts, and its path is unproven. Libraries are those of the first client, since all clients
    must use equal ones.
    """
    moved = [client.load_device for client in clients]
    whole = clients[0].model_copy(
        update={
            "gpus": tuple(gpu for client in clients for gpu in client.gpus),
            "route": RouteReport.summed([client.route for client in clients]),
            "load_device": _moved([each for each in moved if each is not None], len(clients)),
            "registration": _registered([c.registration for c in clients if c.registration]),
            "first_pass": _compared([c.first_pass for c in clients if c.first_pass]),
            "read_back": _compared([c.read_back for c in clients if c.read_back]),
            "path_obstacles": _distinct([c.path_obstacles for c in clients]),
            "stand_ins": _distinct([c.stand_ins for c in clients]),
        }
    )
    return whole.model_dump(mode="json")


def _distinct(texts: Sequence[Sequence[str]]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(text for each in texts for text in each))


def _moved(parts: Sequence[DeviceMoved], clients: int) -> DeviceMoved | None:
    """Add up the bytes counted by the devices of all clients; None unless each has a count."""
    if len(parts) < clients:
        return None
    sums = {n: sum(getattr(p, n) for p in parts) for n in ("read_bytes", "written_bytes")}
    names = tuple(name for part in parts for name in part.devices)
    return parts[0].model_copy(update={**sums, "devices": names})


def _registered(parts: Sequence[Registration]) -> Registration | None:
    """Add up the registered buffers and files of all clients; times are those of the slowest."""
    if not parts:
        return None
    sums = {n: sum(getattr(p, n) for p in parts) for n in ("buffers", "bytes", "handles")}
    longest = {n: max(getattr(p, n) for p in parts) for n in ("ns", "handles_ns")}
    return Registration(**sums, **longest)


def _compared(parts: Sequence[Compared]) -> Compared | None:
    if not parts:
        return None
    names = ("files", "bytes", "wrong", "earlier")
    sums = {name: sum(getattr(part, name) for part in parts) for name in names}
    return Compared(**sums, ns=max(part.ns for part in parts))
