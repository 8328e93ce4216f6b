"""Find the file system that contains a path, and its properties."""

from __future__ import annotations

import errno
import os
import tempfile
from dataclasses import dataclass
from pathlib import Path

from storlab.stores.devices import Device, device_number, mount_lines, unescape

MEMORY_FILE_SYSTEMS = ("tmpfs", "ramfs")
FSTAB = Path("/etc/fstab")


@dataclass(frozen=True, slots=True)
class FileSystem:
    """Mounted file system: type, source, mount point, options."""

    kind: str  # ext4, xfs, tmpfs, ...
    source: str
    mount_point: str
    options: str
    root: str = "/"  # mounted directory of the file system

    @property
    def in_memory(self) -> bool:
        """Whether the file system stores its files in memory, not on a drive."""
        return self.kind in MEMORY_FILE_SYSTEMS

    @property
    def device(self) -> Device | None:
        """Block device of the file system; None for memory, network and layered file systems."""
        number = device_number(self.source)
        return None if number is None else Device(number)


def existing_parent(path: Path) -> Path:
    """Return the path itself, or the nearest existing directory above it."""
    path = path.absolute()
    while not path.exists():
        path = path.parent
    return path


def file_system_of(path: Path) -> FileSystem:
    """Return the file system that contains ``path``, or would contain it if it existed.

    The mount is that of an open file in /proc/self/fdinfo. Device numbers would be wrong on
    overlayfs and btrfs, where a file's number differs from that of its mount.
    """
    handle = os.open(existing_parent(path), os.O_PATH | os.O_CLOEXEC)
    try:
        lines = Path(f"/proc/self/fdinfo/{handle}").read_text().splitlines()
    finally:
        os.close(handle)
    identifier = next((int(line.split()[1]) for line in lines if line.startswith("mnt_id:")), None)
    for mount in mount_lines():
        if mount.identifier == identifier:
            return FileSystem(
                mount.kind, mount.source, mount.mount_point, mount.options, mount.root
            )
    return FileSystem("unknown", "unknown", "unknown", "")


def mounted_below(directory: Path, mount: Path) -> FileSystem | None:
    """Return the file system of ``directory`` if it is mounted at ``mount`` or below, else None.

    If the mount is missing, ``mount`` is a plain directory on the file system above it, usually the
    root's, and load would go to the local disk.

    Raises:
        OSError: No directory above the path can be opened.
    """
    under = file_system_of(directory)
    inside = Path(under.mount_point).is_relative_to(os.path.realpath(mount))
    return under if inside and under.mount_point != "/" else None


def unmounted_above(path: Path) -> FileSystem | None:
    """Return an unmounted entry of /etc/fstab whose mount point is the path or above it.

    Data written to such a path would go to the file system on which the mount point lies.

    Args:
        path: Path, which need not exist.

    Returns:
        The entry with the longest mount point; None if there is none.
    """
    try:
        lines = FSTAB.read_text(errors="replace").splitlines()
    except OSError:
        return None
    mounted = {Path(mount.mount_point) for mount in mount_lines() if mount.kind != "autofs"}
    real, missing = Path(os.path.realpath(path)), []
    for line in lines:
        source, point, kind, options = [*line.partition("#")[0].split(), *[""] * 4][:4]
        place = Path(os.path.normpath(unescape(point)))
        if point.startswith("/") and real.is_relative_to(place) and place not in mounted:
            missing.append(FileSystem(kind, unescape(source), str(place), options))
    return max(missing, key=lambda entry: len(entry.mount_point), default=None)


def sector_bytes(path: Path) -> int:
    """Return the logical block size, in bytes, of the device that a path is or lies on.

    Direct I/O must use multiples of it. If there is no known device (network and memory file
    systems), the result is 512, the smallest size.
    """
    try:
        number = device_number(path)
        device = file_system_of(path).device if number is None else Device(number)
        return 512 if device is None else device.sector_bytes
    except OSError:
        return 512


def free_bytes(path: Path) -> int:
    """Return the free bytes available to this user on the file system of ``path``."""
    status = os.statvfs(existing_parent(path))
    return status.f_bavail * status.f_frsize


def supports_direct(path: Path) -> bool:
    """Return whether O_DIRECT works, by opening ``path`` or an unnamed file in its directory.

    Raises:
        OSError: The file cannot be opened, even without O_DIRECT.
    """
    try:
        if path.exists() and not path.is_dir():
            os.close(os.open(path, os.O_RDONLY | os.O_DIRECT | os.O_CLOEXEC))
        else:
            _try_in_directory(existing_parent(path))
    except OSError as error:
        if error.errno in (errno.EINVAL, errno.EOPNOTSUPP):
            return False
        raise
    return True


def _try_in_directory(directory: Path) -> None:
    flags = os.O_RDWR | os.O_DIRECT | os.O_CLOEXEC
    try:
        os.close(os.open(directory, flags | os.O_TMPFILE, 0o600))
    except OSError as error:
        if error.errno not in (errno.EOPNOTSUPP, errno.EISDIR):
            raise
        with tempfile.NamedTemporaryFile(dir=directory, prefix=".storlab-") as file:
            os.close(os.open(file.name, flags))
