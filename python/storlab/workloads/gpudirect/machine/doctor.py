"""Checks of ``storlab doctor`` on GPUs: which path data will take, and what is missing."""

from __future__ import annotations

import os
import platform
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from storlab.contracts.check import Check
from storlab.stores import pci
from storlab.workloads.gpudirect.details import CuFileTold, GpuReport, LibrariesTold
from storlab.workloads.gpudirect.machine import kernel as kernels
from storlab.workloads.gpudirect.machine import storage
from storlab.workloads.gpudirect.machine.check_rows import error, ok, warning
from storlab.workloads.gpudirect.machine.configuration import configuration
from storlab.workloads.gpudirect.machine.effective_settings import effective_settings
from storlab.workloads.gpudirect.machine.media import drive_rows, file_system_row, udev_rows
from storlab.workloads.gpudirect.machine.memory import Demand, aperture_rows, memory_rows, used_gpus
from storlab.workloads.gpudirect.machine.placement import distance_rows, gpu_row, link_row
from storlab.workloads.gpudirect.machine.probe import Libraries, Probe, Probing, probe
from storlab.workloads.gpudirect.machine.routes import (
    configuration_row,
    driver_row,
    iommu_rows,
    library_rows,
    memlock_row,
    p2pdma_obstacles,
    posix_row,
    proof_row,
    route_rows,
    small_io_row,
)
from storlab.workloads.gpudirect.machine.run_facts import stand_ins


@dataclass(frozen=True, slots=True)
class Machine:
    """Sources of facts about the machine; tests replace them."""

    root: Path = Path("/")
    environment: Mapping[str, str] = field(default_factory=lambda: os.environ)
    probing: Probing = probe
    is_root: bool = field(default_factory=lambda: os.geteuid() == 0)
    processor: str = field(default_factory=platform.machine)


def examine_machine(libraries: Libraries, machine: Machine | None = None) -> list[Check]:
    """Check this machine for GPUs, drivers and paths, independent of a target."""
    machine = machine or Machine()
    cards = pci.gpus(machine.root)
    driver = kernels.nvidia_driver(machine.root)
    if not cards and driver is None:
        what = "this machine has no NVIDIA GPU; only transfers to GPU memory need one"
        return [ok("GPU", what)]
    probed = machine.probing(libraries)
    rows = [driver_row(driver), *_trouble_rows(probed), *library_rows(probed)]
    for card in cards:
        told = _told(card, probed)
        rows.append(gpu_row(card, told))
        link = link_row(_name(told), card)
        rows += [] if link is None else [link]
    configured = configuration(machine.root, machine.environment)
    kernel = kernels.kernel(machine.root)
    lacks = p2pdma_obstacles(kernel, driver, cards, probed, machine.processor)
    nvidia_fs = kernels.nvidia_fs_version(machine.root)
    held = effective_settings(configured, probed)
    rows += [*route_rows(nvidia_fs, lacks, held), configuration_row(configured, held, probed)]
    rows += iommu_rows(machine.root, cards)
    rows.append(small_io_row(machine.environment))
    more = (proof_row(machine.root, probed), memlock_row(machine.root, machine.is_root))
    return [*rows, *(row for row in more if row is not None)]


def examine_target(
    places: Sequence[Path],
    demands: Sequence[Demand],
    libraries: Libraries,
    machine: Machine | None = None,
    *,
    others: bool = False,
) -> list[Check]:
    """Check whether the points of a study can run on a target, and whether directly.

    Args:
        places: Files, devices or directories of the target.
        demands: GPU resources that the points need.
        libraries: Libraries that the points name.
        machine: Sources of facts about the machine.
        others: Whether the target has further points, which do not need cuFile.
    """
    machine = machine or Machine()
    if not any(demand.needs_gpu for demand in demands):
        return []
    direct = any(demand.needs_cufile for demand in demands)
    others = others or not all(demand.needs_cufile for demand in demands)
    probed = _probed(machine, libraries, direct=direct, others=others)
    usable = {gpu.number for gpu in probed.gpus}.issuperset(used_gpus(demands))
    rows = [*_needed_rows(probed, direct=direct, others=others, usable=usable)]
    unreal = stand_ins(LibrariesTold(cuda=probed.cuda, cufile=probed.cufile), machine.root)
    if unreal and probed.gpus:
        what = f"{'; '.join(unreal)}: all results will be flagged as emulated"
        rows.append(warning("GPU stand-ins", what, "use a GPU with NVIDIA's driver and libraries"))
    if usable or probed.cuda_trouble is None:
        rows += memory_rows(demands, probed)
    cards = [
        (gpu, card)
        for gpu in probed.gpus
        if gpu.number in used_gpus(demands)
        and (card := pci.device(machine.root, gpu.pci)) is not None
    ]
    rows += [row for gpu, card in cards for row in aperture_rows(demands, gpu.number, card)]
    configured = configuration(machine.root, machine.environment)
    held = effective_settings(configured, probed)
    sizes = [demand.least_block for demand in demands if demand.needs_cufile]
    nvidia_fs = held.finds(kernels.nvidia_fs_version(machine.root))
    seen: set[storage.Under] = set()
    for place in places:
        under = storage.under(place, machine.root)
        if under not in seen:
            seen.add(under)
            rows += _place_rows(
                machine.root, under, cards, direct=direct, nvidia_fs=nvidia_fs, real=not unreal
            )
            small = posix_row(under.file_system, sizes, configured)
            rows += [] if small is None else [small]
    return rows


def _place_rows(
    root: Path,
    under: storage.Under,
    cards: Sequence[tuple[GpuReport, pci.PciDevice]],
    *,
    direct: bool,
    nvidia_fs: bool,
    real: bool,
) -> Iterator[Check]:
    if direct:
        yield file_system_row(under)
        yield from udev_rows(under, real=real)
        yield from drive_rows(under, nvidia_fs=nvidia_fs)
    drives = [
        (drive, device)
        for drive in under.drives
        if drive.pci is not None and (device := pci.device(root, drive.pci)) is not None
    ]
    for gpu, card in cards if direct else ():
        yield from distance_rows(root, card, _name(gpu), drives)


def _probed(machine: Machine, libraries: Libraries, *, direct: bool, others: bool) -> Probe:
    """Probe the GPU libraries; if that fails and some points need no cuFile, retry without it."""
    without = Libraries(libraries.cuda, ())
    if not direct:
        return machine.probing(without)
    probed = machine.probing(libraries)
    if probed.trouble is None or not others:
        return probed
    alone = machine.probing(without)
    return replace(alone, cufile=CuFileTold(error=probed.trouble))


def _needed_rows(probed: Probe, *, direct: bool, others: bool, usable: bool) -> Iterator[Check]:
    """Yield an error for each library that runs need but that cannot be used.

    ``usable`` states that all GPUs of the study work. An error of CUDA is about another GPU then,
    and becomes a warning.
    """
    if probed.cuda_trouble is not None:
        row = warning if usable else error
        yield row("libcuda", probed.cuda_trouble.what, probed.cuda_trouble.fix)
    if (usable or probed.cuda_trouble is None) and direct and probed.cufile_trouble is not None:
        what, fix = probed.cufile_trouble.what, probed.cufile_trouble.fix
        if others:
            what += "; runs with path = direct will fail"
            fix = f'{fix}; or remove "direct" from path'
        yield error("libcufile", what, fix)


def _trouble_rows(probed: Probe) -> Iterator[Check]:
    """Yield a warning for each library that cannot be used."""
    if probed.trouble is not None:
        yield warning("GPU libraries", probed.trouble.what, probed.trouble.fix)
        return
    for name, trouble in (("libcuda", probed.cuda_trouble), ("libcufile", probed.cufile_trouble)):
        if trouble is not None:
            yield warning(name, trouble.what, trouble.fix)


def _told(card: pci.PciDevice, probed: Probe) -> GpuReport | None:
    return next((gpu for gpu in probed.gpus if pci.normal(gpu.pci) == card.address), None)


def _name(gpu: GpuReport | None) -> str:
    return "GPU" if gpu is None else f"GPU {gpu.number}"
