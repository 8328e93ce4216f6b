"""Facts about a run's machine: emulated GPU parts, and what prevents direct transfers."""

from __future__ import annotations

import mmap
import os
from collections.abc import Iterator, Sequence
from functools import cache
from itertools import chain
from pathlib import Path

from storlab.model.job import Member
from storlab.workloads.gpudirect.details import LibrariesTold
from storlab.workloads.gpudirect.machine.kernel import has_gpu_driver
from storlab.workloads.gpudirect.machine.media import drive_rows, file_system_row, udev_rows
from storlab.workloads.gpudirect.machine.storage import Under, under

NO_DRIVER = "no NVIDIA driver is loaded on {host}"
_MAKER = b"nvidia"  # part of device node names: the driver's in libcuda, nvidia-fs's in libcufile


def stand_ins(libraries: LibrariesTold, root: Path = Path("/"), host: str = "") -> list[str]:
    """Return the GPU parts of a run that are emulated: the driver or libraries not of NVIDIA.

    Args:
        libraries: Libraries that a run or a probe has loaded to use a GPU.
        root: Root of the file system with /proc, /sys and /dev.
        host: Name of this host for the message; by default its hostname.

    Returns:
        A clause per emulated part; empty if driver and libraries are NVIDIA's.
    """
    found = []
    if not has_gpu_driver(root):
        found.append(NO_DRIVER.format(host=host or os.uname().nodename))
    for name, library in (("libcuda", libraries.cuda), ("libcufile", libraries.cufile)):
        if library is not None and library.path and not _is_of_nvidia(library.path):
            found.append(f"{library.path} is not NVIDIA's {name}")
    return found


@cache
def _is_of_nvidia(path: str) -> bool:
    """Return whether a library is NVIDIA's: its file contains the names of NVIDIA's device nodes.

    True if the file cannot be read.
    """
    try:
        with (
            Path(path).open("rb") as file,
            mmap.mmap(file.fileno(), 0, prot=mmap.PROT_READ) as content,
        ):
            return content.find(_MAKER) >= 0
    except (OSError, ValueError):
        return True


def path_obstacles(
    members: Sequence[Member], *, by_nvidia_fs: bool, root: Path = Path("/")
) -> list[str]:
    """Return reasons why transfers of these files or devices cannot have been direct.

    Args:
        members: Files or devices of the run.
        by_nvidia_fs: Whether cuFile counted bytes through nvidia-fs, which supports more media than
            the kernel's P2PDMA.
        root: Root of the file system with /sys and /run.
    """
    places = dict.fromkeys(under(Path(member.path), root) for member in members)
    rows = chain.from_iterable(_rows(place, by_nvidia_fs=by_nvidia_fs) for place in places)
    return list(dict.fromkeys(rows))


def _rows(place: Under, *, by_nvidia_fs: bool) -> Iterator[str]:
    checks = (*udev_rows(place), *drive_rows(place, nvidia_fs=by_nvidia_fs))
    # Not for ext4: how kernels report its journal mode differs, so the check is less reliable than
    # counters.
    if place.file_system != "ext4":
        checks = (file_system_row(place), *checks)
    yield from (check.what for check in checks if check.status != "ok")
