"""Lock open files by flock(2); the kernel releases the locks when the process ends.

Some file systems do not support flock: Lustre without ``-o flock``, some FUSE file systems. Two
processes can then use a file at once without noticing each other.
"""

from __future__ import annotations

import errno
import fcntl
import os
from pathlib import Path

from storlab.base.clock import sleep_s

_LOOKS = 200  # `is_locked` holds a lock for microseconds only, so more failures mean another holder
_LOOK_PAUSE_S = 0.01
_NO_LOCKS = (errno.ENOLCK, errno.ENOSYS, errno.EOPNOTSUPP)


def try_lock_exclusive(handle: int) -> bool:
    """Take the exclusive lock of a file; wait only for processes that briefly test the lock.

    Returns:
        False if the file system does not support locks.

    Raises:
        BlockingIOError: Another process holds the exclusive lock.
        OSError: The lock fails otherwise, for example on NFS if the file is open for reading only
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
    """Return whether a process holds the exclusive lock of a file; False if there is no file."""
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
    """Take the exclusive lock of a file, waiting for other holders.

    Returns:
        False if the file system does not support locks.
    """
    return _flock(handle, fcntl.LOCK_EX)


def _flock(handle: int, operation: int) -> bool:
    try:
        fcntl.flock(handle, operation)
    except OSError as error:
        if error.errno in _NO_LOCKS:
            return False
        raise
    return True
