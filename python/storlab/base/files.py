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

_WRITE_FIXES = {
    errno.EISDIR: "name a file in it",
    errno.ENOSPC: "make room on the file system of {folder}, or name a path on another one",
    errno.EDQUOT: "free some of your quota on the file system of {folder}, or name another path",
    errno.EACCES: "name a path in a folder that you may write to, or give yourself that right for "
    "{folder}",
    errno.EPERM: "name a path in another folder: {folder} takes no files",
    errno.ENOENT: "name a path in another folder: {folder} takes no files",
    errno.EROFS: "name a path on another file system: that of {folder} is read-only",
    errno.EEXIST: "name a path where no file or link is in the way",
    errno.ENOTDIR: "name a path where no file or link is in the way",
    errno.ENAMETOOLONG: "use a path whose names have at most 255 bytes each",
    errno.ELOOP: "symbolic links lead in a circle here: correct them, or name another path",
}
_TEMPORARY = ".tmp"  # end of the names of temporary files
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


def write_advice(path: Path, error: OSError) -> str:
    """Advice to the user about a path where a file or directory cannot be written or made.

    Args:
        path: The path that the user named.
        error: Why writing it, or a part of it, failed.
    """
    # os.path.lexists: pathlib's functions raise if a folder above may not be searched.
    above = (p for p in path.absolute().parents if os.path.lexists(p))
    folder = next(above, Path("/"))
    if not folder.is_dir():
        return f"name a path below a directory: {folder} is a file"
    advice = _WRITE_FIXES.get(error.errno or 0, "name a path in another folder than {folder}")
    return advice.format(folder=folder)


def storage_advice(error: OSError) -> str:
    """Advice to the user about a folder that storlab itself could not write to: a clause."""
    is_full = error.errno in (errno.ENOSPC, errno.EDQUOT)
    return "make room" if is_full else "make its folder writable"


def output_error(path: Path, error: OSError) -> UsageError:
    """Return the error for an output of a command that cannot be written at ``path``.

    It names the file that could not be written if that is one of several beside or below the path.
    """
    if isinstance(error.filename, str) and not error.filename.endswith(_TEMPORARY):
        named = Path(error.filename)
        inside = named.absolute().parent.is_relative_to(path.absolute().parent)
        path = named if inside else path
    what = f"cannot be written: {error.strerror or error}"
    return UsageError(str(path), what, write_advice(path, error))


def directory_problem(path: Path) -> str:
    """Return why a path is no directory: "does not exist", or "is a file, not a directory".

    Returns:
        The predicate of a sentence about the path; empty for a directory.

    Raises:
        OSError: The path cannot be looked at.
    """
    try:
        kind = stat.S_IFMT(path.stat().st_mode)
    except FileNotFoundError:
        return "is a link to a path that does not exist" if path.is_symlink() else "does not exist"
    except NotADirectoryError:
        return "does not exist, because a folder of its path is a file"
    if kind == stat.S_IFDIR:
        return ""
    return f"is {_KINDS.get(kind, 'a file')}, not a directory"


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
    return path.with_name(f".{path.name[:160]}.{unique}{_TEMPORARY}")


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
    """Write a command's output to the path that its user named: whole or not at all.

    Folders that do not exist are made. A symbolic link is followed, and a path that is no regular
    file (``/dev/stdout``, a pipe) is written to instead of being replaced.

    Raises:
        UsageError: The path cannot be written, or is a block device, whose data would be lost.
    """
    try:
        if path.is_block_device():
            raise UsageError(str(path), "is a block device", "name a file")
        if path.exists() and not path.is_file():
            path.write_bytes(content)
        else:
            target = path.resolve()
            target.parent.mkdir(parents=True, exist_ok=True)
            replace_file(target, content)
    except OSError as error:
        raise output_error(path, error) from None
