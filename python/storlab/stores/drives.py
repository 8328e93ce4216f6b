"""Find the drives below a block device, and how each is attached to this machine."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from storlab.stores.devices import read_fact
from storlab.stores.pci import Link, PciDevice, address_in, device_above

_DEEPEST = 16  # limit of layers, more than any machine has
# Parts of the sysfs path of a disk that is not NVMe, by transport.
_BUSES = {
    "iscsi": re.compile(r"session\d+"),
    "fc": re.compile(r"rport-.+"),
    "sas": re.compile(r"(end_device|expander)-.+"),
    "sata": re.compile(r"ata\d+"),
    "usb": re.compile(r"usb\d+"),
    "virtio": re.compile(r"virtio\d+"),
}
_NAMESPACE = re.compile(r"(nvme\d+)(n\d+)")
_USABLE = ("live", "running")  # states of NVMe controllers and of SCSI disks


@dataclass(frozen=True, slots=True)
class DrivePath:
    """Path to a drive that has several, or whose target reports the state of its paths."""

    name: str  # of the NVMe controller or SCSI disk, such as nvme1 or sdb
    state: str  # live or running if it is usable
    access: str | None  # ANA or ALUA state, such as optimized or active/optimized; None if unknown

    @property
    def is_usable(self) -> bool:
        """Whether the path can transfer data."""
        return self.state in _USABLE

    @property
    def is_optimized(self) -> bool:
        """Whether the target prefers this path, according to its ANA or ALUA state."""
        return self.is_usable and (self.access or "").rpartition("/")[2] == "optimized"

    def __str__(self) -> str:
        """Format as ``nvme1 live, non-optimized``."""
        return f"{self.name} {self.state}" + (f", {self.access}" if self.access else "")


@dataclass(frozen=True, slots=True)
class Drive:
    """Drive: a block device that does not consist of others."""

    name: str  # such as nvme0n1
    # pcie, tcp, rdma, fc or loop (NVMe); iscsi, fc, sas, sata, usb or virtio; unknown
    transport: str
    pci: str | None  # address of the first controller, if it is on this machine's PCIe
    sysfs: Path = field(default=Path(), compare=False)  # directory of the disk
    # directories of its NVMe controllers, one per path; for other disks its own directory
    controllers: tuple[Path, ...] = field(default=(), compare=False)

    @property
    def is_local_nvme(self) -> bool:
        """Whether the drive is a local NVMe drive, as both direct routes of GPUs require."""
        return self.transport == "pcie" and self.name.startswith("nvme")

    @property
    def pci_devices(self) -> list[PciDevice]:
        """PCIe devices of the drive's controllers; of SATA and SAS disks that of the adapter."""
        found = (device_above(controller) for controller in self.controllers)
        return [device for device in found if device is not None]

    @property
    def links(self) -> list[Link]:
        """PCIe links of a local NVMe drive; empty for other drives, which share an adapter's."""
        if not self.is_local_nvme:
            return []
        return [link for device in self.pci_devices if (link := device.link) is not None]

    @property
    def node(self) -> int | None:
        """NUMA node to which the drive is attached; None if not reported."""
        known = [device.node for device in self.pci_devices]
        text = read_fact(self.sysfs / "device" / "numa_node") or "-1"  # persistent memory
        known.append(int(text) if text.isdigit() else None)
        return next((node for node in known if node is not None), None)

    @property
    def iommu_type(self) -> str | None:
        """Type of the IOMMU domain: ``identity`` passes addresses through; None without IOMMU."""
        return next((d.iommu_type for d in self.pci_devices if d.iommu_type is not None), None)

    @property
    def paths(self) -> list[DrivePath]:
        """Paths to the drive; empty if it is attached directly and has a single one."""
        match = _NAMESPACE.fullmatch(self.name)
        if match is None:
            access = read_fact(self.sysfs / "device" / "access_state")
            if access is None and self.multipath is None:
                return []
            state = read_fact(self.sysfs / "device" / "state") or "unknown"
            return [DrivePath(self.name, state, access)]
        paths = []
        for controller in self.controllers:
            # With the kernel's multipath, each path has a hidden disk such as nvme0c1n1.
            disks = [*controller.glob(f"{match[1]}c*{match[2]}"), controller / self.name]
            access = next((text for disk in disks if (text := read_fact(disk / "ana_state"))), None)
            paths.append(
                DrivePath(controller.name, read_fact(controller / "state") or "unknown", access)
            )
        several = len(paths) > 1 or not self.is_local_nvme or any(path.access for path in paths)
        return paths if several else []

    @property
    def multipath(self) -> str | None:
        """Name of the dm-multipath device of which a SCSI disk is a path; None without one."""
        for place in self.sysfs.glob("holders/*"):
            if (read_fact(place / "dm" / "uuid") or "").startswith("mpath-"):
                return place.name
        return None


def paths_of(drives: Iterable[Drive]) -> dict[str, list[DrivePath]]:
    """Return the paths to drives by name of the drive, or of the dm-multipath device above it."""
    found: dict[str, list[DrivePath]] = {}
    for drive in drives:
        if paths := drive.paths:
            found.setdefault(drive.multipath or drive.name, []).extend(paths)
    return found


@dataclass(frozen=True, slots=True)
class Layer:
    """Block device that consists of others, such as RAID or dm-crypt."""

    name: str  # such as md0
    kind: str  # raid0, LVM, CRYPT, mpath, ...


def stack(root: Path, number: str) -> tuple[tuple[Layer, ...], tuple[Drive, ...]]:
    """Return the layers of a block device ``major:minor`` from the top, and its drives."""
    place = root / "sys/dev/block" / number
    return stack_of(place.resolve()) if place.exists() else ((), ())


def stack_of(sysfs: Path) -> tuple[tuple[Layer, ...], tuple[Drive, ...]]:
    """Return the layers of a block device from the top, and its drives, by its sysfs directory."""
    layers: dict[str, Layer] = {}
    drives: dict[str, Drive] = {}
    for part in _walk(sysfs, 0):
        if isinstance(part, Layer):
            layers.setdefault(part.name, part)
        else:
            drives.setdefault(part.name, part)
    return tuple(layers.values()), tuple(drives.values())


def _walk(sysfs: Path, depth: int) -> Iterator[Layer | Drive]:
    disk = sysfs.parent if (sysfs / "partition").exists() else sysfs
    parts = sorted((disk / "slaves").glob("*"))
    if not parts or depth > _DEEPEST:
        yield _drive(disk)
        return
    yield Layer(disk.name, _kind(disk))
    for part in parts:
        yield from _walk(part.resolve(), depth + 1)


def _kind(disk: Path) -> str:
    level = read_fact(disk / "md" / "level")
    if level is not None:
        return level
    return (read_fact(disk / "dm" / "uuid") or "layered").partition("-")[0]


def _drive(disk: Path) -> Drive:
    if (disk / "loop").is_dir():
        return Drive(disk.name, "loop", None, disk)
    controllers = tuple(_controllers(disk))
    if controllers:
        transport = read_fact(controllers[0] / "transport") or "pcie"
        return Drive(disk.name, transport, address_in(controllers[0]), disk, controllers)
    address = address_in(disk)
    return Drive(disk.name, _bus(disk, address), address, disk, (disk,))


def _bus(disk: Path, address: str | None) -> str:
    for part in disk.parts:
        for transport, pattern in _BUSES.items():
            if pattern.fullmatch(part):
                return transport
    return "pcie" if address else "unknown"


def _controllers(disk: Path) -> Iterator[Path]:
    """Yield the sysfs directories of the controllers of an NVMe namespace.

    This is the parent directory or, with multipath, a link beside the namespace.
    """
    if not disk.name.startswith("nvme"):
        return
    if (disk.parent / "transport").exists():
        yield disk.parent
        return
    for entry in sorted(disk.parent.glob("nvme[0-9]*")):
        if (entry / "transport").exists():
            yield entry.resolve()
