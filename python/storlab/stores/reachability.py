"""Whether a target answers at all: asked after a run on it has failed."""

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
"""Error numbers by which a file system or a device says that what is behind it does not answer.

Others, such as ENOSPC and EACCES, are answers.
"""
PROBE_S = 10.0  # a hard NFS mount whose server is away blocks every call for as long as that lasts
_READS = 4  # places in a file or device; one bad region does not make it unreachable
_LENGTH = 64 * 1024


@dataclass(frozen=True, slots=True)
class Absence:
    """Something that a target needs and that does not answer."""

    where: str  # host, mount point, device, endpoint or meter
    why: str
    returns: bool = True  # False: not within this session, as of a drive that was removed

    def __str__(self) -> str:
        return f"{self.where}: {self.why}"


def within_limit(where: str, probe: Callable[[], Absence | None]) -> Absence | None:
    """Return what ``probe`` returns, or an absence if it takes longer than PROBE_S."""
    results: list[Absence | None] = []
    thread = threading.Thread(
        target=lambda: results.append(probe()), name="storlab-probe", daemon=True
    )
    thread.start()
    thread.join(PROBE_S)
    return results[0] if results else Absence(where, f"no answer within {PROBE_S:g} s")


def path_absence(path: Path, mounted: FileSystem) -> Absence | None:
    """Return why a file or directory cannot be reached; None if its file system answers.

    A path that was removed from a file system that answers is no absence.

    Args:
        path: The file or directory; it need not exist.
        mounted: The file system it was on when the campaign began.
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
    """Return why a block device cannot be reached; None if any of it can be read.

    Args:
        name: The device as the study names it.
        device: The device that was opened.
        handle: Its open file.
        size: Its size in bytes when it was opened.
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
    """Past the page cache where that works: what lies there can be read without the device."""
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
    with mmap.mmap(-1, _LENGTH) as buffer:  # aligned, as O_DIRECT needs it
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
