"""Preflight checks of how drives are attached (PCIe, paths, NUMA), and of the state of cores."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from pathlib import Path

from storlab.contracts.check import Check
from storlab.lab.watch.machine_watch import drives_of, near_cpus
from storlab.process.processor_state import (
    ROOT,
    frequency_khz,
    idle_states,
    stalled_us,
    turbo,
)
from storlab.stores.drives import Drive, paths_of
from storlab.stores.medium import medium_of

_RESEAT = "reseat the drive, or use a slot that has all lanes and its PCIe generation"


def attachment_checks(places: Sequence[Path], *, numa_local: bool) -> Iterator[Check]:
    """Check how the drives below a target's files or devices are attached.

    Args:
        places: Files, directories or devices of the target.
        numa_local: Whether the study pins workers to the NUMA node of the drives.
    """
    devices = [device for place in places for device in medium_of(place).devices]
    return drive_checks(drives_of(devices), numa_local=numa_local)


def drive_checks(
    drives: Sequence[Drive], *, numa_local: bool, root: Path = ROOT
) -> Iterator[Check]:
    """Check the PCIe links, paths and NUMA nodes of drives; nothing for what is not reported."""
    for drive in drives:
        slow = [link for link in drive.links if link.is_degraded]
        if slow:
            what = f"{drive.name} is at {slow[0]}, but drive and slot can do {slow[0].most}"
            yield Check(name="PCIe link", status="warning", what=what, fix=_RESEAT)
        if drive.transport != "unknown":
            yield Check(name="attachment", status="ok", what=_attachment_text(drive))
    for name, paths in paths_of(drives).items():
        text = f"{name}: {'; '.join(map(str, paths))}"
        if all(path.is_usable for path in paths):
            yield Check(name="paths", status="ok", what=text)
        else:
            fix = "restore the path, or expect less bandwidth and a pause when paths change"
            yield Check(name="paths", status="warning", what=text, fix=fix)
    near = near_cpus(drives, root)
    if near:
        yield _node_check(drives, near, numa_local=numa_local)
    elif numa_local and drives:
        what = "numa_local = true has no effect: this machine has one node, or reports no nodes"
        yield Check(name="NUMA", status="ok", what=what)


def _attachment_text(drive: Drive) -> str:
    """Return how a drive is attached, and which of these facts the machine does not report."""
    links = [
        f"PCIe {link}{' (limited by the slot)' if link.is_limited_by_slot else ''}"
        for link in drive.links
    ]
    known = [f"{drive.name} by {drive.transport}", *links]
    known += [] if drive.node is None else [f"NUMA node {drive.node}"]
    known += [] if drive.iommu_type is None else [f"IOMMU {drive.iommu_type}"]
    missing = ["PCIe link"] if drive.is_local_nvme and not links else []
    missing += ["NUMA node"] if drive.node is None and drive.pci_devices else []
    missing += ["IOMMU"] if drive.iommu_type is None and drive.pci_devices else []
    absent = f"; not reported: {', '.join(missing)}" if missing else ""
    return f"{', '.join(known)}{absent}"


def _node_check(drives: Sequence[Drive], near: set[int], *, numa_local: bool) -> Check:
    nodes = sorted({drive.node for drive in drives if drive.node is not None})
    names = ", ".join(drive.name for drive in drives)
    where = f"{names} on NUMA node {', '.join(map(str, nodes))}"
    usable = os.sched_getaffinity(0)
    if not usable & near:
        what = f"{where}, but this process may use no CPU of it"
        fix = "allow these CPUs in the cpuset or by taskset"
        return Check(name="NUMA", status="warning", what=what, fix=fix)
    if numa_local or usable <= near:
        return Check(name="NUMA", status="ok", what=f"{where}, and so are the workers")
    what = f"{where}, but workers may run on other nodes"
    fix = "set numa_local = true in [study], or cpus in the workload"
    return Check(name="NUMA", status="warning", what=what, fix=fix)


def state_check(root: Path = ROOT) -> Check:
    """Report which facts about cores and memory this machine has, and which it does not report."""
    cpu = min(os.sched_getaffinity(0))
    states, has_turbo = idle_states(cpu, root), turbo(root)
    told = {
        "idle states": ", ".join(f"{state.name} ({state.latency_us} us)" for state in states),
        "turbo": "" if has_turbo is None else "on" if has_turbo else "off",
        "frequency": "reported" if frequency_khz(cpu, root) else "",
        "memory pressure": "reported" if "memory" in stalled_us(root) else "",
    }
    known = [f"{name} {text}" for name, text in told.items() if text]
    missing = [name for name, text in told.items() if not text]
    absent = f"not reported: {', '.join(missing)} (as in most virtual machines)" if missing else ""
    return Check(name="CPU state", status="ok", what="; ".join(filter(None, [*known, absent])))
