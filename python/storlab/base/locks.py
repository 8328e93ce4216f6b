"""Locks on open files, which end with the process that holds them: flock(2).

Some file systems have none: Lustre without ``-o flock``, FUSE without the call. There nobody can be
kept out, and nobody is known to be there.
"""

from __future__ import annotations

import errno
import fcntl
import os
from pathlib import Path

from storlab.base.clock import sleep_s

_LOOKS = 200  # a reader looks for microseconds; so many in a row are none
_LOOK_PAUSE_S = 0.01
_NO_LOCKS = (errno.ENOLCK, errno.ENOSYS, errno.EOPNOTSUPP)


def lock_alone(handle: int) -> bool:
    """Lock an open file as the only one who writes; readers that look at the lock are waited for.

    False where the file system has no locks. Raises BlockingIOError where another writer has it,
    and OSError: NFS locks no file that is open for reading only (EBADF).
    """
    for _ in range(_LOOKS):
        try:
            return _flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            fcntl.flock(handle, fcntl.LOCK_SH | fcntl.LOCK_NB)  # raises where it is a writer's
            fcntl.flock(handle, fcntl.LOCK_UN)
            sleep_s(_LOOK_PAUSE_S)
    raise BlockingIOError


def is_locked(path: Path) -> bool:
    """Whether a writer is known to hold a file at this moment; a look keeps none from it."""
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


def await_alone(handle: int) -> bool:
    """As ``lock_alone``, but whoever has it is waited for."""
    return _flock(handle, fcntl.LOCK_EX)


def _flock(handle: int, operation: int) -> bool:
    try:
        fcntl.flock(handle, operation)
    except OSError as error:
        if error.errno in _NO_LOCKS:
            return False
        raise
    return True
