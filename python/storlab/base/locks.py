"""Locks on open files by flock(2), which are released when the process ends.

Some file systems do not support them, such as Lustre without ``-o flock`` and FUSE without the
call. Exclusion is then impossible, and other holders cannot be detected.
"""

from __future__ import annotations

import errno
import fcntl
import os
from pathlib import Path

from storlab.base.clock import sleep_s

_LOOKS = 200  # readers hold a lock for microseconds only, so this many failures mean another holder
_LOOK_PAUSE_S = 0.01
_NO_LOCKS = (errno.ENOLCK, errno.ENOSYS, errno.EOPNOTSUPP)


def try_lock_exclusive(handle: int) -> bool:
    """Lock a file exclusively as its writer, waiting for readers that briefly test the lock.

    Returns:
        False if the file system has no locks.

    Raises:
        BlockingIOError: Another writer holds the lock.
        OSError: The lock cannot be taken, for example on NFS if the file is open for reading only
            (EBADF).
    """
    for _ in range(_LOOKS):
        try:
            return _flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            fcntl.flock(handle, fcntl.LOCK_SH | fcntl.LOCK_NB)  # raises if a writer holds it
            fcntl.flock(handle, fcntl.LOCK_UN)
            sleep_s(_LOOK_PAUSE_S)
    raise BlockingIOError


def is_locked(path: Path) -> bool:
    """Return whether a writer holds the lock of a file. The test does not prevent locking."""
    try:
        handle = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOFOLLOW)
    except FileNotFoundError:
        return False
    try:
        _flock(handle, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(handle)
    return False


def lock_exclusive(handle: int) -> bool:
    """Lock a file exclusively like ``try_lock_exclusive``, but wait for other holders."""
    return _flock(handle, fcntl.LOCK_EX)


def _flock(handle: int, operation: int) -> bool:
    try:
        fcntl.flock(handle, operation)
    except OSError as error:
        if error.errno in _NO_LOCKS:
            return False
        raise
    return True
