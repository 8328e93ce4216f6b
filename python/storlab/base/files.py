"""Read input files without blocking, and write output files atomically."""

from __future__ import annotations

import errno
import json
import os
import re
import shlex
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from storlab.base.errors import UsageError
from storlab.base.units import GIB

MOST_INPUT_BYTES = GIB
"""Default size limit for files that are read into memory."""

_WRITE_FIXES = {
    errno.EISDIR: "name a file in it",
    errno.ENOSPC: "make room on the file system of {folder}, or name a path on another one",
    errno.EDQUOT: "free some of your quota on the file system of {folder}, or name another path",
    errno.EACCES: "name a path in a folder that you may write to, or give yourself that right for "
    "{folder}",
    errno.EPERM: "name a path in another folder: files cannot be created in {folder}",
    errno.ENOENT: "name a path in another folder: files cannot be created in {folder}",
    errno.EROFS: "name a path on another file system: that of {folder} is read-only",
    errno.EEXIST: "name a path where no file or link is in the way",
    errno.ENOTDIR: "name a path where no file or link is in the way",
    errno.ENAMETOOLONG: "use a path whose names have at most 255 bytes each",
    errno.ELOOP: "symbolic links lead in a circle here: correct them, or name another path",
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


def shell_word(path: Path | str) -> str:
    """Quote a path for a shell command that a message prints."""
    return shlex.quote(str(path))


def open_input(path: Path | str) -> int:
    """Open an untrusted regular file for reading.

    Pipes, sockets and devices are rejected, since reading them may block or never end.

    Returns:
        A file descriptor, which the caller closes.

    Raises:
        OSError: The file cannot be opened, is not a regular file (EINVAL; EISDIR for a directory),
            or its name contains a NUL character (EINVAL).
    """
    name = str(path)
    if "\0" in name:
        raise OSError(errno.EINVAL, "a file name cannot contain a NUL character", name)
    # O_NONBLOCK: opening a pipe without a writer would block.
    handle = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOCTTY)
    kind = stat.S_IFMT(os.fstat(handle).st_mode)
    if kind == stat.S_IFREG:
        return handle
    os.close(handle)
    if kind == stat.S_IFDIR:
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), name)
    raise OSError(errno.EINVAL, f"it is {_KINDS[kind]}, not a regular file", name)


def read_input(path: Path | str, most_bytes: int = MOST_INPUT_BYTES) -> bytes:
    """Read a whole untrusted file; reject pipes, sockets and devices, which may block.

    Raises:
        OSError: The file cannot be opened, is not a regular file, or is larger than ``most_bytes``
            (EFBIG).
    """
    with open(open_input(path), "rb", buffering=0) as file:
        size = os.fstat(file.fileno()).st_size
        content = b"" if size > most_bytes else file.readall() or b""
    if max(size, len(content)) > most_bytes:
        raise OSError(errno.EFBIG, f"it is larger than {most_bytes:,} bytes", str(path))
    return content


def read_advice(error: OSError, otherwise: str = "check its permissions") -> str:
    """Return the fix to show for an error from ``read_input``; ``otherwise`` if none is known."""
    return _READ_FIXES.get(error.errno or 0, otherwise)


def path_error(error: OSError) -> UsageError:
    """Convert an operating system error about a path to a UsageError that names the path."""
    where = os.fsdecode(error.filename) if isinstance(error.filename, (str, bytes)) else "a file"
    what = f"cannot be used: {error.strerror or error}"
    return UsageError(where, what, read_advice(error, "check the path and its permissions"))


def write_advice(path: Path, error: OSError) -> str:
    """Return the fix to show for a file or directory that cannot be written or created.

    Args:
        path: The path that the user named.
        error: The error from writing to it or to a part of it.
    """
    # pathlib's functions raise if a parent directory is not searchable; os.path.lexists does not.
    above = (p for p in path.absolute().parents if os.path.lexists(p))
    folder = next(above, Path("/"))
    if not folder.is_dir():
        return f"name a path below a directory: {folder} is a file"
    advice = _WRITE_FIXES.get(error.errno or 0, "name a path in another folder than {folder}")
    return advice.format(folder=folder)


def storage_advice(error: OSError) -> str:
    """Return the fix to show if storlab cannot write to a directory of its own, such as results."""
    is_full = error.errno in (errno.ENOSPC, errno.EDQUOT)
    return "make room" if is_full else "make its folder writable"


def output_error(path: Path, error: OSError) -> UsageError:
    """Return the error for a command's output that cannot be written.

    If the output consists of several files, the error names the file that failed.

    Args:
        path: The path that the user named.
        error: The error from writing to it or to a file of the output.
    """
    if isinstance(error.filename, str):
        named = Path(error.filename)
        inside = named.absolute().parent.is_relative_to(path.absolute().parent)
        path = named if inside else path
    what = f"cannot be written: {error.strerror or error}"
    return UsageError(str(path), what, write_advice(path, error))


def directory_problem(path: Path) -> str:
    """Return why a path is not a directory, such as "does not exist".

    Returns:
        The predicate of a sentence about the path; empty for a directory.

    Raises:
        OSError: The path cannot be examined.
    """
    try:
        kind = stat.S_IFMT(path.stat().st_mode)
    except FileNotFoundError:
        return "is a link to a path that does not exist" if path.is_symlink() else "does not exist"
    except NotADirectoryError:
        return "does not exist, because a part of its path is a file, not a directory"
    if kind == stat.S_IFDIR:
        return ""
    return f"is {_KINDS.get(kind, 'a file')}, not a directory"


def parse_json(content: bytes | str) -> Any:
    """Parse JSON; reject NaN and Infinity, which Python's parser accepts.

    Raises:
        ValueError: The text is not JSON, contains NaN or Infinity, or is nested too deeply.
    """
    try:
        return json.loads(content, parse_constant=_refuse_constant)
    except RecursionError:
        raise ValueError("the JSON is nested too deeply") from None


def _refuse_constant(text: str) -> float:
    raise ValueError(f"the JSON contains {text}, which is not allowed")


def temporary_beside(path: Path) -> Path:
    """Return a unique name for a temporary file in the directory of ``path``.

    Hosts may share the directory, and process ids of different hosts or containers may coincide, so
    the name also contains the host name and random digits.
    """
    host = re.sub(r"[^A-Za-z0-9-]", "-", os.uname().nodename)[:32]
    unique = f"{host}-{os.getpid()}-{os.urandom(4).hex()}"
    return path.with_name(f".{path.name[:160]}.{unique}.tmp")


def make_folder(path: Path, mode: int = 0o777) -> None:
    """Create a directory for storlab's files, if missing, inside one that others may write to.

    Raises:
        OSError: The directory cannot be created, or a file or symbolic link has its name (ENOTDIR).
            A link is rejected because it could redirect writes to a foreign directory.
    """
    try:
        path.mkdir(mode)
    except FileExistsError:
        if not stat.S_ISDIR(path.lstat().st_mode):
            is_link = path.is_symlink()
            what = "it is a symbolic link" if is_link else os.strerror(errno.ENOTDIR)
            raise OSError(errno.ENOTDIR, what, str(path)) from None


def fsync_directory(directory: Path) -> None:
    """Call fsync on a directory, so that names created in it survive a power loss."""
    handle = os.open(directory, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def write_durably(path: Path, content: bytes) -> None:
    """Create a file and flush its content to the medium; its name needs ``fsync_directory``."""
    with path.open("xb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())


def replace_file(path: Path, content: bytes, *, durable: bool = True) -> None:
    """Replace a file atomically: readers see the old content or the new one.

    Args:
        path: File to replace or create.
        content: New content.
        durable: Whether the new content must survive a power loss.

    Raises:
        OSError: The file cannot be written; ``path`` keeps its old content.
    """
    with replacing(path) as temporary:
        if durable:
            write_durably(temporary, content)
        else:
            temporary.write_bytes(content)
    if durable:
        fsync_directory(path.parent)


@contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """Yield the path of a temporary file, and rename it to ``path`` at the end of the block.

    After an error, the temporary file is removed; an OSError about it then names ``path`` instead.
    """
    temporary = temporary_beside(path)
    try:
        yield temporary
        temporary.rename(path)
    except BaseException as error:
        with suppress(OSError):
            temporary.unlink()
        if isinstance(error, OSError) and error.filename in (None, str(temporary)):
            raise OSError(error.errno, error.strerror, str(path)) from None
        raise


def write_output(path: Path, content: bytes) -> None:
    """Write a command's output atomically to the path that the user named.

    Missing parent directories are created. Symbolic links are followed, and a path that is not a
    regular file (``/dev/stdout``, a pipe) is written to instead of being replaced.

    Raises:
        UsageError: The path cannot be written, or is a block device, whose data would be lost.
    """
    try:
        if path.is_block_device():
            raise UsageError(
                str(path), "is a block device, whose data would be lost", "give the path of a file"
            )
        if path.exists() and not path.is_file():
            path.write_bytes(content)
        else:
            target = path.resolve()
            target.parent.mkdir(parents=True, exist_ok=True)
            replace_file(target, content)
    except OSError as error:
        raise output_error(path, OSError(error.errno, error.strerror)) from None
