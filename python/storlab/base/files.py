"""Files that appear whole or not at all, also when the machine loses power."""

from __future__ import annotations

import errno
import os
from pathlib import Path

from storlab.base.errors import UsageError

_FIXES = {
    errno.ENOENT: "make its folder first, or name another",
    errno.EISDIR: "name a file in it",
    errno.ENOSPC: "make room, or name another",
    errno.EACCES: "name one in a folder that you may write to",
}


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
    to instead of being replaced. Raises UsageError naming the path, also for a block device: that
    would overwrite what is on it.
    """
    try:
        if path.is_block_device():
            raise UsageError(str(path), "is a block device", "name a file")
        if path.exists() and not path.is_file():
            path.write_bytes(content)
        else:
            replace_file(path.resolve(), content)
    except OSError as error:
        what = f"cannot be written: {error.strerror}"
        raise UsageError(str(path), what, _FIXES.get(error.errno or 0, "name another")) from None
