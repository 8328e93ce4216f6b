"""Identify block devices, and find what uses them, from sysfs and /proc.

Devices are compared by their major:minor number, so a symbolic link or a second node made by
``mknod`` counts as the same device.
"""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

STABLE_DIRECTORIES = ("/dev/disk/by-id", "/dev/disk/by-path")
_SYS_BLOCK = Path("/sys/dev/block")
_SYS_BLOCKS = Path("/sys/block")


@dataclass(frozen=True)
class Device:
    """Block device, given by its device number; properties are read from sysfs on access."""

    rdev: int

    @property
    def number(self) -> str:
        """Device number as ``major:minor``."""
        return f"{os.major(self.rdev)}:{os.minor(self.rdev)}"

    @cached_property
    def sysfs(self) -> Path:
        """Directory of the device in sysfs.

        Raises:
            FileNotFoundError: There is no device with this number.
        """
        return (_SYS_BLOCK / self.number).resolve(strict=True)

    @property
    def is_there(self) -> bool:
        """Whether a device with this number exists."""
        return (_SYS_BLOCK / self.number).exists()

    @property
    def name(self) -> str:
        """Kernel name of the device, such as ``nvme0n1``."""
        return self.sysfs.name

    @property
    def is_partition(self) -> bool:
        """Whether the device is a partition of another one."""
        return (self.sysfs / "partition").exists()

    @property
    def whole(self) -> Device:
        """The disk to which a partition belongs; for a disk, the device itself."""
        return _from_sysfs(self.sysfs.parent) if self.is_partition else self

    @property
    def partitions(self) -> list[Device]:
        """Partitions of the disk; empty if this device is a partition."""
        return [
            _from_sysfs(entry)
            for entry in sorted(self.sysfs.iterdir())
            if (entry / "partition").exists()
        ]

    @property
    def size_bytes(self) -> int:
        """Capacity in bytes."""
        return int(read_fact(self.sysfs / "size") or 0) * 512

    @property
    def sector_bytes(self) -> int:
        """Logical block size in bytes, to which direct I/O must be aligned."""
        return int(read_fact(self.whole.sysfs / "queue" / "logical_block_size") or 512)

    @property
    def backing_file(self) -> str | None:
        """Path of the file behind a loop device; None for other devices."""
        return read_fact(self.whole.sysfs / "loop" / "backing_file")

    def identities(self) -> list[str]:
        """Return all identifiers: serial numbers, WWN, by-id names, backing file of a loop."""
        disk = self.whole.sysfs
        identities = [
            read_fact(disk / place)
            for place in ("serial", "device/serial", "wwid", "device/wwid", "dm/uuid", "md/uuid")
        ]
        identities += [
            _scsi_serial(disk / "device" / "vpd_pg80"),
            self.backing_file,
            *self._udev_names(),
        ]
        identities += self._stable_links()
        return sorted({name for name in identities if name})

    def facts(self) -> dict[str, str | int]:
        """Return properties that identify the device, so that another one in its place is noticed.

        They are the size in bytes, and wwid, serial, nsid, UUID, cid, backing file and partition if
        the device has them. A device with no identifier gets ``diskseq``, the kernel's running
        number of disks, which is valid only until the machine restarts.
        """
        disk = self.whole.sysfs
        known: dict[str, str | int | None] = {
            "wwid": read_fact(disk / "wwid") or read_fact(disk / "device" / "wwid"),
            "serial": self._serial(),
            "nsid": self.namespace,
            "uuid": read_fact(disk / "dm" / "uuid") or read_fact(disk / "md" / "uuid"),
            "cid": read_fact(disk / "device" / "cid"),
            "backing_file": self.backing_file,
        }
        if not any(known.values()):
            known["udev"] = " ".join(sorted(set(self._udev_names()))) or None
        if not any(known.values()):
            known["diskseq"] = read_fact(disk / "diskseq")
        if self.is_partition:
            known["partition"] = read_fact(self.sysfs / "partition")
            known["start"] = read_fact(self.sysfs / "start")
        return {"size": self.size_bytes, **{k: v for k, v in known.items() if v}}

    @property
    def namespace(self) -> str | None:
        """NVMe namespace ID; None if the device is not an NVMe namespace."""
        return read_fact(self.whole.sysfs / "nsid")

    @property
    def is_read_only(self) -> bool:
        """Whether the kernel has marked the device or its disk as read-only."""
        return "1" in (read_fact(self.sysfs / "ro"), read_fact(self.whole.sysfs / "ro"))

    def others_with(self, identity: str) -> list[str]:
        """Return the names of other disks with this identifier, such as second paths to a drive.

        Disks from which this device is made (its slaves in sysfs) are left out.
        """
        disk = self.whole.sysfs
        parts = {entry.name for entry in (disk / "slaves").glob("*")}
        names = []
        for entry in sorted(_SYS_BLOCKS.iterdir()):
            hidden = read_fact(entry / "hidden") == "1"  # a path of an NVMe multipath device
            if hidden or entry.name in parts or entry.resolve() == disk:
                continue
            if identity in _from_sysfs(entry).identities():
                names.append(entry.name)
        return names

    def _serial(self) -> str | None:
        disk = self.whole.sysfs
        serial = read_fact(disk / "serial") or read_fact(disk / "device" / "serial")
        return serial or _scsi_serial(disk / "device" / "vpd_pg80")

    def _udev_names(self) -> list[str]:
        database = Path("/run/udev/data") / f"b{self.whole.number}"
        try:
            lines = database.read_text(errors="replace").splitlines()
        except OSError:
            return []
        wanted = ("E:ID_SERIAL=", "E:ID_SERIAL_SHORT=", "E:ID_WWN=")
        return [line.partition("=")[2] for line in lines if line.startswith(wanted)]

    def _stable_links(self) -> list[str]:
        directory = Path(STABLE_DIRECTORIES[0])
        if not directory.is_dir():
            return []
        return [link.name for link in directory.iterdir() if device_number(link) == self.rdev]


def device_number(path: Path | str) -> int | None:
    """Return the device number (st_rdev) of a block device's path; None for any other path."""
    try:
        status = Path(path).stat()
    except OSError:
        return None
    return status.st_rdev if stat.S_ISBLK(status.st_mode) else None


def place_of(path: Path | str) -> str:
    """Return a key that is the same for all paths that lead to one file or block device."""
    number = device_number(path)
    return os.path.realpath(path) if number is None else f"block device {number}"


def read_fact(path: Path) -> str | None:
    """Return the stripped content of a sysfs file; None if missing, unreadable or empty."""
    try:
        return path.read_text(errors="replace").strip() or None
    except OSError:
        return None


def is_stable_path(path: str) -> bool:
    """Return whether a path is a persistent device name in /dev/disk/by-id or by-path."""
    return str(Path(os.path.normpath(path)).parent) in STABLE_DIRECTORIES


def uses_of_device(device: Device) -> list[str]:
    """Return all uses of a device or its partitions, as clauses for messages; empty if unused.

    Uses are partitions, mounts, swap space, loop devices and stacked devices.
    """
    family = [device, *device.partitions]
    uses = []
    if len(family) > 1:
        uses.append(f"it is divided into {', '.join(part.name for part in family[1:])}")
    for member in family:
        holders = sorted(entry.name for entry in (member.sysfs / "holders").iterdir())
        if holders:
            uses.append(f"{member.name} is part of {', '.join(holders)}")
    numbers = {member.rdev for member in family}
    whole = device.whole.rdev
    uses += [
        f"{mount.source} is mounted on {mount.mount_point}"
        for mount in mount_lines()
        if {mount.number, device_number(mount.source)} & (numbers | {whole})
    ]
    uses += [
        f"{path} is swap space" for path in swaps() if device_number(path) in numbers | {whole}
    ]
    for loop, backing in loops():
        if loop.rdev != device.whole.rdev and device_number(backing) in numbers:
            uses.append(f"it backs {loop.name}")
    backing_file = device.backing_file
    if backing_file is not None:
        uses += _uses_of_backing(device, backing_file)
    return uses


def uses_of_file(path: Path) -> list[str]:
    """Return a file's uses as swap space or by loop devices, as clauses for messages."""
    uses = [f"{path} is swap space" for swap in swaps() if _same_file(path, swap)]
    uses += [f"it backs {loop.name}" for loop, backing in loops() if _same_file(path, backing)]
    return uses


def _uses_of_backing(device: Device, backing_file: str) -> list[str]:
    uses = [
        f"its file {backing_file} also backs {loop.name}"
        for loop, other in loops()
        if loop.rdev != device.whole.rdev and _same_file(Path(backing_file), other)
    ]
    uses += [
        f"{backing_file} is swap space" for swap in swaps() if _same_file(Path(backing_file), swap)
    ]
    below = device_number(backing_file)
    if below is not None:
        uses += [
            use for use in uses_of_device(Device(below)) if device.whole.name not in use.split()
        ]
    return uses


@dataclass(frozen=True, slots=True)
class MountLine:
    """One mount, as listed in /proc/self/mountinfo."""

    identifier: int
    number: int  # device number, as in st_dev of files on it
    root: str  # mounted directory of the file system: /, or below it for a bind mount
    mount_point: str
    kind: str
    source: str
    options: str


def mount_lines() -> Iterator[MountLine]:
    """Yield all mounts of this mount namespace, in the order of mounting."""
    for line in Path("/proc/self/mountinfo").read_text(errors="replace").splitlines():
        left, _, right = line.partition(" - ")
        fields, about = left.split(), right.split()
        major, _, minor = fields[2].partition(":")
        yield MountLine(
            identifier=int(fields[0]),
            number=os.makedev(int(major), int(minor)),
            root=unescape(fields[3]),
            mount_point=unescape(fields[4]),
            kind=about[0],
            source=unescape(about[1]) if len(about) > 1 else "",
            options=",".join([fields[5], *about[2:]]),
        )


def swaps() -> list[str]:
    """Return the paths of the active swap spaces."""
    try:
        lines = Path("/proc/swaps").read_text(errors="replace").splitlines()[1:]
    except OSError:
        return []
    return [unescape(line.split()[0]) for line in lines if line]


def loops() -> Iterator[tuple[Device, str]]:
    """Yield each loop device in use with the path of its backing file."""
    for entry in _SYS_BLOCKS.glob("loop*"):
        backing = read_fact(entry / "loop" / "backing_file")
        if backing is not None:
            yield _from_sysfs(entry), backing


def _same_file(first: Path, other: str) -> bool:
    try:
        return first.samefile(other)
    except OSError:
        return False


def _from_sysfs(directory: Path) -> Device:
    major, _, minor = (directory / "dev").read_text().strip().partition(":")
    return Device(os.makedev(int(major), int(minor)))


def _scsi_serial(page: Path) -> str | None:
    try:
        return page.read_bytes()[4:].decode(errors="replace").strip("\0 ") or None
    except OSError:
        return None


def unescape(text: str) -> str:
    """Decode the octal escapes, such as 040 for a space, in a path from /proc."""
    return re.sub(r"\\([0-7]{3})", lambda match: chr(int(match.group(1), 8)), text)
