"""``<directory>/storlab-data``: where workloads keep files of their own on a directory target.

All that is in a home belongs to storlab; whose each part is, the marker says. A part that is there
when a campaign comes belongs to the campaign that was there before it, so that cleaning up after
one never takes what another has kept.
"""

from __future__ import annotations

import json
import os
import shutil
import stat
from collections.abc import Callable, Iterable
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from storlab.base.clock import monotonic_ns, sleep_s
from storlab.base.errors import GuardError, PreflightError, RunError
from storlab.base.files import directory_problem, parse_json, read_input, replace_file
from storlab.base.locks import lock_alone
from storlab.base.units import NS_PER_S
from storlab.contracts.registry import FAMILIES
from storlab.model.point import Point
from storlab.model.study import Header, Target
from storlab.process.execution import StopRequest
from storlab.stores.data_file import is_kernel_place
from storlab.stores.devices import mount_lines

HOME = "storlab-data"
_MADE_BY = "storlab"
MARKER = f"{_MADE_BY}.json"
LOCK = f"{_MADE_BY}.lock"
_OWN = (MARKER, LOCK)
_AWAIT_NS = 60 * NS_PER_S  # for what another client has made to show here
_MOVE = "move it away, or choose another directory for the target"


@dataclass(slots=True)
class _Marker:
    """Who was here last, and which campaign each known part belongs to."""

    campaign: str = ""
    owners: dict[str, str] = field(default_factory=dict)


class HomeHold:
    """A home from entering to leaving; one campaign at a time holds it.

    Entering raises GuardError, with nothing written, for one that is not storlab's or that another
    campaign uses; PreflightError where it cannot be made. ``look_only`` makes nothing. Leaving
    removes a home in which nothing was made.
    """

    def __init__(self, directory: Path, campaign: str, *, look_only: bool = False) -> None:
        self.path = home_of(directory)
        self.campaign = campaign
        self.look_only = look_only
        self._stack = ExitStack()
        self._marker = _Marker()

    def __enter__(self) -> HomeHold:
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
                str(self.path), f"cannot be made: {error.strerror}", "choose another directory"
            ) from error
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def clean(self, stop: StopRequest) -> list[str]:
        """Remove the campaign's parts, and the home with its last part. Returns their names.

        Raises GuardError for a home that is no longer storlab's, RunError for what cannot be
        removed, Interrupted on a stop request.
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
                "check its mode, then clean up again",
            ) from error
        return removed

    def _remove_own(self, stop: StopRequest, removed: list[str]) -> None:
        self._take_over()
        for part in _parts(self.path):
            if self._marker.owners.get(part) != self.campaign:
                continue
            stop.pause(0)
            _remove(self.path / part)
            removed.append(str(self.path / part))
        self._take_back()

    def _take_over(self) -> None:
        """What nobody is known to own belongs to whoever was here last."""
        marker = _read_marker(self.path) or _Marker()
        parts = _parts(self.path)
        owners = {part: marker.owners.get(part, marker.campaign) for part in parts}
        self._marker = _Marker(self.campaign, owners)
        # A full disk takes no new marker, and cleaning up is what makes room on it: where the old
        # one says the same, it stays.
        if marker.campaign != self.campaign or not marker.owners.keys() <= set(parts):
            _write_marker(self.path, self._marker)

    def _take_back(self) -> None:
        """Remove the home if nothing is in it."""
        if _read_marker(self.path) is not None and not _parts(self.path):
            for name in _OWN:
                (self.path / name).unlink(missing_ok=True)
            with suppress(OSError):  # somebody put something in: it stays
                self.path.rmdir()


def home_of(directory: Path) -> Path:
    """The home of a directory target, whether it is there or not."""
    return Path(os.path.realpath(directory)) / HOME


def await_home(directory: Path, campaign: str, meanwhile: Callable[[], None]) -> Path:
    """The home of a directory that all clients share, once the campaign's first client holds it.

    ``meanwhile`` is called about twenty times a second. Raises PreflightError where no home shows.
    """
    home = home_of(directory)
    limit_ns = monotonic_ns() + _AWAIT_NS
    while (marker := _read_marker(home)) is None or marker.campaign != campaign:
        if monotonic_ns() > limit_ns:
            raise PreflightError(
                str(home),
                "was made by the first client, and is not seen here",
                "mount the same file system on all clients (storlab doctor STUDY)",
            )
        meanwhile()
        sleep_s(0.05)
    return home


def check_home(home: Path) -> None:
    """Raise GuardError where ``home`` exists and is not storlab's. Writes nothing."""
    if is_kernel_place(home):
        raise GuardError(str(home), "lies where only the kernel makes files", _MOVE)
    try:
        mode = home.lstat().st_mode
    except FileNotFoundError:
        return
    except OSError as error:
        raise PreflightError(str(home), f"cannot be looked at: {error.strerror}", _MOVE) from error
    if stat.S_ISLNK(mode):
        raise GuardError(str(home), "is a symbolic link, and storlab follows none there", _MOVE)
    if not stat.S_ISDIR(mode):
        raise GuardError(str(home), directory_problem(home), _MOVE)
    try:
        foreign = any(home.iterdir()) and _read_marker(home) is None
    except OSError as error:
        raise PreflightError(str(home), f"cannot be read: {error.strerror}", _MOVE) from error
    if foreign:
        raise GuardError(
            str(home), f"exists, and storlab did not make it (no {MARKER} of its own in it)", _MOVE
        )
    inside = f"{home}{os.sep}"
    mounted = [mount.mount_point for mount in mount_lines() if mount.mount_point.startswith(inside)]
    if mounted:
        raise GuardError(
            str(home), f"has something mounted in it: {mounted[0]}", "unmount it, then try again"
        )


def _parts(home: Path) -> list[str]:
    return sorted(entry.name for entry in home.iterdir() if entry.name not in _OWN)


def _remove(part: Path) -> None:
    """Links are removed, never followed."""
    if part.is_dir() and not part.is_symlink():
        shutil.rmtree(part)
    else:
        part.unlink()


def _claim(home: Path, stack: ExitStack) -> None:
    """Make the home where it is missing, and lock it. Raises OSError, GuardError."""
    while True:
        with suppress(FileExistsError):
            home.mkdir(mode=0o700)
        if _read_marker(home) is None:
            _write_marker(home, _Marker())
        handle = os.open(home / LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
        try:
            lock_alone(handle)
        except BlockingIOError:
            os.close(handle)
            raise GuardError(
                str(home), "is in use by another campaign", "wait until it has ended"
            ) from None
        except OSError:
            os.close(handle)
            raise
        with suppress(FileNotFoundError):
            if os.fstat(handle).st_ino == (home / LOCK).stat().st_ino:
                stack.callback(os.close, handle)
                return
        os.close(handle)  # a campaign that ended removed it between the lines


def _write_marker(home: Path, marker: _Marker) -> None:
    fields = {
        "schema_version": 1,
        "made_by": _MADE_BY,
        "campaign": marker.campaign,
        "owners": marker.owners,
    }
    replace_file(home / MARKER, (json.dumps(fields, indent=2) + "\n").encode())


def _read_marker(home: Path) -> _Marker | None:
    """What the marker says; None where there is none of storlab's."""
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


@dataclass(slots=True)
class HomeNeed:
    """What workloads take of a home: data sets by name, and the files of one run, in bytes."""

    data_sets: dict[str, int] = field(default_factory=dict)
    run_bytes: int = 0
    left: frozenset[str] = frozenset()  # ids of runs whose leftovers go, or are gone on with, first

    @property
    def data_bytes(self) -> int:
        """Of all data sets."""
        return sum(self.data_sets.values())

    def add(self, other: HomeNeed) -> None:
        """What another target takes of the same home; runs are never there together."""
        for name, size in other.data_sets.items():
            self.data_sets[name] = max(self.data_sets.get(name, 0), size)
        self.run_bytes = max(self.run_bytes, other.run_bytes)
        self.left |= other.left

    def missing_bytes(self, home: Path) -> int:
        """Of the data sets, what is not on the device yet."""
        return sum(
            max(0, size - (allocated_bytes(home / name) if name else 0))
            for name, size in self.data_sets.items()
        )

    def left_bytes(self, home: Path) -> int:
        """What runs that were interrupted take on the device; there is room for as much."""
        parts = _parts(home) if self.left and home.is_dir() else []
        own = [p for p in parts if any(p == name or p.endswith(f"-{name}") for name in self.left)]
        return sum(allocated_bytes(home / part) for part in own)


def uses_home(point: Point, header: Header, target: Target) -> bool:
    """Whether a point keeps files of its own in a directory, instead of using laid-out ones."""
    if target.directory is None:
        return False
    return FAMILIES[point.kind].estimate(point, header, target).files == 0


def home_need(
    points: Iterable[Point], header: Header, target: Target, left: Iterable[str] = ()
) -> HomeNeed:
    """What these points of one target take of its home; nothing of any other kind of target.

    ``left``: ids of runs that were interrupted.
    """
    need = HomeNeed(left=frozenset(left))
    for point in points:
        if not uses_home(point, header, target):
            continue
        estimate = FAMILIES[point.kind].estimate(point, header, target)
        data = {estimate.data_set: estimate.data_bytes} if estimate.data_bytes else {}
        own = estimate.bytes_written if estimate.space_bytes is None else estimate.space_bytes
        need.add(HomeNeed(data, own or 0))
    return need


def allocated_bytes(place: Path) -> int:
    """What the files below a directory take on the device; 0 where there is none."""
    total = 0
    for directory, _, names in os.walk(place):
        for name in names:
            with suppress(OSError):
                total += (Path(directory) / name).lstat().st_blocks * 512
    return total
