"""Lease of a cluster campaign on a shared directory, so that no other campaign uses it.

The first client of each task locks ``storlab-cluster.lock`` in the directory, writes the campaign
into it, and keeps the lock until all clients have ended. Between two tasks the file is not locked.
The lease then remains valid for the time that the file states.
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
"""First words of a client's message while another campaign may be using a directory."""
FIX = "wait until it has ended, end it there, or give the target another directory"
_MADE_BY = "storlab"
_LINGER_NS = 60 * NS_PER_S  # time for an earlier task of the same campaign to end
_NAP_S = 0.1
_BORNE = 100  # checks that may fail while the first client locks and writes the file
# Length of the file's content. It is overwritten in place, so that a clean-up works on a full disk.
# One call writes all of it, and it never gets shorter, so no reader sees parts of two contents.
_LENGTH = 1024

# Function that is called while waiting, with the reason, the time limit and the elapsed time in s.
Meanwhile = Callable[[str, float, float], None]


@dataclass(frozen=True, slots=True)
class Holder:
    """Campaign that has leased a directory, as recorded in the directory's lock file."""

    campaign: str
    study: str
    results: str  # HOST:DIRECTORY of the results
    away_ns: int  # longest time between two tasks of the campaign
    client: str = ""
    task: str = ""  # random id of the task

    def __str__(self) -> str:
        return f"campaign {self.campaign} ({self.study}, results in {self.results})"


class DirectoryLease:
    """Context manager that locks a shared directory for a task; used by the first client only.

    Entering waits as long as another campaign may be between two of its tasks, and calls
    ``meanwhile`` ten times per second. It raises GuardError if that campaign continues, and
    PreflightError if the file cannot be locked. Leaving keeps the file for later tasks of the
    campaign, unless ``ends`` is set. It also keeps the file after an error, because other clients
    may still be working in the directory.
    """

    def __init__(self, directory: Path, own: Holder, meanwhile: Meanwhile) -> None:
        self.path = directory / LOCK
        self.ends = own.away_ns == 0  # whether no other task follows
        self._own = own
        self._watch = _Watch(self.path, own, meanwhile)
        self._handle = -1

    def look(self) -> None:
        """Start the waiting time if another campaign has leased the directory.

        Call it for all directories before entering any, so that the waiting times overlap.

        Raises:
            GuardError: Another campaign is using the directory.
            PreflightError: The lock file cannot be read.
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
                # Truncate first: in a sticky directory, unlink fails for all but the owners.
                os.ftruncate(self._handle, 0)
                self.path.unlink()
        os.close(self._handle)

    def _take(self) -> bool:
        handle = _open(self.path)
        try:
            try_lock_exclusive(handle)
            # Compare again: another process may have replaced or written the file meanwhile.
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
    """Wait, on any other client, until the first client has locked the directory for this task.

    The first client locks the file before it writes its campaign into it. Until then, the locked
    file may contain the name of a dead campaign, so a conflict counts only if it lasts for several
    checks.

    Raises:
        GuardError: Another campaign is using the directory.
        PreflightError: The file cannot be read, or the first client's lock does not appear here.
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
    """Return another campaign that has locked a directory now, or None.

    Args:
        directory: Shared directory.
        campaign: This campaign, which is ignored.

    Raises:
        GuardError: The lock file is not storlab's.
        OSError: The lock file cannot be read.
    """
    rival = _read(directory / LOCK)
    at_work = rival is not None and rival.campaign != campaign and is_locked(directory / LOCK)
    return rival if at_work else None


class _Watch:
    """Observes a directory's lock file to find out whether another campaign still uses it."""

    def __init__(self, path: Path, own: Holder, meanwhile: Meanwhile) -> None:
        self.path = path
        self.holder: Holder | None = None
        self._own = own
        self._meanwhile = meanwhile
        self._rival: Holder | None = None
        self._began_ns = self._since_ns = monotonic_ns()
        self._lingers_ns: int | None = None

    def is_free(self) -> bool:
        """Return whether this campaign may lock the directory now; False means to wait.

        Raises:
            GuardError: Another campaign is using the directory.
        """
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
        # Start the time limit at the first check, as this client may have waited elsewhere before.
        if self._lingers_ns is None:
            self._lingers_ns = monotonic_ns()
        if monotonic_ns() - self._lingers_ns > _LINGER_NS:
            raise GuardError(
                str(self.path),
                "is still locked by processes of an earlier task",
                "end the processes with storlab.lab.site.rank in their command on the first client",
            )

    def check_seen(self) -> None:
        """Check that the first client's lock has not been missing for too long.

        Raises:
            PreflightError: The lock did not appear on this client in time.
        """
        away_ns = 0 if self._rival is None else self._rival.away_ns
        if monotonic_ns() - self._began_ns > away_ns + 2 * _LINGER_NS:
            raise PreflightError(
                str(self.path),
                "was written by the first client, but does not exist on this client",
                "mount the same file system on all clients (storlab doctor STUDY)",
            )

    def nap(self) -> None:
        """Pass the reason for waiting to ``meanwhile``, and sleep briefly."""
        gone_s = (monotonic_ns() - self._since_ns) / NS_PER_S
        if self._rival is None:
            self._meanwhile(f"{self.path.parent}: waits for the first client", 0.0, gone_s)
        else:
            limit = format_duration(self._rival.away_ns)
            what = f"{WAITS} {self.path.parent}: {self._rival} may continue; free after {limit}"
            self._meanwhile(what, self._rival.away_ns / NS_PER_S, gone_s)
        sleep_s(_NAP_S)


def _open(path: Path) -> int:
    """Open the lock file, created if missing; also to write, because NFS then permits a lock."""
    flags = os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW
    # Pass O_CREAT only for a missing file: with it, opening another user's file in a sticky
    # directory may fail.
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
    os.fsync(handle)  # NFS would otherwise send the data only when the file is closed


def _read(path: Path) -> Holder | None:
    """Return the campaign that a lock file names, or None if missing or empty.

    Raises:
        GuardError: The file is not a lock file of this version of storlab.
    """
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
        fix = "create it, or correct the path"
        return PreflightError(str(path.parent), f"{problem} on this client", fix)
    what = f"cannot be locked: {error.strerror}"
    return PreflightError(str(path), what, "give this user write access to it on the first client")
