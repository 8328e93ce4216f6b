"""Record in a sidecar ``<file>.storlab.json`` that storlab created a data file.

The sidecar is written before its file is created. It names the campaign that created the file and,
once the file exists, the inode and a random token that is also in an extended attribute of the
file. A file that another program creates in its place may get the same inode, but not the token, so
storlab does not touch it. On file systems without extended attributes, a complete file must have
its recorded size instead. A campaign locks the sidecar from before its first run to its end.
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
    """Content of a sidecar: size, seed, state and owner of the data file beside it."""

    size: int
    seed: int
    storlab_version: str
    state: Literal["started", "complete"]
    inode: int | None = None
    token: str = ""  # as in the extended attribute; empty if the file system has none
    campaign: str = ""  # creator of the file; empty if an old version wrote the sidecar
    written_by: str = ""  # last campaign that writes to the file
    schema_version: int = 1
    what: str = _MARK


def sidecar_path(data_file: Path) -> Path:
    """Return the path of a data file's sidecar."""
    return data_file.with_name(data_file.name + SUFFIX)


def read_sidecar(data_file: Path) -> Sidecar | None:
    """Return the sidecar of a data file; None if there is none.

    Raises:
        GuardError: A file with the sidecar's name is not a sidecar, or cannot be read.
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
        raise GuardError(str(path), "is not a sidecar of this version of storlab", _MOVE)
    return sidecar


_FOREIGN = "is no longer the file that storlab created"
_MOVE = "move it and its data file away, or choose another path"


def made_by_storlab(data_file: Path) -> bool:
    """Return whether storlab created a data file, according to its sidecar, inode and token.

    If the sidecar contains no inode yet, the file must be empty.
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
    """Return the token in a file's extended attribute.

    Returns:
        The token; "" if the file has none; None if the file system does not show attributes, such
        as NFS before 4.2.
    """
    try:
        return os.getxattr(data_file, _ATTRIBUTE).decode(errors="replace")
    except OSError as error:
        return "" if error.errno == errno.ENODATA else None


def is_complete(data_file: Path, size: int) -> bool:
    """Return whether storlab created the file and has written it completely, with this size."""
    if not data_file.exists() or not made_by_storlab(data_file):
        return False
    sidecar = read_sidecar(data_file)
    laid_out = sidecar is not None and sidecar.state == "complete" and sidecar.size == size
    return laid_out and data_file.stat().st_size == size


class DataFileHold:
    """Context manager that locks one data file for a campaign, by locking its sidecar.

    Entering raises GuardError if another campaign has locked the file, and PreflightError if the
    sidecar cannot be created. If the sidecar is missing, ``make`` creates it; otherwise entering
    raises FileNotFoundError. Leaving removes the sidecar if its file does not exist.
    """

    def __init__(self, data_file: Path, campaign: str, *, make: bool = True) -> None:
        self.data_file = data_file
        self.campaign = campaign
        self._path = sidecar_path(data_file)
        self._make = make
        self._fd = -1

    def __enter__(self) -> DataFileHold:
        while not self._claim():
            pass  # try again: a campaign that just ended has removed the sidecar
        return self

    def __exit__(self, *_: object) -> None:
        with suppress(OSError, GuardError):  # the file system failed, or the sidecar is foreign
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
        """Record in the sidecar that this campaign will create the file or write to it.

        Args:
            size: Size in bytes of a file to be created.
            seed: Seed of its content.
            writes: Whether the campaign writes to an existing file.

        Raises:
            PreflightError: The sidecar cannot be written.
            GuardError: The file exists and is not one that storlab created.
        """
        before = read_sidecar(self.data_file)
        if not self.data_file.exists():
            now = Sidecar(size, seed, __version__, "started", campaign=self.campaign)
        elif before is None:
            raise GuardError(str(self.data_file), _FOREIGN, _MOVE)
        else:
            self.check_own()
            now = replace(before, written_by=self.campaign) if writes else before
        try:
            if now != before:
                self.write(now)
        except OSError as error:
            raise _cannot_be_made(self._path, error) from error

    def open_to_lay_out(self) -> int:
        """Open the data file for writing, creating it if it does not exist.

        Raises:
            FileExistsError: The file exists and was not created by storlab.
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
        """Check that the data file does not exist, or was created by storlab.

        Raises:
            GuardError: Another program has created the file.
        """
        if self.data_file.exists() and not made_by_storlab(self.data_file):
            raise GuardError(str(self.data_file), _FOREIGN, _MOVE)

    def spoil(self) -> None:
        """Mark the data file as incomplete, so that it is written again before it is used.

        Raises:
            OSError: The sidecar cannot be written.
        """
        sidecar = read_sidecar(self.data_file)
        if sidecar is not None:
            self.write(replace(sidecar, state="started"))

    def mark(self, handle: int) -> str:
        """Store the sidecar's token, or a new one, in the data file's extended attribute.

        Returns:
            The token; "" if the file system does not support extended attributes.
        """
        before = read_sidecar(self.data_file)
        token = (before.token if before else "") or secrets.token_hex(8)
        try:
            os.setxattr(handle, _ATTRIBUTE, token.encode())
        except OSError:
            return ""
        return token

    def write(self, sidecar: Sidecar) -> None:
        """Replace the sidecar atomically; the new one is locked before it gets its final name.

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
        """Delete the data file and its sidecar, unless another campaign or program created it.

        Returns:
            Whether the file was deleted.

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
            # Pass O_CREAT only for a missing file: with it, opening another user's file in a sticky
            # directory may fail.
            create = self._make and not self._path.exists()
            handle = _open_and_lock(self._path, os.O_CREAT if create else 0)
        except FileNotFoundError:
            if not self._make:
                raise
            if self.data_file.parent.is_dir():
                return False
            raise PreflightError(
                str(self._path.parent), "does not exist", "create the directory first"
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
        """Return whether the locked file is still the one that has the sidecar's path."""
        try:
            there = self._path.stat()
        except FileNotFoundError:
            return False
        held = os.fstat(self._fd)
        return (there.st_dev, there.st_ino) == (held.st_dev, held.st_ino)


def _open_and_lock(path: Path, flags: int = 0) -> int:
    """Open a sidecar and lock it exclusively, if the file system supports locks.

    It is opened read-only if possible, because an open writable file prevents the file system from
    being remounted read-only. NFS requires it to be writable.

    Raises:
        BlockingIOError: Another process has locked the sidecar.
        OSError: The sidecar cannot be opened or locked.
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
    """Lock a file that storlab did not create and only reads, by flock(2) on the file itself.

    Two campaigns that read the same file would distort each other's measurements. The lock has no
    effect on file systems without locks, and on NFS, which cannot lock a read-only open file.

    Raises:
        GuardError: Another campaign or another program has locked the file.
    """
    try:
        handle = os.open(data_file, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:  # the preflight check reports the error
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
    """Check, without writing anything, that no campaign has locked a data file.

    Raises:
        GuardError: A campaign has locked the file.
    """
    if is_locked(sidecar_path(data_file)):
        raise _in_use(data_file)


def _cannot_be_made(path: Path, error: OSError) -> PreflightError:
    return PreflightError(
        str(path), f"cannot be written: {error.strerror}", "choose another directory, or make room"
    )


def _in_use(data_file: Path) -> GuardError:
    fix = "wait until that campaign has ended, or choose another path"
    return GuardError(str(data_file), "is in use by another campaign", fix)
