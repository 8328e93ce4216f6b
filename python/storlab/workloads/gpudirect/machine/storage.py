"""Find the storage below a file: file system, block device layers, and drives."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from storlab.stores.devices import device_number, read_fact
from storlab.stores.drives import Drive, Layer, stack
from storlab.stores.filesystems import existing_parent, file_system_of

_USAGE = "E:ID_FS_USAGE=filesystem"  # as cuFile reads it through libudev


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


def _number_of_files(place: Path) -> int | None:
    """Return the device number ``major:minor`` of a path; None if it is not on a block device.

    It is needed in containers, where a mount may name no device in /dev.
    """
    number = existing_parent(place).stat().st_dev
    return number if os.major(number) else None


def _text(number: int) -> str:
    return f"{os.major(number)}:{os.minor(number)}"
