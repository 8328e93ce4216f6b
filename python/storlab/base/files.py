"""Files that appear whole or not at all, also when the machine loses power."""

from __future__ import annotations

import errno
import fcntl
import os
from pathlib import Path

from storlab.base.clock import sleep_s
from storlab.base.errors import UsageError

_LOOKS = 200  # a reader looks for microseconds; so many in a row are none
_LOOK_PAUSE_S = 0.01
_FIXES = {
    errno.ENOENT: "make its folder first, or name another",
    errno.EISDIR: "name a file in it",
    errno.ENOSPC: "make room, or name another",
    errno.EACCES: "name one in a folder that you may write to",
}


def lock_alone(handle: int) -> None:
    """Lock an open file as the only one who writes; readers that look at the lock are waited for.

    Raises BlockingIOError where another writer has it, and OSError of a file system without locks.
    """
    for _ in range(_LOOKS):
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            fcntl.flock(handle, fcntl.LOCK_SH | fcntl.LOCK_NB)  # raises where it is a writer's
            fcntl.flock(handle, fcntl.LOCK_UN)
            sleep_s(_LOOK_PAUSE_S)
        else:
            return
    raise BlockingIOError


def is_locked(path: Path) -> bool:
    """Whether a writer holds the lock of a file at this moment; a look keeps none from it."""
    try:
        handle = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW)
    except FileNotFoundError:
        return False
    try:
        fcntl.flock(handle, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(handle)
    return False


def fsync_directory(directory: Path) -> None:
    """Make the names in a directory durable."""
    handle = os.open(directory, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def write_durably(path: Path, content: bytes) -> None:
    """Write a new file to the device. Its name is durable after an fsync of the directory."""
    with path.open("xb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())


def replace_file(path: Path, content: bytes) -> None:
    """Give ``path`` this content in one step: readers see the old file or the new, never a part."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    temporary.unlink(missing_ok=True)
    try:
        write_durably(temporary, content)
        temporary.rename(path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
    fsync_directory(path.parent)


def write_output(path: Path, content: bytes) -> None:
    """Write what a user asked for where the user said: whole or not at all.

    A symbolic link is followed, and what is no regular file (``/dev/stdout``, a pipe) is written
    to instead of being replaced. Raises UsageError naming the path.
    """
    try:
        if path.exists() and not path.is_file():
            path.write_bytes(content)
        else:
            replace_file(path.resolve(), content)
    except OSError as error:
        what = f"cannot be written: {error.strerror}"
        raise UsageError(str(path), what, _FIXES.get(error.errno or 0, "name another")) from None
