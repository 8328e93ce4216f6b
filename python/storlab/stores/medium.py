"""Find the block devices or the memory on which the data of a path is stored."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from storlab.stores.devices import Device, device_number, read_fact, unescape
from storlab.stores.filesystems import FileSystem, existing_parent, file_system_of

T = TypeVar("T")
_BTRFS = Path("/sys/fs/btrfs")
_MEMORY_DEVICES = re.compile(r"(ram|zram|nullb)\d+")
_NETWORK = ("nfs", "nfs4", "cifs", "smb3", "9p", "ceph", "lustre", "gpfs", "beegfs", "glusterfs")
_UNESCAPED_COLON = re.compile(r"(?<!\\):")


@dataclass(frozen=True, slots=True)
class Medium:
    """Devices that store a file's data, and phrases on storage layers that keep it in memory."""

    devices: tuple[Device, ...] = ()  # devices whose counters see the I/O; empty: unknown
    memory: tuple[str, ...] = ()  # layers that store data in memory
    cached: tuple[str, ...] = ()  # layers that use the page cache
    unknown: tuple[str, ...] = ()  # reasons why devices are unknown

    def __add__(self, other: Medium) -> Medium:
        """Return the media of two files or devices as one, without duplicates."""
        return Medium(
            _once(self.devices + other.devices),
            _once(self.memory + other.memory),
            _once(self.cached + other.cached),
            _once(self.unknown + other.unknown),
        )


def _once(items: Iterable[T]) -> tuple[T, ...]:
    return tuple(dict.fromkeys(items))


def is_remote(kind: str) -> bool:
    """Return whether a type of file system is a network file system or FUSE."""
    return kind in _NETWORK or kind.startswith("fuse")


def is_memory_device(name: str) -> bool:
    """Return whether a block device stores its data in memory, by its kernel name (``zram0``)."""
    return _MEMORY_DEVICES.fullmatch(name) is not None


def medium_of(place: Path) -> Medium:
    """Return the block devices that store a file, directory or device, through all layers.

    The search passes through overlayfs, btrfs, loop devices, and stacked devices (device mapper,
    md, bcache). ``devices`` has the uppermost ones, whose counters see the I/O as it was submitted.
    Lower ones are only checked for memory and page caches.
    """
    number = device_number(place)
    return _of_file(place) if number is None else _of_device(Device(number), frozenset())


def _of_file(place: Path, seen: frozenset[int] = frozenset()) -> Medium:
    under = file_system_of(place)
    if under.in_memory:
        return Medium(memory=(f"{under.kind} at {under.mount_point} is memory",))
    if under.kind == "overlay":
        return _of_overlay(place, under, seen)
    if (why := _why_bypassed(under)) is not None:
        return Medium(unknown=(why,))
    if under.kind == "btrfs" and under.device is not None:
        devices = _btrfs_devices(under.device)
    else:
        number = existing_parent(place).stat().st_dev
        own = Device(number) if os.major(number) and Device(number).is_there else under.device
        devices = [] if own is None else [own]
    if not devices:
        return Medium(unknown=(_why_none(under),))
    return sum((_of_device(device, seen) for device in devices), Medium())


def _why_bypassed(under: FileSystem) -> str | None:
    for option in under.options.split(","):
        if option == "dax" or option.startswith("dax=always"):
            return f"{under.mount_point} is mounted with DAX, whose I/O is not counted by devices"
        if option.startswith("rtdev="):
            return f"data of {under.mount_point} may lie on its realtime device"
    return None


def _why_none(under: FileSystem) -> str:
    name = f"{under.kind} at {under.mount_point}"
    if under.kind.startswith("fuse"):
        return f"{name} is served by a FUSE program, which does not report its devices"
    if under.kind in _NETWORK:
        return f"{name} is a network file system, so its devices are in the server"
    if under.kind == "zfs":
        return f"{name}: the kernel does not list the devices of a ZFS pool"
    return f"no block device is known below {name}"


def _of_overlay(place: Path, under: FileSystem, seen: frozenset[int]) -> Medium:
    """Return the medium of the overlay layer that contains a file.

    New and changed files are in the upper layer, all others in a lower one.
    """
    real = Path(os.path.realpath(place))
    inside = Path(under.root) / real.relative_to(under.mount_point)
    layers = _layers(under.options)
    for layer in layers:
        path = Path(layer + str(inside))
        if path.exists() and not (place.is_file() and path.is_dir()):
            return _of_file(path, seen)
    if not place.exists() and layers and Path(layers[0]).is_dir():
        return _of_file(Path(layers[0]), seen)
    return Medium(
        unknown=(f"overlay at {under.mount_point}: its layers lie outside of this mount namespace",)
    )


def _layers(options: str) -> list[str]:
    """Return the layer directories of an overlay mount from its options, topmost first."""
    upper: list[str] = []
    lower: list[str] = []
    for option in options.split(","):
        name, _, value = option.partition("=")
        if name == "upperdir":
            upper.append(unescape(value))
        elif name in ("lowerdir", "lowerdir+", "datadir+"):
            parts = _UNESCAPED_COLON.split(unescape(value)) if name == "lowerdir" else [value]
            lower += [part.replace("\\:", ":") for part in parts if part]
    return upper + lower


def _of_device(device: Device, seen: frozenset[int]) -> Medium:
    """Return the medium of a device: the device itself, and what its lower layers add.

    Args:
        device: The device.
        seen: Numbers of the devices above it. The search ends if one of them is found again.
    """
    here = Medium(devices=(device,))
    if device.rdev in seen or not device.is_there:
        return here
    disk, seen = device.whole, seen | {device.rdev}
    if is_memory_device(disk.name):
        return here + Medium(memory=(f"{disk.name} is memory",))
    below = [_of_device(part, seen) for part in _parts(device)]
    if (backing := disk.backing_file) is not None:
        below.append(_of_backing(disk, Path(backing), seen))
    for medium in below:
        here += Medium((), medium.memory, medium.cached, medium.unknown)
    return here


def _of_backing(loop: Device, backing: Path, seen: frozenset[int]) -> Medium:
    cached: tuple[str, ...] = ()
    if read_fact(loop.sysfs / "loop" / "dio") != "1":
        cached = (f"{loop.name} reads and writes its file through the page cache (loop/dio is 0)",)
    try:
        return Medium(cached=cached) + _of_backing_file(backing, seen)
    except OSError:
        why = f"{backing}, the backing file of {loop.name}, cannot be accessed"
        return Medium(cached=cached, unknown=(why,))


def _of_backing_file(backing: Path, seen: frozenset[int]) -> Medium:
    backing.stat()
    number = device_number(backing)
    return _of_file(backing, seen) if number is None else _of_device(Device(number), seen)


def _parts(device: Device) -> list[Device]:
    """Return the devices of which a stacked device consists, from ``slaves`` in sysfs."""
    entries = [*(device.sysfs / "slaves").glob("*"), *(device.whole.sysfs / "slaves").glob("*")]
    numbers = [_number(entry / "dev") for entry in entries]
    return [Device(number) for number in _once(numbers) if number is not None]


def _btrfs_devices(device: Device) -> list[Device]:
    """Return all devices of the btrfs file system to which a device belongs."""
    for directory in _BTRFS.glob("*/devices"):
        numbers = [_number(entry / "dev") for entry in directory.iterdir()]
        known = [number for number in numbers if number is not None]
        if device.rdev in known:
            return [Device(number) for number in known] if len(known) == len(numbers) else []
    return []


def _number(dev: Path) -> int | None:
    major, _, minor = (read_fact(dev) or "").partition(":")
    return os.makedev(int(major), int(minor)) if major.isdigit() and minor.isdigit() else None
