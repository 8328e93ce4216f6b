"""Checks of where GPUs and drives are connected: links, bridges and NUMA nodes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from storlab.base.units import format_bytes_si
from storlab.contracts.check import Check
from storlab.stores.drives import Drive
from storlab.stores.pci import (
    Distance,
    PciDevice,
    distance,
    redirecting_bridges,
)
from storlab.workloads.gpudirect.details import GpuReport
from storlab.workloads.gpudirect.machine.check_rows import ok, warning

_WORDS = {
    Distance.SWITCH: "below one PCIe switch",
    Distance.HOST_BRIDGE: "through the root complex of one CPU",
    Distance.NODE: "across host bridges of one NUMA node",
    Distance.SYSTEM: "across NUMA nodes",
}


def gpu_row(card: PciDevice, told: GpuReport | None) -> Check:
    """Return a line of ``storlab doctor`` with a GPU's name, address, memory and BAR1 size."""
    parts = [card.address]
    if told is not None:
        free, whole = format_bytes_si(told.free_bytes), format_bytes_si(told.memory_bytes)
        parts = [f"{told.name}, compute {told.compute}, {free} of {whole} free", card.address]
    if card.bar1_bytes is not None:
        parts.append(f"BAR1 {format_bytes_si(card.bar1_bytes)}")
    name = f"GPU {told.number}" if told is not None else "GPU"
    return ok(name, ", ".join(parts))


def link_row(name: str, card: PciDevice) -> Check | None:
    """Check whether a GPU's PCIe link has its full width; None without a link.

    Its speed is not judged, because a GPU reduces it while it is idle.
    """
    link = card.link
    if link is None:
        return None
    now, most = f"{link} ({link.gb_s:.1f} GB/s)", f"{link.most} ({link.most_gb_s:.1f} GB/s)"
    if link.is_narrow:
        fix = "reseat it, or use a slot that has all lanes and its PCIe generation"
        return warning(f"{name} link", f"{now}, but {most} is possible", fix)
    if link.is_slow:
        return ok(f"{name} link", f"{now} while idle; {most} under load")
    return ok(f"{name} link", now)


def distance_rows(
    root: Path, card: PciDevice, name: str, drives: Sequence[tuple[Drive, PciDevice]]
) -> Iterator[Check]:
    """Check how far a GPU is from the farthest drive of a target."""
    if not drives:
        return
    far = [(distance(card, device), drive, device) for drive, device in drives]
    worst, drive, device = max(far, key=lambda placed: placed[0])
    what = f"{drive.name} and {name} meet {_WORDS[worst]}"
    if worst >= Distance.NODE:
        yield warning(
            "PCIe distance",
            f"{what}: transfers between them are slower, or not direct",
            "use a drive and a GPU of one NUMA node, best below one PCIe switch",
        )
    else:
        yield ok("PCIe distance", what)
    if worst is not Distance.SWITCH:
        return
    bridges = redirecting_bridges(root, card, device)
    if bridges:
        yield warning(
            "ACS",
            f"bridges send traffic between drive and GPU to the root complex: {', '.join(bridges)}",
            "turn ACS off in the firmware, or by pci=disable_acs_redir=... for these bridges",
        )
    elif bridges is None:
        yield ok("ACS", "unknown: only root can read it")
    else:
        yield ok("ACS", "does not redirect traffic between drive and GPU")
