"""Guard of a campaign: checks and locks all targets before any data are written.

The rules and their reasons are in ``docs/safety.md``.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Mapping
from contextlib import ExitStack, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

from storlab.base.errors import GuardError, PreflightError
from storlab.base.files import directory_problem
from storlab.contracts.family import Access
from storlab.contracts.registry import FAMILIES
from storlab.lab.guard.device import DeviceHold, hold_device
from storlab.lab.plan.home_space import uses_home
from storlab.lab.plan.read_files import check_files_read, files_now, files_read
from storlab.model.job import Member
from storlab.model.point import Plan, Point
from storlab.model.study import StudyBase, Target
from storlab.stores.data_file import check_data_file
from storlab.stores.home import DataDirectoryLock
from storlab.stores.s3.target import S3Hold
from storlab.stores.sidecar import DataFileHold, check_not_in_use, hold_to_read, made_by_storlab

_BY_TIME = "; it depends on size and modification time of the files that the study reads"
NULL_SIZE = 1 << 40  # assumed size of a ``null:`` target without a size


class Guard:
    """Checks and locks of all targets of a campaign, as a context manager.

    - Block devices stay open during the ``with`` block, exclusively if the study writes to them.
      Engines use the open file descriptor, so it does not matter if a path later names another
      device.
    - Data files are locked by their sidecar file. A user's file that is only read is locked itself.
    - In a bucket, storlab uses only its own prefix, marked with the campaign's id; in a directory,
      the subdirectory ``storlab-data``.

    Entering raises GuardError if any target is refused, before anything is written. Sidecars,
    subdirectories and prefixes are created last, and removed again on failure. With ``look_only``
    they are not created.
    """

    def __init__(
        self,
        study: StudyBase,
        plan: Plan,
        *,
        plan_hash: str | None = None,
        base: Path | None = None,
        recorded: Mapping[str, Any] | None = None,
        look_only: bool = False,
    ) -> None:
        self.study = study
        self.plan = plan
        self.consent = plan_hash
        self.base = base or Path.cwd()
        self.recorded = recorded
        self.look_only = look_only
        self.campaign = str((recorded or {}).get("campaign") or os.urandom(6).hex())
        self.access: dict[str, Access] = {}  # by target
        self.holds: list[DeviceHold] = []
        self.stores: dict[str, S3Hold] = {}  # by target
        # Locks by target. Targets in the same directory share one lock.
        self.homes: dict[str, DataDirectoryLock] = {}
        # Locks by path, only of files that storlab has created or will create.
        self.files: dict[str, DataFileHold] = {}
        self._stack = ExitStack()

    def __enter__(self) -> Guard:
        used = {point.target for point in self.plan.points.values()}
        targets = [target for target in self.study.target if target.name in used]
        with ExitStack() as stack:
            self._check_plan_hash()
            for target in targets:
                if target.s3 is None:
                    self.access[target.name] = Access(self._members(target, stack))
            self._check_overlaps()
            self._check_shared_files()
            # Skip this check for results of old versions of storlab, whose plans list no files.
            if self.plan.files or self.recorded is None:
                now = files_read(self.study, self.plan.points.values(), self.base)
                check_files_read(self.plan.files, now)
            if self.recorded is not None:
                self._check_same_devices(self.recorded)
            self._hold_files(stack)
            for target in targets:
                if self._needs_home(target):
                    self._hold_home(target, stack)
            for target in targets:
                if target.s3 is not None:
                    self._hold_store(target, stack)
            self._stack = stack.pop_all()
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    @property
    def members(self) -> dict[str, list[Member]]:
        """Files and devices by target; S3 targets are left out."""
        return {name: access.members for name, access in self.access.items()}

    def check_files(self) -> None:
        """Check that files are still the same as when the guard accepted them.

        Call this before each run: another program may have changed a file that the study only
        reads, or replaced a data file. Runs with different data are not repeats, and a user's file
        must not be overwritten. Missing or unreadable files are ignored here, because the run
        itself fails on them.

        Raises:
            GuardError: A file was changed or replaced.
        """
        with suppress(OSError):
            check_files_read(self.plan.files, files_now(self.plan.files))
        for hold in self.files.values():
            with suppress(OSError):
                hold.check_own()

    def _hold_files(self, stack: ExitStack) -> None:
        """Lock data files that storlab creates, and user files that the study reads."""
        # Device and inode of files that are already locked, since two targets may name one file.
        read: set[tuple[int, int]] = set()
        writers = {t.name for t in self.study.target if t.name in self.access and self.writes_to(t)}
        files = [(n, m) for n, members in self.members.items() for m in members if m.kind == "file"]
        for name, member in files:
            path = Path(member.path)
            if path.exists() and not made_by_storlab(path):
                status = path.stat()
                if (status.st_dev, status.st_ino) not in read:
                    read.add((status.st_dev, status.st_ino))
                    stack.enter_context(hold_to_read(path))
                continue
            if self.look_only:
                check_not_in_use(path)
                continue
            if member.path not in self.files:
                hold = stack.enter_context(DataFileHold(path, self.campaign))
                self.files[member.path] = hold
            seed, writes = self.study.study.seed, name in writers
            self.files[member.path].begin(member.size, seed, writes=writes)

    def _hold_store(self, target: Target, stack: ExitStack) -> None:
        before = (self.recorded or {}).get("s3", {}).get(target.name)
        hold = S3Hold(target, self.campaign, self.base, before, look_only=self.look_only)
        self.stores[target.name] = stack.enter_context(hold)
        self.access[target.name] = Access(s3=hold.access)

    def _needs_home(self, target: Target) -> bool:
        header = self.study.study
        return any(uses_home(point, header, target) for point in self._points(target))

    def _hold_home(self, target: Target, stack: ExitStack) -> None:
        directory = self.base / (target.directory or "")
        hold = DataDirectoryLock(directory, self.campaign, look_only=self.look_only)
        held = {other.path: other for other in self.homes.values()}
        if hold.path in held:
            hold = held[hold.path]
        else:
            stack.enter_context(hold)
        self.homes[target.name] = hold
        self.access[target.name] = replace(self.access[target.name], home=hold.path)

    def _points(self, target: Target) -> list[Point]:
        return [point for point in self.plan.points.values() if point.target == target.name]

    def record(self) -> dict[str, Any]:
        """Return the content of ``guard.json`` in the results: consent given, and devices used."""
        return {
            "schema_version": 1,
            "plan_hash_given": self.consent,
            "working_directory": str(self.base),
            "devices": {hold.name: hold.identity() for hold in self.holds},
            "campaign": self.campaign,
            "s3": {name: hold.record() for name, hold in self.stores.items()},
        }

    def writes_to(self, target: Target) -> bool:
        """Return whether any point or preparation step writes to the target."""
        return target.precondition is not None or any(
            FAMILIES[point.kind].estimate(point, self.study.study, target).writes
            for point in self._points(target)
        )

    def _check_plan_hash(self) -> None:
        if self.consent is not None and self.consent != self.plan.plan_hash:
            raise GuardError(
                "--plan-hash",
                f"is {self.consent}, but the plan of this study now has {self.plan.plan_hash}",
                "review `storlab plan` again, and use the hash that it prints"
                + (_BY_TIME if self.plan.files else ""),
            )

    def _members(self, target: Target, stack: ExitStack) -> list[Member]:
        if target.is_null:
            size = target.size or NULL_SIZE
            return [Member(path="null:", name="null:", kind="null", size=size)]
        writes = self.writes_to(target)
        if target.directory is not None:
            return self._directory_members(target, writes)
        return [self._member(target, location, writes, stack) for location in target.locations]

    def _member(self, target: Target, location: str, writes: bool, stack: ExitStack) -> Member:
        path = self.base / location
        try:
            mode = path.stat().st_mode
        except OSError:
            mode = stat.S_IFREG  # missing: a file to create, if the rules for data files allow it
        if stat.S_ISBLK(mode):
            held = {hold.device.rdev: hold.fd for hold in self.holds if hold.exclusive}
            hold = hold_device(
                target, location, path, writes=writes, consent=self.consent, held=held
            )
            stack.callback(hold.close)
            if writes:
                self._check_planned(target, hold)
            self.holds.append(hold)
            return hold.member(target)
        if not stat.S_ISREG(mode):
            kind = "a directory" if stat.S_ISDIR(mode) else "neither a file nor a block device"
            raise GuardError(
                location, f"is {kind}", 'for a directory, set `directory = "..."` and a size'
            )
        return check_data_file(location, path, target.size, writes=writes)

    def _check_planned(self, target: Target, hold: DeviceHold) -> None:
        """Raise GuardError if a device differs from that in the plan, which the user accepted."""
        del target
        planned = self.plan.devices.get(hold.name, {})
        # Skip this check for results of old versions of storlab, whose plans list no devices.
        if planned or self.recorded is None:
            hold.check_planned(planned, resumed=self.recorded is not None)

    def _directory_members(self, target: Target, writes: bool) -> list[Member]:
        directory = self.base / (target.directory or "")
        if problem := directory_problem(directory):
            fix = "create it, or correct the path"
            raise PreflightError(str(target.directory), problem, fix)
        names = [f"storlab.{number}.dat" for number in range(self._files(target))]
        return [
            check_data_file(str(directory / name), directory / name, target.size, writes=writes)
            for name in names
        ]

    def _files(self, target: Target) -> int:
        """Return how many data files a target needs: the most that any of its points uses."""
        return max(
            FAMILIES[point.kind].estimate(point, self.study.study, target).layout_files
            for point in self._points(target)
        )

    def _check_overlaps(self) -> None:
        for target in self.study.target:
            rdevs = [hold.device.whole.rdev for hold in self.holds if hold.target == target.name]
            members = self.members.get(target.name, [])
            paths = [member.path for member in members if member.kind == "file"]
            if len(set(rdevs)) < len(rdevs) or len(set(paths)) < len(paths):
                raise GuardError(
                    f"target {target.name}",
                    "names the same device or file twice",
                    "name each device or file once, devices by their /dev/disk/by-id path",
                )

    def _check_shared_files(self) -> None:
        sizes: dict[str, int] = {}
        for member in (m for members in self.members.values() for m in members if m.kind == "file"):
            if sizes.setdefault(member.path, member.size) != member.size:
                raise PreflightError(
                    member.name,
                    f"is used with {sizes[member.path]} bytes by one target and with {member.size} "
                    "by another",
                    "set the same size for both targets, or use different files",
                )

    def _check_same_devices(self, recorded: Mapping[str, Any]) -> None:
        before = recorded.get("devices", {})
        for hold in self.holds:
            if hold.name in before and before[hold.name] != hold.identity():
                raise GuardError(
                    hold.name,
                    "is not the same device as when this campaign began",
                    "reconnect the original device, or begin a new campaign with `storlab run`",
                )
