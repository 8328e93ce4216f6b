"""One campaign at a time on a directory that clients share, whatever its clients are called.

The first client of every task locks ``storlab-cluster.lock`` there, writes into it whose it is, and
holds it until all clients have ended. Between two tasks nobody holds the lock: what the file says
stands until its campaign has been away for longer than it said that it would be.
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
from storlab.base.locks import is_locked, lock_alone
from storlab.base.units import NS_PER_S, format_duration

LOCK = "storlab-cluster.lock"
WAITS = "waiting for"
"""How a client's word begins that it waits for another campaign's directory."""
FIX = "wait until it has ended, end it there, or give the target another directory"
_MADE_BY = "storlab"
_LINGER_NS = 60 * NS_PER_S  # for a task of the same campaign whose end nobody waited for
_NAP_S = 0.1
_BORNE = 100  # looks: to lock the file, to write it and to have it on the server takes a while
# Written in place: a full disk, on which cleaning up makes room, takes it. Never shorter than what
# was there, in one piece: nobody reads the end of another name behind it.
_LENGTH = 1024

Meanwhile = Callable[[str, float, float], None]  # what is waited for, its seconds, and those gone


@dataclass(frozen=True, slots=True)
class Holder:
    """Whose a directory is."""

    campaign: str
    study: str
    results: str  # HOST:DIRECTORY of the lab
    away_ns: int  # the longest time from one of its tasks to the next
    client: str = ""
    task: str = ""  # nonce of the order

    def __str__(self) -> str:
        return f"campaign {self.campaign} ({self.study}, results in {self.results})"


class Claim:
    """The first client's claim on a directory, from entering to leaving.

    Entering waits while another campaign may only be between two of its tasks, and calls
    ``meanwhile`` ten times a second. It raises GuardError where that one goes on, PreflightError
    where no lock can be made. Leaving lets the file stand for the tasks to come, unless ``ends``;
    and where leaving is an error's, since other clients may still work there.
    """

    def __init__(self, directory: Path, own: Holder, meanwhile: Meanwhile) -> None:
        self.path = directory / LOCK
        self.ends = own.away_ns == 0  # no other task follows
        self._own = own
        self._watch = _Watch(self.path, own, meanwhile)
        self._handle = -1

    def look(self) -> None:
        """Look for the first time: of several, each waits from then on. Raises as entering."""
        try:
            self._watch.is_free()
        except OSError as error:
            raise _cannot(self.path, error) from error

    def __enter__(self) -> Claim:
        try:
            while not (self._watch.is_free() and self._take()):
                self._watch.nap()
        except OSError as error:
            raise _cannot(self.path, error) from error
        return self

    def __exit__(self, kind: object = None, *_: object) -> None:
        with suppress(OSError):
            if self.ends and kind is None and _is_same(self._handle, self.path):
                os.ftruncate(self._handle, 0)  # in a sticky directory of another user it stays
                self.path.unlink()
        os.close(self._handle)

    def _take(self) -> bool:
        handle = _open(self.path)
        try:
            lock_alone(handle)
            # Somebody may have been faster, or have removed the file.
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


def await_claim(directory: Path, own: Holder, meanwhile: Meanwhile) -> None:
    """Until the first client has the claim for this task. Raises as entering it.

    The first client locks the file before it writes it: where it takes a dead campaign's, that
    one's name stands beside a lock meanwhile. So a refusal counts when it lasts.
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
    """Who but that campaign works there at this moment. Raises GuardError, OSError."""
    rival = _read(directory / LOCK)
    at_work = rival is not None and rival.campaign != campaign and is_locked(directory / LOCK)
    return rival if at_work else None


class _Watch:
    """Looks whether another campaign that was there goes on."""

    def __init__(self, path: Path, own: Holder, meanwhile: Meanwhile) -> None:
        self.path = path
        self.holder: Holder | None = None
        self._own = own
        self._meanwhile = meanwhile
        self._rival: Holder | None = None
        self._began_ns = self._since_ns = monotonic_ns()
        self._lingers_ns: int | None = None

    def is_free(self) -> bool:
        """Whether no other campaign is there. Raises GuardError for one that is at work."""
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
        if self._lingers_ns is None:  # it may have waited for another directory before
            self._lingers_ns = monotonic_ns()
        if monotonic_ns() - self._lingers_ns > _LINGER_NS:
            raise GuardError(
                str(self.path),
                "is locked by what is left of an earlier task",
                "end the processes of storlab.lab.site.rank on the first client",
            )

    def check_seen(self) -> None:
        """Raise PreflightError where the first client must have made it long since."""
        away_ns = 0 if self._rival is None else self._rival.away_ns
        if monotonic_ns() - self._began_ns > away_ns + 2 * _LINGER_NS:
            raise PreflightError(
                str(self.path),
                "was written by the first client, and is not seen here",
                "mount the same file system on all clients (storlab doctor STUDY)",
            )

    def nap(self) -> None:
        """Say what is waited for."""
        gone_s = (monotonic_ns() - self._since_ns) / NS_PER_S
        if self._rival is None:
            self._meanwhile(f"{self.path.parent}: waits for the first client", 0.0, gone_s)
        else:
            limit = format_duration(self._rival.away_ns)
            what = f"{WAITS} {self.path.parent}: {self._rival} may go on there; free after {limit}"
            self._meanwhile(what, self._rival.away_ns / NS_PER_S, gone_s)
        sleep_s(_NAP_S)


def _open(path: Path) -> int:
    """For reading and writing: NFS locks nothing else."""
    flags = os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW
    # With O_CREAT alone the kernel may refuse another user's file in a shared directory.
    if path.exists():
        return os.open(path, flags)
    handle = os.open(path, flags | os.O_CREAT, 0o666)
    with suppress(OSError):  # another user's campaign has to lock it, too
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
    os.fsync(handle)  # NFS would hand it on only when the file is closed


def _read(path: Path) -> Holder | None:
    """None where there is none. Raises GuardError for a file that is not storlab's."""
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
