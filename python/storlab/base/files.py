"""Reading files of others without waiting for ever, and writing files whole or not at all."""

from __future__ import annotations

import errno
import json
import os
import re
import stat
from pathlib import Path
from typing import Any

from storlab.base.errors import UsageError
from storlab.base.units import GIB

MOST_INPUT_BYTES = GIB
"""Largest file that is read into memory where the caller names no smaller bound."""

_FIXES = {
    errno.ENOENT: "make its folder first, or name another",
    errno.EISDIR: "name a file in it",
    errno.ENOSPC: "make room, or name another",
    errno.EACCES: "name one in a folder that you may write to",
}
_READ_FIXES = {
    errno.EINVAL: "give the path of a regular file",
    errno.EISDIR: "name a file in it",
    errno.EFBIG: "check that this is the file you mean",
    errno.ENAMETOOLONG: "use a path whose names have at most 255 bytes each",
    errno.ELOOP: "symbolic links lead in a circle here: correct them, or name the file itself",
}
_KINDS = {
    stat.S_IFIFO: "a pipe",
    stat.S_IFSOCK: "a socket",
    stat.S_IFCHR: "a character device",
    stat.S_IFBLK: "a block device",
}


def open_input(path: Path | str) -> int:
    """Open a regular file that somebody else may have put there, for reading.

    Pipes, sockets and devices are refused at once: a read of them may wait for ever, or never end.

    Returns:
        A file descriptor, which the caller closes.

    Raises:
        OSError: The file cannot be opened, is not a regular file (EINVAL; EISDIR for a directory),
            or its name holds a NUL character (EINVAL).
    """
    name = str(path)
    if "\0" in name:
        raise OSError(errno.EINVAL, "a file name cannot hold a NUL character", name)
    # O_NONBLOCK: opening a pipe that has no writer would wait for one.
    handle = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOCTTY)
    kind = stat.S_IFMT(os.fstat(handle).st_mode)
    if kind == stat.S_IFREG:
        return handle
    os.close(handle)
    if kind == stat.S_IFDIR:
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), name)
    raise OSError(errno.EINVAL, f"it is {_KINDS[kind]}, not a regular file", name)


def read_input(path: Path | str, most_bytes: int = MOST_INPUT_BYTES) -> bytes:
    """Read a whole regular file that somebody else may have put there, as ``open_input`` opens it.

    Raises:
        OSError: As ``open_input``, or the file is larger than ``most_bytes`` (EFBIG).
    """
    with open(open_input(path), "rb", buffering=0) as file:
        size = os.fstat(file.fileno()).st_size
        content = b"" if size > most_bytes else file.readall() or b""
    if max(size, len(content)) > most_bytes:
        raise OSError(errno.EFBIG, f"it is larger than {most_bytes:,} bytes", str(path))
    return content


def read_advice(error: OSError, otherwise: str = "check its permissions") -> str:
    """Advice to the user about a file that ``read_input`` cannot read."""
    return _READ_FIXES.get(error.errno or 0, otherwise)


def path_error(error: OSError) -> UsageError:
    """Return the error for a path that a command cannot use, which names the path."""
    where = os.fsdecode(error.filename) if isinstance(error.filename, (str, bytes)) else "a file"
    what = f"cannot be used: {error.strerror or error}"
    return UsageError(where, what, read_advice(error, "check the path and its permissions"))


def parse_json(content: bytes | str) -> Any:
    """Parse JSON text as the standard has it: without NaN, and not nested without end.

    Raises:
        ValueError: The text is not JSON, holds NaN or Infinity, or is nested too deeply.
    """
    try:
        return json.loads(content, parse_constant=_refuse_constant)
    except RecursionError:
        raise ValueError("it is nested too deeply") from None


def _refuse_constant(text: str) -> float:
    raise ValueError(f"it holds {text}, which is not a number")


def temporary_beside(path: Path) -> Path:
    """Return a name for a temporary file in the folder of ``path`` that no other process takes.

    Hosts may share the folder, and processes of two hosts or containers may have the same id: the
    name also holds the host's name and random digits.
    """
    host = re.sub(r"[^A-Za-z0-9-]", "-", os.uname().nodename)[:32]
    unique = f"{host}-{os.getpid()}-{os.urandom(4).hex()}"
    return path.with_name(f".{path.name[:160]}.{unique}.tmp")


def make_folder(path: Path, mode: int = 0o777) -> None:
    """Make a folder for storlab's own files inside one that others may write to.

    Raises:
        OSError: The folder cannot be made, or a symbolic link or a file has its name (ENOTDIR): a
            link would lead whatever is written there to somebody else's folder.
    """
    try:
        path.mkdir(mode)
    except FileExistsError:
        if not stat.S_ISDIR(path.lstat().st_mode):
            what = "it is a symbolic link" if path.is_symlink() else os.strerror(errno.ENOTDIR)
            raise OSError(errno.ENOTDIR, what, str(path)) from None


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
    temporary = temporary_beside(path)
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
