"""Find the storage below a file: file system, block device layers, and drives."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from storlab.stores.devices import device_number, read_fact
from storlab.stores.filesystems import existing_parent, file_system_of
from storlab.workloads.gpudirect.machine.pci import address_in

_DEEPEST = 16  # limit of layers, more than any machine has
_USAGE = "E:ID_FS_USAGE=filesystem"  # as cuFile reads it through libudev


@dataclass(frozen=True, slots=True)
class Drive:
    """Drive: a block device that does not consist of others."""

    name: str  # such as nvme0n1
    transport: str  # pcie, tcp, rdma, fc or loop, as the NVMe driver names it
    pci: str | None  # address of the controller, if it is on this machine's PCIe

    @property
    def is_local_nvme(self) -> bool:
        """Whether the drive is a local NVMe drive, as both direct routes require."""
        return self.transport == "pcie" and self.name.startswith("nvme")


@dataclass(frozen=True, slots=True)
class Layer:
    """Block device that consists of others, such as RAID or dm-crypt."""

    name: str  # such as md0
    kind: str  # raid0, LVM, CRYPT, mpath, ...


@dataclass(frozen=True, slots=True)
class Under:
    """Storage below a path: file system, block device layers, and drives."""

    file_system: str | None  # None: the path is a block device
    options: frozenset[str]
    layers: tuple[Layer, ...]
    drives: tuple[Drive, ...]
    unknown_to_udev: str | None = None  # udev file that lacks the file system; None: it has it


def under(place: Path, root: Path = Path("/")) -> Under:
    """Find the storage below a file, directory or block device, which need not exist yet."""
    number = device_number(place)
    if number is not None:
        layers, drives = stack(root, _text(number))
        return Under(None, frozenset(), layers, drives)
    mounted = file_system_of(place)
    options = frozenset(mounted.options.split(","))
    device = device_number(mounted.source) or _number_of_files(place)
    if device is None:
        return Under(mounted.kind, options, (), ())
    layers, drives = stack(root, _text(device))
    return Under(mounted.kind, options, layers, drives, _unknown_to_udev(root, _text(device)))


def _unknown_to_udev(root: Path, number: str) -> str | None:
    """Return the path of udev's record of a device if it names no file system; else None."""
    place = Path("run/udev/data") / f"b{number}"
    known = _USAGE in (read_fact(root / place) or "").splitlines()
    return None if known else str("/" / place)


def stack(root: Path, number: str) -> tuple[tuple[Layer, ...], tuple[Drive, ...]]:
    """Return the layers of a block device ``major:minor`` from the top, and its drives."""
    layers: dict[str, Layer] = {}
    drives: dict[str, Drive] = {}
    place = root / "sys/dev/block" / number
    if place.exists():
        for part in _walk(place.resolve(), 0):
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
        return Drive(disk.name, "loop", None)
    for controller in _controllers(disk):
        transport = read_fact(controller / "transport") or "pcie"
        return Drive(disk.name, transport, address_in(controller))
    address = address_in(disk)
    return Drive(disk.name, "pcie" if address else "unknown", address)


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


def _number_of_files(place: Path) -> int | None:
    """Return the device number ``major:minor`` of a path; None if it is not on a block device.

    It is needed in containers, where a mount may name no device in /dev.
    """
    number = existing_parent(place).stat().st_dev
    return number if os.major(number) else None


def _text(number: int) -> str:
    return f"{os.major(number)}:{os.minor(number)}"
