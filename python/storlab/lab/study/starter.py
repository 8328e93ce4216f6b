"""Starter study (``storlab init``): a study file for this machine that is safe to run.

Its targets are files: one on the file system with the most free space, one in memory. Block devices
appear only as comments. The workloads list their targets, so they do not write to a device whose
comment signs are removed.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

import tomlkit

from storlab.base.units import GIB, format_bytes_si, format_size
from storlab.contracts.registry import FAMILIES
from storlab.stores.devices import (
    STABLE_DIRECTORIES,
    Device,
    device_number,
    mount_lines,
    read_fact,
    uses_of_device,
)
from storlab.stores.filesystems import file_system_of, free_bytes, supports_direct

_SYS_BLOCK = Path("/sys/block")
_NOT_DRIVES = ("loop", "ram", "zram", "sr", "fd", "nbd")


@dataclass(frozen=True, slots=True)
class FoundDevice:
    """Drive (whole block device) of this machine."""

    name: str
    path: str  # stable path (/dev/disk/by-...) if the device has one
    model: str
    size_bytes: int
    rotational: bool
    uses: tuple[str, ...]  # descriptions of its users, such as mounts

    @property
    def facts(self) -> str:
        """Model, size, kind and use of the device, as text for a comment."""
        kind = "rotating" if self.rotational else "solid state"
        use = "; ".join(self.uses) or "not in use"
        return f"{self.model}, {format_bytes_si(self.size_bytes)}, {kind}: {use}"


@dataclass(frozen=True, slots=True)
class FileTarget:
    """Data file that is a target of the starter study."""

    name: str
    path: str
    size_bytes: int
    direct: bool
    where: str  # description of the file system, for a comment


def found_devices() -> list[FoundDevice]:
    """List the drives of this machine from sysfs, without opening them."""
    devices = []
    for entry in sorted(_SYS_BLOCK.iterdir()) if _SYS_BLOCK.is_dir() else []:
        number = device_number(f"/dev/{entry.name}")
        if entry.name.startswith(_NOT_DRIVES) or number is None:
            continue
        device = Device(number)
        if device.size_bytes == 0:
            continue
        vendor = read_fact(entry / "device" / "vendor") or ""
        model = read_fact(entry / "device" / "model")
        # A virtio disk has no model, and its vendor is a PCI number such as 0x1af4, not a name.
        if model is None:
            model = "drive"
        elif not vendor.startswith("0x"):
            model = f"{vendor} {model}".strip()
        devices.append(
            FoundDevice(
                name=entry.name,
                path=stable_path(device) or f"/dev/{entry.name}",
                model=model,
                size_bytes=device.size_bytes,
                rotational=read_fact(entry / "queue" / "rotational") == "1",
                uses=tuple(uses_of_device(device)),
            )
        )
    return devices


def stable_path(device: Device) -> str | None:
    """Return the path of a device in /dev/disk that stays the same after a restart, or None."""
    links = [
        str(link)
        for directory in map(Path, STABLE_DIRECTORIES)
        if directory.is_dir()
        for link in sorted(directory.iterdir())
        if device_number(link) == device.rdev
    ]
    # Prefer names with model and serial number: they are easier to recognise than a WWN.
    telling = [link for link in links if not Path(link).name.startswith(("wwn-", "nvme-eui."))]
    return next(iter([*telling, *links]), None)


def file_targets(directory: Path) -> list[FileTarget]:
    """Return the files to measure: one on the file system with most free space, one in memory.

    If there is no file system in memory, only the file on disk is returned.

    Args:
        directory: Directory for the file on disk, unless another file system has more free space.
    """
    disk = _roomiest(directory)
    on = file_system_of(disk)
    path = "storlab-data.dat"
    targets = [
        FileTarget(
            name="memory file" if on.in_memory else "disk file",
            path=path if disk == directory else str(disk / path),
            size_bytes=data_size(disk, 5, 4 * GIB),
            direct=supports_direct(disk) and not on.in_memory,
            where=f"on {on.mount_point} ({on.kind})",
        )
    ]
    memory = Path("/dev/shm")  # noqa: S108 - the tmpfs itself, not a temporary file
    if not on.in_memory and memory.is_dir() and file_system_of(memory).in_memory:
        size = data_size(memory, 8, GIB)
        path = str(memory / "storlab-memory.dat")
        targets.append(FileTarget("memory file", path, size, False, "in memory (tmpfs)"))
    return targets


def _roomiest(directory: Path) -> Path:
    """Return the writable mount point with the most free space.

    If no mount point has more free space than ``directory``, return ``directory``.
    """
    best, best_room = directory, free_bytes(directory)
    home = directory.stat().st_dev
    for mount in mount_lines():
        point = Path(mount.mount_point)
        usable = (
            device_number(mount.source) is not None
            and mount.mount_point.isprintable()
            and point.is_dir()
            and point.stat().st_dev != home
            and os.access(point, os.W_OK)  # also excludes read-only mounts
        )
        if usable and free_bytes(point) > best_room:
            best, best_room = point, free_bytes(point)
    return best


def data_size(path: Path, part: int, most: int) -> int:
    """Return a size in bytes for a data file: ``most``, halved until it fits.

    It fits if it is at most ``1/part`` of the free space; it is never less than 64 MiB.
    """
    size = most
    while size > free_bytes(path) // part and size > 64 * 2**20:
        size //= 2
    return size


def starter_study(devices: list[FoundDevice], targets: list[FileTarget]) -> str:
    """Return the text of a study with files as targets, and with block devices as comments."""
    parts = [
        _HEADER.format(baseline=quoted(targets[0].name)),
        *(_file_table(target) for target in targets),
    ]
    parts.append(_DEVICES_HEADER if devices else _NO_DEVICES)
    parts += [_device_comment(device) for device in devices]
    parts.append(_STORES)
    device = quoted(_device_name(devices[0])) if devices else None
    files = [quoted(target.name) for target in targets]
    tables = (table for f in FAMILIES.values() for table in f.starter_tables(files, device))
    parts.append("\n".join([_WORKLOADS, *tables]))
    return "\n".join(parts)


def _file_table(target: FileTarget) -> str:
    lines = [
        "[[target]]",
        f"name = {quoted(target.name)}",
        f"path = {quoted(target.path)} # {one_line(target.where)}; removed when the study is done",
        f"size = {quoted(format_size(target.size_bytes))}",
    ]
    if not target.direct:
        lines.append("direct = false # memory has no cache to bypass; old kernels refuse O_DIRECT")
    return "\n".join([*lines, ""])


def _device_comment(device: FoundDevice) -> str:
    lines = [
        f"# {one_line(device.facts)}",
        "# [[target]]",
        f"# name = {quoted(_device_name(device))}",
        f"# path = {quoted(device.path)}",
        f'# capacity = "{format_size(device.size_bytes)}"',
        "# drives = 1",
    ]
    if not device.path.startswith(STABLE_DIRECTORIES):
        lines.insert(
            1, "# (it has no stable name in /dev/disk; storlab never writes to it like this)"
        )
    return "\n".join([*lines, ""])


def _device_name(device: FoundDevice) -> str:
    return one_line(f"{device.name} {device.model}")


def quoted(value: str) -> str:
    """Return a text as a string in TOML."""
    return tomlkit.string(value).as_string()


def one_line(value: str) -> str:
    """Replace characters that would break a comment in a study or disturb a terminal."""
    return "".join(c if c.isprintable() else "?" for c in value)


def summary(devices: list[FoundDevice]) -> Iterable[str]:
    """Return one line per drive for printing: its path, model, size and use."""
    return (f"{device.path}: {one_line(device.facts)}" for device in devices)


_HEADER = """\
# A storlab study: what to measure (targets), what to do to it (workloads), and how often.
#
#   storlab plan FILE     shows all runs, their duration and the bytes to write; opens nothing
#   storlab doctor FILE   checks whether this machine is ready for the study
#   storlab run FILE      runs the study, and writes a brief
#
# "storlab schema" lists every field. Editors with Even Better TOML (Taplo) complete and check this
# file after "storlab schema --output study.schema.json", if its first line is:
#   #:schema ./study.schema.json

[study]
name = "my first study"
repeats = 3       # runs of every point, spread over the whole campaign
# Load before the measurement, and the measurement:
ramp = "5s" # quick: "500ms"
runtime = "20s" # quick: "2s"
baseline = {baseline} # the target with which the others are compared
# settle = "5s"   # pause after every run
# seed = 1        # the same seed gives the same I/O
# engine = "fio"  # a reference engine instead of storlab's own

# Targets. Give capacity, drives, rack_units and price to get density and cost figures.
"""

_DEVICES_HEADER = """\
# Block devices of this machine, all commented out. A workload that writes to a device DESTROYS all
# data on it; storlab refuses devices that are in use or contain a file system, and asks for
# consent. To only read from a device, add it to the targets of a workload with read_percent = 100.
"""

_STORES = """\
# S3 stores. Keys come from the environment (AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY) or an AWS
# profile, never from this file. storlab writes only below its own prefix, and finally removes it.
# [[target]]
# name = "object store"
# s3 = "https://s3.example.com/my-bucket"
# s3_options = { region = "us-east-1", addressing = "path" } # ca_file, profile, prefix, ...

# If you have no store, use storlab's own small S3 server, which stores objects in a directory:
# [[target]]
# name = "own server"
# s3 = "embedded:storlab-objects"
"""

_WORKLOADS = """\
# Workloads. If fields have lists of values, every combination is run, on every target.
"""

_NO_DEVICES = "# No block device was found on this machine.\n"
