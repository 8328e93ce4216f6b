"""Lock of a campaign on a shared directory, independent of the names of its clients.

The first client of each task locks ``storlab-cluster.lock`` in the directory, writes the holder
into it, and holds the lock until all clients have ended. Between two tasks the file is not locked:
its content then remains valid until the campaign has been away for longer than the time it states.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from storlab.base.clock import monotonic_ns, sleep_s
from storlab.base.errors import GuardError, PreflightError
from storlab.base.files import directory_problem, parse_json, read_input
from storlab.base.locks import is_locked, try_lock_exclusive
from storlab.base.units import NS_PER_S, format_duration

LOCK = "storlab-cluster.lock"
WAITS = "waiting for"
"""Prefix of a client's message while it waits for another campaign's directory."""
FIX = "wait until it has ended, end it there, or give the target another directory"
_MADE_BY = "storlab"
_LINGER_NS = 60 * NS_PER_S  # for an earlier task of the same campaign that is still ending
_NAP_S = 0.1
_BORNE = 100  # checks; locking and writing the file and seeing it on the server take time
# Written in place, so that it works on a full disk that a clean-up will empty. Written at once and
# never shorter than before, so that no reader sees the end of another record.
_LENGTH = 1024

# arguments: what is waited for, time limit and elapsed time in seconds
Meanwhile = Callable[[str, float, float], None]


@dataclass(frozen=True, slots=True)
class Holder:
    """Campaign that holds a directory."""

    campaign: str
    study: str
    results: str  # HOST:DIRECTORY of the results
    away_ns: int  # longest time between two tasks of the campaign
    client: str = ""
    task: str = ""  # nonce of the order

    def __str__(self) -> str:
        return f"campaign {self.campaign} ({self.study}, results in {self.results})"


class DirectoryLease:
    """Lock on a directory by the first client, as a context manager.

    Entering waits while another campaign may be between two of its tasks, and calls ``meanwhile``
    ten times per second. It raises GuardError if that campaign continues, and PreflightError if the
    file cannot be locked. Leaving keeps the file for later tasks, unless ``ends`` is set. It also
    keeps the file after an error, because other clients may still be working there.
    """

    def __init__(self, directory: Path, own: Holder, meanwhile: Meanwhile) -> None:
        self.path = directory / LOCK
        self.ends = own.away_ns == 0  # whether no other task follows
        self._own = own
        self._watch = _Watch(self.path, own, meanwhile)
        self._handle = -1

    def look(self) -> None:
        """Look for another campaign, which starts the waiting time; call it for all first.

        Raises:
            GuardError: Another campaign works there.
            PreflightError: The file cannot be read or locked.
        """
        try:
            self._watch.is_free()
        except OSError as error:
            raise _cannot(self.path, error) from error

    def __enter__(self) -> DirectoryLease:
        try:
            while not (self._watch.is_free() and self._take()):
                self._watch.nap()
        except OSError as error:
            raise _cannot(self.path, error) from error
        return self

    def __exit__(self, kind: object = None, *_: object) -> None:
        with suppress(OSError):
            if self.ends and kind is None and _is_same(self._handle, self.path):
                # another user's sticky directory does not allow unlink
                os.ftruncate(self._handle, 0)
                self.path.unlink()
        os.close(self._handle)

    def _take(self) -> bool:
        handle = _open(self.path)
        try:
            try_lock_exclusive(handle)
            # Another process may have locked or removed the file meanwhile.
            if _is_same(handle, self.path) and _read(self.path) == self._watch.holder:
                _write(handle, self._own)
                self._handle, handle = handle, -1
                return True
        except BlockingIOError:
            pass
        finally:
            if handle >= 0:
                os.close(handle)
        return False


def await_lease(directory: Path, own: Holder, meanwhile: Meanwhile) -> None:
    """Wait until the first client has locked the directory for this task.

    The first client locks the file before it writes it. While it takes over the file of a dead
    campaign, that campaign's name is in a locked file. So a refusal counts only if it lasts.

    Raises:
        GuardError: Another campaign works there.
        PreflightError: The file cannot be read, or the first client's lock is not seen here.
    """
    watch = _Watch(directory / LOCK, own, meanwhile)
    refusals = 0
    try:
        while True:
            try:
                rival = watch.holder if watch.is_free() else None
            except GuardError:
                rival, refusals = None, refusals + 1
                if refusals > _BORNE:
                    raise
            if rival is not None and rival.task == own.task:
                return
            watch.check_seen()
            watch.nap()
    except OSError as error:
        raise _cannot(watch.path, error) from error


def holder_now(directory: Path, campaign: str) -> Holder | None:
    """Return another campaign that currently works in a directory; raise GuardError or OSError."""
    rival = _read(directory / LOCK)
    at_work = rival is not None and rival.campaign != campaign and is_locked(directory / LOCK)
    return rival if at_work else None


class _Watch:
    """Observer of a lock file that finds out whether another campaign continues."""

    def __init__(self, path: Path, own: Holder, meanwhile: Meanwhile) -> None:
        self.path = path
        self.holder: Holder | None = None
        self._own = own
        self._meanwhile = meanwhile
        self._rival: Holder | None = None
        self._began_ns = self._since_ns = monotonic_ns()
        self._lingers_ns: int | None = None

    def is_free(self) -> bool:
        """Return whether no other campaign holds the directory, or raise GuardError."""
        self.holder = holder = _read(self.path)
        locked = is_locked(self.path)
        if holder is None or holder.campaign == self._own.campaign:
            if locked and (holder is None or holder.task != self._own.task):
                self._check_lingering()
                return False
            return True
        if locked or self._rival not in (None, holder):
            raise GuardError(str(self.path.parent), f"is in use by {holder}", FIX)
        if self._rival is None:
            self._rival, self._since_ns = holder, monotonic_ns()
        return monotonic_ns() - self._since_ns > holder.away_ns

    def _check_lingering(self) -> None:
        # start the limit now: this client may have waited for another directory before
        if self._lingers_ns is None:
            self._lingers_ns = monotonic_ns()
        if monotonic_ns() - self._lingers_ns > _LINGER_NS:
            raise GuardError(
                str(self.path),
                "is locked by what is left of an earlier task",
                "end the processes of storlab.lab.site.rank on the first client",
            )

    def check_seen(self) -> None:
        """Raise PreflightError if the first client should have written the lock long ago."""
        away_ns = 0 if self._rival is None else self._rival.away_ns
        if monotonic_ns() - self._began_ns > away_ns + 2 * _LINGER_NS:
            raise PreflightError(
                str(self.path),
                "was written by the first client, and is not seen here",
                "mount the same file system on all clients (storlab doctor STUDY)",
            )

    def nap(self) -> None:
        """Report what is waited for, and sleep briefly."""
        gone_s = (monotonic_ns() - self._since_ns) / NS_PER_S
        if self._rival is None:
            self._meanwhile(f"{self.path.parent}: waits for the first client", 0.0, gone_s)
        else:
            limit = format_duration(self._rival.away_ns)
            what = f"{WAITS} {self.path.parent}: {self._rival} may go on there; free after {limit}"
            self._meanwhile(what, self._rival.away_ns / NS_PER_S, gone_s)
        sleep_s(_NAP_S)


def _open(path: Path) -> int:
    """Open for reading and writing, because NFS requires that for an exclusive lock."""
    flags = os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW
    # With O_CREAT the kernel may refuse another user's file in a shared sticky directory.
    if path.exists():
        return os.open(path, flags)
    handle = os.open(path, flags | os.O_CREAT, 0o666)
    with suppress(OSError):  # so that another user's campaign can lock it, too
        os.fchmod(handle, 0o666)
    return handle


def _is_same(handle: int, path: Path) -> bool:
    held = os.fstat(handle)
    with suppress(FileNotFoundError):
        there = path.stat()
        return (there.st_dev, there.st_ino) == (held.st_dev, held.st_ino)
    return False


def _write(handle: int, holder: Holder) -> None:
    fields = {"schema_version": 1, "made_by": _MADE_BY, **asdict(holder)}
    length = max(_LENGTH, os.fstat(handle).st_size)
    os.pwrite(handle, json.dumps(fields).encode().ljust(length - 1) + b"\n", 0)
    os.fsync(handle)  # otherwise NFS would send it only when the file is closed


def _read(path: Path) -> Holder | None:
    """Return the holder in a lock file, or None; raise GuardError for a foreign file."""
    try:
        content = read_input(path)
    except FileNotFoundError:
        return None
    if not content:
        return None
    try:
        document: Any = parse_json(content)
        if (document.pop("made_by"), document.pop("schema_version")) == (_MADE_BY, 1):
            return Holder(**document)
    except (ValueError, KeyError, TypeError, AttributeError):
        pass
    raise GuardError(str(path), "is not a lock of this version of storlab", "move it away")


def _cannot(path: Path, error: OSError) -> PreflightError:
    if problem := directory_problem(path.parent):
        return PreflightError(str(path.parent), f"{problem} here", "make it, or correct the path")
    what = f"cannot be locked: {error.strerror}"
    return PreflightError(str(path), what, "let this user write to it on the first client")
