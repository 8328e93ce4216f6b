"""Check whether a target still responds, after a run on it has failed."""

from __future__ import annotations

import errno
import mmap
import os
import threading
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from storlab.stores.devices import Device
from storlab.stores.filesystems import FileSystem, file_system_of

UNREACHABLE = frozenset(
    {
        *(errno.EIO, errno.EREMOTEIO, errno.ENXIO, errno.ENODEV, errno.ENOMEDIUM),
        *(errno.ESTALE, errno.ENOTCONN, errno.ESHUTDOWN, errno.ETIMEDOUT),
        *(errno.EHOSTDOWN, errno.EHOSTUNREACH, errno.ENETDOWN, errno.ENETUNREACH),
        *(errno.ECONNREFUSED, errno.ECONNRESET, errno.ECONNABORTED),
    }
)
"""Error numbers of file systems and devices whose hardware or server does not respond.

Others, such as ENOSPC and EACCES, are valid responses.
"""
PROBE_S = 10.0  # a hard NFS mount blocks every call while its server is unreachable
_READS = 4  # offsets to read in a file or device: one bad region does not make it unreachable
_LENGTH = 64 * 1024


@dataclass(frozen=True, slots=True)
class Absence:
    """Part of a target that does not respond, and why."""

    where: str  # name of the host, mount point, device, endpoint or meter
    why: str
    returns: bool = True  # False if it cannot return in this session, such as a removed drive

    def __str__(self) -> str:
        return f"{self.where}: {self.why}"


def within_limit(where: str, probe: Callable[[], Absence | None]) -> Absence | None:
    """Call ``probe`` in a thread; return its result, or an absence if it exceeds PROBE_S.

    Args:
        where: Name of the probed part of the target, for the absence.
        probe: Function that returns an absence, or None if the part responds.
    """
    results: list[Absence | None] = []
    thread = threading.Thread(
        target=lambda: results.append(probe()), name="storlab-probe", daemon=True
    )
    thread.start()
    thread.join(PROBE_S)
    return results[0] if results else Absence(where, f"no answer within {PROBE_S:g} s")


def path_absence(path: Path, mounted: FileSystem) -> Absence | None:
    """Return why a file or directory cannot be reached, or None if its file system responds.

    If only the path was removed, its file system responds, so the result is None.

    Args:
        path: File or directory; it need not exist.
        mounted: File system of the path when the campaign began.
    """
    try:
        path.stat()
    except FileNotFoundError:
        pass
    except OSError as error:
        return _absence(str(path), error)
    try:
        now = file_system_of(path)
        if (now.mount_point, now.kind) != (mounted.mount_point, mounted.kind):
            return Absence(mounted.mount_point, f"{mounted.kind} is no longer mounted there")
        if path.is_file():
            handle = _open_to_read(path)
            try:
                return _read_absence(str(path), handle, os.fstat(handle).st_size)
            finally:
                os.close(handle)
        os.statvfs(now.mount_point)
    except OSError as error:
        return _absence(str(path), error)
    return None


def device_absence(name: str, device: Device, handle: int, size: int) -> Absence | None:
    """Return why a block device cannot be reached, or None if a read at any tried offset works.

    Args:
        name: Device as named in the study.
        device: The device.
        handle: Open file descriptor of the device.
        size: Size in bytes when the device was opened.
    """
    if not device.is_there:
        return Absence(name, "the device was removed", returns=False)
    try:
        own = _open_to_read(Path(f"/proc/self/fd/{handle}"))
    except OSError as error:
        return _absence(name, error)
    try:
        return _read_absence(name, own, size)
    finally:
        os.close(own)


def _open_to_read(path: Path) -> int:
    """Open a file to read, with O_DIRECT if possible, because cached data needs no device."""
    flags = os.O_RDONLY | os.O_CLOEXEC
    try:
        return os.open(path, flags | os.O_DIRECT)
    except OSError as error:
        if error.errno != errno.EINVAL:
            raise
    return os.open(path, flags)


def _read_absence(name: str, handle: int, size: int) -> Absence | None:
    last = max(0, size - 1) // _LENGTH
    offsets = sorted({last * part // (_READS - 1) * _LENGTH for part in range(_READS)})
    absence: Absence | None = None
    with mmap.mmap(-1, _LENGTH) as buffer:  # aligned, as O_DIRECT requires
        for offset in offsets:
            try:
                os.preadv(handle, [buffer], offset)
            except OSError as error:
                absence = _absence(name, error)
            else:
                return None
    return absence


def _absence(name: str, error: OSError) -> Absence | None:
    if error.errno in UNREACHABLE:
        return Absence(name, error.strerror or str(error))
    return None
