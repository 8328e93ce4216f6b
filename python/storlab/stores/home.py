"""Directory ``<target>/storlab-data`` (the home), which contains all files of a directory target.

Everything in a home belongs to storlab. A marker file records which campaign owns each entry.
Entries that exist when a campaign starts are recorded as an earlier campaign's, so a campaign's
clean-up never deletes files that another one has kept.
"""

from __future__ import annotations

import json
import os
import shutil
import stat
from collections.abc import Callable
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from storlab.base.clock import monotonic_ns, sleep_s
from storlab.base.errors import GuardError, PreflightError, RunError
from storlab.base.files import directory_problem, parse_json, read_input, replace_file
from storlab.base.locks import try_lock_exclusive
from storlab.base.units import NS_PER_S
from storlab.process.execution import StopRequest
from storlab.stores.data_file import is_kernel_place
from storlab.stores.devices import mount_lines

HOME = "storlab-data"
_MADE_BY = "storlab"
MARKER = f"{_MADE_BY}.json"
LOCK = f"{_MADE_BY}.lock"
_OWN = (MARKER, LOCK)
_AWAIT_NS = 60 * NS_PER_S  # time-out for files of another client to appear here
_MOVE = "move it away, or choose another directory for the target"


@dataclass(slots=True)
class _Marker:
    """Content of the marker file: last campaign, and the campaign that owns each entry."""

    campaign: str = ""
    owners: dict[str, str] = field(default_factory=dict)


class DataDirectoryLock:
    """Context manager that locks a directory target's ``storlab-data`` for a campaign.

    Entering creates the directory if missing. It raises GuardError, without writing anything, if
    storlab did not create the directory or another campaign uses it, and PreflightError if it
    cannot be created. With ``look_only``, only the checks are made. Leaving removes the directory
    if it is empty.
    """

    def __init__(self, directory: Path, campaign: str, *, look_only: bool = False) -> None:
        self.path = home_of(directory)
        self.campaign = campaign
        self.look_only = look_only
        self._stack = ExitStack()
        self._marker = _Marker()

    def __enter__(self) -> DataDirectoryLock:
        check_home(self.path)
        if self.look_only:
            return self
        try:
            with ExitStack() as stack:
                _claim(self.path, stack)
                stack.callback(self._take_back)
                self._take_over()
                self._stack = stack.pop_all()
        except OSError as error:
            raise PreflightError(
                str(self.path), f"cannot be created: {error.strerror}", "choose another directory"
            ) from error
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def clean(self, stop: StopRequest) -> list[str]:
        """Remove the campaign's files, and ``storlab-data`` if then empty; return their paths.

        Raises:
            GuardError: ``storlab-data`` is no longer a directory that storlab created.
            RunError: A file or directory cannot be removed.
            Interrupted: A stop was requested.
        """
        check_home(self.path)
        removed: list[str] = []
        if not self.path.exists():
            return removed
        try:
            self._remove_own(stop, removed)
        except OSError as error:
            raise RunError(
                str(error.filename or self.path),
                f"cannot be removed: {error.strerror}",
                "check its permissions, then clean up again",
            ) from error
        return removed

    def _remove_own(self, stop: StopRequest, removed: list[str]) -> None:
        self._take_over()
        for part in parts_of(self.path):
            if self._marker.owners.get(part) != self.campaign:
                continue
            stop.pause(0)
            _remove(self.path / part)
            removed.append(str(self.path / part))
        self._take_back()

    def _take_over(self) -> None:
        """Record this campaign in the marker, and the previous one as owner of other entries."""
        marker = _read_marker(self.path) or _Marker()
        parts = parts_of(self.path)
        owners = {part: marker.owners.get(part, marker.campaign) for part in parts}
        self._marker = _Marker(self.campaign, owners)
        # Write only if the content changes: on a full disk, writing would fail, and a clean-up that
        # would free space could not start.
        if marker.campaign != self.campaign or not marker.owners.keys() <= set(parts):
            _write_marker(self.path, self._marker)

    def _take_back(self) -> None:
        """Remove ``storlab-data`` if it contains only the marker file and the lock file."""
        if _read_marker(self.path) is not None and not parts_of(self.path):
            for name in _OWN:
                (self.path / name).unlink(missing_ok=True)
            with suppress(OSError):  # another program created a file in it: keep it
                self.path.rmdir()


def home_of(directory: Path) -> Path:
    """Return the path of ``storlab-data`` in a directory target, existing or not."""
    return Path(os.path.realpath(directory)) / HOME


def await_home(directory: Path, campaign: str, meanwhile: Callable[[], None]) -> Path:
    """Wait until the first client has created and locked ``storlab-data``; return its path.

    Args:
        directory: Directory target.
        campaign: Campaign that the marker file must name.
        meanwhile: Function called about twenty times per second while waiting.

    Raises:
        PreflightError: The directory does not appear on this client in time.
    """
    home = home_of(directory)
    limit_ns = monotonic_ns() + _AWAIT_NS
    while (marker := _read_marker(home)) is None or marker.campaign != campaign:
        if monotonic_ns() > limit_ns:
            raise PreflightError(
                str(home),
                "was created by the first client, but does not exist on this client",
                "mount the same file system on all clients (storlab doctor STUDY)",
            )
        meanwhile()
        sleep_s(0.05)
    return home


def check_home(home: Path) -> None:
    """Check that ``storlab-data`` does not exist, or was created by storlab.

    Raises:
        GuardError: The path belongs to somebody else, or has a mount point below it.
        PreflightError: The path cannot be read.
    """
    if is_kernel_place(home):
        raise GuardError(str(home), "is in a kernel file system such as /proc", _MOVE)
    try:
        mode = home.lstat().st_mode
    except FileNotFoundError:
        return
    except OSError as error:
        raise PreflightError(str(home), f"cannot be examined: {error.strerror}", _MOVE) from error
    if stat.S_ISLNK(mode):
        raise GuardError(str(home), "is a symbolic link, which storlab does not follow", _MOVE)
    if not stat.S_ISDIR(mode):
        raise GuardError(str(home), directory_problem(home), _MOVE)
    try:
        foreign = any(home.iterdir()) and _read_marker(home) is None
    except OSError as error:
        raise PreflightError(str(home), f"cannot be read: {error.strerror}", _MOVE) from error
    if foreign:
        raise GuardError(
            str(home), f"exists, but storlab did not create it (no {MARKER} in it)", _MOVE
        )
    inside = f"{home}{os.sep}"
    mounted = [mount.mount_point for mount in mount_lines() if mount.mount_point.startswith(inside)]
    if mounted:
        raise GuardError(
            str(home), f"contains a mount point: {mounted[0]}", "unmount it, then try again"
        )


def parts_of(home: Path) -> list[str]:
    """Return the names of the entries of ``storlab-data`` other than the marker and lock files."""
    return sorted(entry.name for entry in home.iterdir() if entry.name not in _OWN)


def _remove(part: Path) -> None:
    """Remove a file or directory tree without following symbolic links."""
    if part.is_dir() and not part.is_symlink():
        shutil.rmtree(part)
    else:
        part.unlink()


def _claim(home: Path, stack: ExitStack) -> None:
    """Create ``storlab-data`` if it is missing, and lock it.

    Raises:
        GuardError: Another campaign has locked it.
        OSError: It cannot be created or locked.
    """
    while True:
        with suppress(FileExistsError):
            home.mkdir(mode=0o700)
        if _read_marker(home) is None:
            _write_marker(home, _Marker())
        handle = os.open(home / LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
        try:
            try_lock_exclusive(handle)
        except BlockingIOError:
            os.close(handle)
            raise GuardError(
                str(home), "is in use by another campaign", "wait until that campaign has ended"
            ) from None
        except OSError:
            os.close(handle)
            raise
        with suppress(FileNotFoundError):
            if os.fstat(handle).st_ino == (home / LOCK).stat().st_ino:
                stack.callback(os.close, handle)
                return
        os.close(handle)  # try again: a campaign that just ended has removed the lock file


def _write_marker(home: Path, marker: _Marker) -> None:
    fields = {
        "schema_version": 1,
        "made_by": _MADE_BY,
        "campaign": marker.campaign,
        "owners": marker.owners,
    }
    replace_file(home / MARKER, (json.dumps(fields, indent=2) + "\n").encode())


def _read_marker(home: Path) -> _Marker | None:
    """Return the content of a home's marker file; None if it is missing or not storlab's."""
    path = home / MARKER
    try:
        if path.is_symlink():
            return None
        document: Any = parse_json(read_input(path))
        if (document["made_by"], document["schema_version"]) != (_MADE_BY, 1):
            return None
        owners = {str(part): str(owner) for part, owner in document.get("owners", {}).items()}
        return _Marker(str(document.get("campaign", "")), owners)
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return None


def allocated_bytes(place: Path) -> int:
    """Return the bytes allocated for all files below a directory; 0 if it does not exist."""
    total = 0
    for directory, _, names in os.walk(place):
        for name in names:
            with suppress(OSError):
                total += (Path(directory) / name).lstat().st_blocks * 512
    return total
