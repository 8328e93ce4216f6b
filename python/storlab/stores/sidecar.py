"""Ownership of data files: storlab's own files have a sidecar ``<file>.storlab.json``.

The sidecar is written before its file is created. It names the campaign that created the file and,
once the file exists, its inode and the token in the file's extended attribute. A file that another
program creates in its place may get the same inode, but not the token, and is not touched. On file
systems without extended attributes, a laid-out file must have its recorded size instead. A campaign
holds a lock on the sidecar from before its first run to its end.
"""

from __future__ import annotations

import errno
import json
import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, Literal

from storlab import __version__
from storlab.base.errors import GuardError, PreflightError
from storlab.base.files import (
    fsync_directory,
    parse_json,
    read_input,
    temporary_beside,
    write_durably,
)
from storlab.base.locks import is_locked, try_lock_exclusive

SUFFIX = ".storlab.json"
_MARK = "storlab data file"
_ATTRIBUTE = "user.storlab"


@dataclass(frozen=True, slots=True)
class Sidecar:
    """Facts about a data file in a small JSON file beside it: size, seed, state and owner."""

    size: int
    seed: int
    storlab_version: str
    state: Literal["started", "complete"]
    inode: int | None = None
    token: str = ""  # as in the file's attribute; empty: no attributes on its file system
    campaign: str = ""  # creator of the file; empty: written by an old version
    written_by: str = ""  # last campaign that writes to the file
    schema_version: int = 1
    what: str = _MARK


def sidecar_path(data_file: Path) -> Path:
    """Return the path of a data file's sidecar."""
    return data_file.with_name(data_file.name + SUFFIX)


def read_sidecar(data_file: Path) -> Sidecar | None:
    """Return the sidecar of a data file; None if there is none.

    Raises:
        GuardError: A file of that name is not a sidecar, or cannot be read.
    """
    path = sidecar_path(data_file)
    try:
        content = read_input(path)
        if not content:
            return None  # its writer crashed before the first byte
        value: Any = parse_json(content)
        sidecar = Sidecar(**value)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise GuardError(str(path), f"cannot be read: {error.strerror}", _MOVE) from error
    except (ValueError, TypeError) as error:
        raise GuardError(str(path), "is not a sidecar of storlab", _MOVE) from error
    if sidecar.what != _MARK or sidecar.schema_version != 1:
        raise GuardError(str(path), "is not a sidecar that this version of storlab reads", _MOVE)
    return sidecar


_MOVE = "move it and its data file away, or choose another path"


def made_by_storlab(data_file: Path) -> bool:
    """Return whether storlab created this file.

    If the sidecar has no inode yet, only an empty file counts.
    """
    sidecar = read_sidecar(data_file)
    if sidecar is None:
        return False
    status = data_file.stat()
    if sidecar.inode is None:
        return status.st_size == 0
    token = _token_of(data_file) if sidecar.token else None
    if token is None:
        is_whole = sidecar.state == "started" or status.st_size == sidecar.size
        return status.st_ino == sidecar.inode and is_whole
    return (status.st_ino, token) == (sidecar.inode, sidecar.token)


def _token_of(data_file: Path) -> str | None:
    """Return the token of a file; "" if it has none.

    None if unknown: NFS before 4.2 shows no attributes.
    """
    try:
        return os.getxattr(data_file, _ATTRIBUTE).decode(errors="replace")
    except OSError as error:
        return "" if error.errno == errno.ENODATA else None


def is_complete(data_file: Path, size: int) -> bool:
    """Return whether the file is laid out: storlab's own, complete, and of this size."""
    if not data_file.exists() or not made_by_storlab(data_file):
        return False
    sidecar = read_sidecar(data_file)
    laid_out = sidecar is not None and sidecar.state == "complete" and sidecar.size == size
    return laid_out and data_file.stat().st_size == size


class DataFileHold:
    """Exclusive lock of a campaign on one data file's sidecar, as a context manager.

    Entering raises GuardError if another campaign holds the lock, PreflightError if no sidecar can
    be created. ``make`` creates a missing sidecar; without it entering raises FileNotFoundError.
    Leaving removes the sidecar if its file does not exist.
    """

    def __init__(self, data_file: Path, campaign: str, *, make: bool = True) -> None:
        self.data_file = data_file
        self.campaign = campaign
        self._path = sidecar_path(data_file)
        self._make = make
        self._fd = -1

    def __enter__(self) -> DataFileHold:
        while not self._claim():
            pass  # a campaign that ended has removed the sidecar meanwhile
        return self

    def __exit__(self, *_: object) -> None:
        with suppress(OSError, GuardError):  # failed file system, or foreign sidecar
            is_lonely = not self.data_file.exists() or os.fstat(self._fd).st_size == 0
            if is_lonely and self._is_held():
                read_sidecar(self.data_file)
                self._path.unlink()
        os.close(self._fd)

    @property
    def owner(self) -> str:
        """Campaign that created the file; this campaign if the file does not exist yet."""
        sidecar = read_sidecar(self.data_file) if self.data_file.exists() else None
        return (sidecar.campaign if sidecar else "") or self.campaign

    def begin(self, size: int, seed: int, *, writes: bool) -> None:
        """Record the owner of a file before it is created, and the campaign that writes to it.

        Raises:
            PreflightError: The sidecar cannot be written.
            GuardError: The file is no longer storlab's.
        """
        before = read_sidecar(self.data_file)
        if not self.data_file.exists():
            now = Sidecar(size, seed, __version__, "started", campaign=self.campaign)
        elif before is None:
            raise GuardError(str(self.data_file), "is no longer what storlab laid out", _MOVE)
        else:
            self.check_own()
            now = replace(before, written_by=self.campaign) if writes else before
        try:
            if now != before:
                self.write(now)
        except OSError as error:
            raise _cannot_be_made(self._path, error) from error

    def open_to_lay_out(self) -> int:
        """Open the file for writing: a new one, or one that storlab created before.

        Raises:
            FileExistsError: The file was not created by storlab.
            OSError: The file cannot be opened.
        """
        flags = os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW
        if not self.data_file.exists():
            return os.open(self.data_file, flags | os.O_CREAT | os.O_EXCL, 0o600)
        handle = os.open(self.data_file, flags)
        same = os.fstat(handle).st_ino == self.data_file.stat().st_ino
        if same and made_by_storlab(self.data_file):
            return handle
        os.close(handle)
        raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), str(self.data_file))

    def check_own(self) -> None:
        """Raise GuardError if the file exists and was not laid out by storlab."""
        if self.data_file.exists() and not made_by_storlab(self.data_file):
            raise GuardError(str(self.data_file), "is no longer what storlab laid out", _MOVE)

    def spoil(self) -> None:
        """Mark the file to be laid out again, because another program changed it; raise OSError."""
        sidecar = read_sidecar(self.data_file)
        if sidecar is not None:
            self.write(replace(sidecar, state="started"))

    def mark(self, handle: int) -> str:
        """Set the file's token, its earlier one if any; return "" if attributes are unsupported."""
        before = read_sidecar(self.data_file)
        token = (before.token if before else "") or secrets.token_hex(8)
        try:
            os.setxattr(handle, _ATTRIBUTE, token.encode())
        except OSError:
            return ""
        return token

    def write(self, sidecar: Sidecar) -> None:
        """Write the sidecar atomically; the new file is locked before it gets the name.

        Raises:
            OSError: The sidecar cannot be written.
        """
        new = temporary_beside(self._path)
        handle = -1
        try:
            write_durably(new, f"{json.dumps(asdict(sidecar), indent=2)}\n".encode())
            handle = _open_and_lock(new)
            new.rename(self._path)
        except BaseException:
            if handle >= 0:
                os.close(handle)
            new.unlink(missing_ok=True)
            raise
        os.close(self._fd)
        self._fd = handle
        fsync_directory(self._path.parent)

    def remove(self) -> bool:
        """Delete the file and its sidecar; return whether there was one.

        A file of another campaign or program stays.

        Raises:
            OSError: The file cannot be deleted.
        """
        if not self.data_file.exists():
            return False
        if self.data_file.is_symlink() or not made_by_storlab(self.data_file):
            return False
        if self.owner != self.campaign:
            return False
        self.data_file.unlink()
        if self._is_held():
            self._path.unlink()
        return True

    def _claim(self) -> bool:
        try:
            # With O_CREAT the kernel may refuse another user's file in a shared directory.
            create = self._make and not self._path.exists()
            handle = _open_and_lock(self._path, os.O_CREAT if create else 0)
        except FileNotFoundError:
            if not self._make:
                raise
            if self.data_file.parent.is_dir():
                return False
            raise PreflightError(
                str(self._path.parent), "is not there", "make the directory first"
            ) from None
        except BlockingIOError:
            raise _in_use(self.data_file) from None
        except OSError as error:
            raise _cannot_be_made(self._path, error) from error
        self._fd = handle
        if self._is_held():
            return True
        os.close(handle)
        return False

    def _is_held(self) -> bool:
        """Return whether the lock is on the sidecar that exists now."""
        try:
            there = self._path.stat()
        except FileNotFoundError:
            return False
        held = os.fstat(self._fd)
        return (there.st_dev, there.st_ino) == (held.st_dev, held.st_ino)


def _open_and_lock(path: Path, flags: int = 0) -> int:
    """Open a sidecar and lock it; raise BlockingIOError if it is locked, or OSError.

    It is opened read-only if possible, because a file open for writing keeps a file system from
    being remounted. NFS locks only files open for writing; file systems without locks cannot
    exclude others.
    """
    for access in (os.O_RDONLY, os.O_RDWR):
        # O_NONBLOCK: opening a pipe of that name would block.
        handle = os.open(path, access | flags | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOFOLLOW, 0o644)
        try:
            try_lock_exclusive(handle)
        except OSError as error:
            os.close(handle)
            if error.errno != errno.EBADF or access == os.O_RDWR:
                raise
        else:
            break
    return handle


@contextmanager
def hold_to_read(data_file: Path) -> Iterator[None]:
    """Lock a foreign file that a campaign only reads, by flock(2) on the file itself.

    Two campaigns that read one file would distort each other's measurements, under any name. The
    lock has no effect on file systems without locks, and on NFS, which locks no file that is open
    read-only.

    Raises:
        GuardError: Another campaign, or another program, has locked the file.
    """
    try:
        handle = os.open(data_file, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:  # the preflight check reports it
        yield
        return
    try:
        try:
            try_lock_exclusive(handle)
        except BlockingIOError:
            raise _in_use(data_file) from None
        except OSError as error:
            if error.errno != errno.EBADF:
                raise
        yield
    finally:
        os.close(handle)


def check_not_in_use(data_file: Path) -> None:
    """Raise GuardError if a campaign holds the file now, without writing anything."""
    if is_locked(sidecar_path(data_file)):
        raise _in_use(data_file)


def _cannot_be_made(path: Path, error: OSError) -> PreflightError:
    return PreflightError(
        str(path), f"cannot be written: {error.strerror}", "choose another directory, or make room"
    )


def _in_use(data_file: Path) -> GuardError:
    fix = "wait until it has ended, or choose another path"
    return GuardError(str(data_file), "is in use by another campaign", fix)
