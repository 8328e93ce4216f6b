"""Study and guard as seen by one client: it uses its own paths, seed and folders."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from storlab.base.errors import GuardError, PreflightError
from storlab.base.files import directory_problem
from storlab.base.seeds import derive_seed
from storlab.cluster.task import ClientPlace
from storlab.contracts.family import Access
from storlab.contracts.services import dividing_family
from storlab.lab.guard.device import DeviceHold
from storlab.lab.guard.guard import Guard
from storlab.lab.plan.clients import target_on
from storlab.lab.plan.home_space import uses_home
from storlab.model.job import Member
from storlab.model.point import Plan, Point
from storlab.model.s3 import S3Access
from storlab.model.study import StudyBase, Target
from storlab.stores.data_file import check_data_file
from storlab.stores.filesystems import mounted_below
from storlab.stores.home import DataDirectoryLock, await_home


def shared_study(study: StudyBase, place: ClientPlace, base: Path) -> StudyBase:
    """Return the study with this client's paths of directories, files and devices."""
    mount = None if study.cluster is None else study.cluster.mount
    own = [target_on(target, place) for target in study.target]
    study = study.model_copy(update={"target": own})
    return _moved(study, lambda directory: place.path_of(str(base / directory), mount))


def client_study(study: StudyBase, place: ClientPlace) -> StudyBase:
    """Return a study with this client's seed and its own folder below each directory."""
    header = study.study.model_copy(
        update={"seed": derive_seed(study.study.seed, "client", place.name)}
    )
    own = _moved(study, lambda directory: Path(directory) / place.name)
    return own.model_copy(update={"study": header})


def keeping_nothing(study: StudyBase) -> StudyBase:
    """Return the study without ``keep_data``, so that ``storlab clean`` removes all data."""
    targets = [target.model_copy(update={"keep_data": False}) for target in study.target]
    return study.model_copy(update={"target": targets})


def _moved(study: StudyBase, place_of: Callable[[str], Path]) -> StudyBase:
    targets = [
        target
        if target.directory is None
        else target.model_copy(update={"directory": str(place_of(target.directory))})
        for target in study.target
    ]
    return study.model_copy(update={"target": targets})


def _is_own(point: Point) -> bool:
    """Return whether each client has its own data for a point, instead of shared data."""
    offer = dividing_family(point.kind)
    return offer is None or not offer.shares_data


def plan_of_targets(plan: Plan, names: set[str]) -> Plan:
    """Return the plan with only the points on the named targets."""
    points = {key: point for key, point in plan.points.items() if point.target in names}
    return plan.model_copy(update={"points": points})


@dataclass(frozen=True, slots=True)
class CommonPlaces:
    """The study, and access to S3, for work on data that all clients share.

    ``meanwhile`` is called while a client waits for the first client to create shared data; None if
    this task does not wait.
    """

    study: StudyBase
    granted: Mapping[str, S3Access]
    meanwhile: Callable[[], None] | None


class ClientGuard(Guard):
    """Guard on a client: creates the client's own folders, and uses S3 stores granted to it.

    For data that all clients share, the first client locks the ``storlab-data`` directory, and the
    others wait for that.

    Args:
        study: Study as this client sees it.
        plan: Plan of the targets of this task.
        campaign: Id of the campaign.
        consented: Whether the user consented to overwriting devices.
        granted: Access to S3 stores by target.
        place: This client.
        common: Study and access for shared data.
        peers: Clients that have created their folders, which must be visible here.
        resumed: Whether the client may have restarted since the plan was made, which changes disk
            sequence numbers.
    """

    def __init__(
        self,
        study: StudyBase,
        plan: Plan,
        *,
        campaign: str,
        consented: bool,
        granted: Mapping[str, S3Access],
        place: ClientPlace,
        common: CommonPlaces,
        peers: Sequence[str] = (),
        resumed: bool = True,
    ) -> None:
        recorded: dict[str, Any] = {"campaign": campaign}
        consent = plan.plan_hash if consented else None
        super().__init__(study, plan, plan_hash=consent, base=Path("/"), recorded=recorded)
        self._granted = granted
        self._place = place
        self._common = common
        self._peers = peers
        self._resumed = resumed
        self._folders: list[Path] = []
        self._removes = False
        self.shared: dict[str, Access] = {}  # by target; also visible to other clients
        self.shared_homes: dict[str, DataDirectoryLock] = {}  # by target, only on the first client

    def __enter__(self) -> ClientGuard:
        targets = self._common.study.target
        check_mounted(
            self._place.mount,
            [Path(t.directory) for t in targets if t.directory is not None and self._points(t)],
        )
        super().__enter__()
        try:
            self._enter_shared()
        except BaseException:
            self._stack.close()
            raise
        return self

    def _enter_shared(self) -> None:
        common = self._common
        for target in common.study.target:
            if all(_is_own(point) for point in self._points(target)):
                continue
            if target.s3 is not None:
                self.shared[target.name] = Access(s3=common.granted[target.name])
                continue
            directory = Path(target.directory or "")
            if self._place.rank == 1:
                hold = self._stack.enter_context(DataDirectoryLock(directory, self.campaign))
                self.shared_homes[target.name] = hold
                home = hold.path
            elif common.meanwhile is None:
                continue
            else:
                home = await_home(directory, self.campaign, common.meanwhile)
            self.shared[target.name] = Access(home=home)

    def _needs_home(self, target: Target) -> bool:
        header = self.study.study
        own = filter(_is_own, self._points(target))
        return any(uses_home(point, header, target) for point in own)

    def _hold_store(self, target: Target, stack: ExitStack) -> None:
        del stack
        self.access[target.name] = Access(s3=self._granted[target.name])

    def _directory_members(self, target: Target, writes: bool) -> list[Member]:
        """Create a folder per job in this client's folder, and return the data files."""
        own = Path(target.directory or "")
        if problem := directory_problem(own.parent):
            fix = "create it, or correct the path"
            raise PreflightError(str(own.parent), f"{problem} on this client", fix)
        if self._files(target) or self._needs_home(target):
            check_shared(own.parent, self._peers)
        members = []
        for number in range(self._files(target)):
            folder = own / f"job-{number}"
            folder.mkdir(parents=True, exist_ok=True)
            self._folders.append(folder)
            path = folder / "storlab.dat"
            members.append(check_data_file(str(path), path, target.size, writes=writes))
        if self._needs_home(target):
            own.mkdir(exist_ok=True)
        if members or self._needs_home(target):
            self._folders.append(own)
        return members

    def _check_planned(self, target: Target, hold: DeviceHold) -> None:
        """Raise GuardError if a device differs from the one in the plan for this client.

        A serial number in the study is consent to overwrite the device that has it.
        """
        own = self.plan.client_devices.get(self._place.name, self.plan.devices)
        planned = own.get(hold.name, {})
        if target.serial is not None and not planned:
            return
        try:
            hold.check_planned(planned, resumed=self._resumed)
        except GuardError as error:
            raise GuardError(
                hold.name,
                f"is not this client's device in the plan that the user accepted ({error.what})",
                "reconnect the planned device, or review `storlab plan` again, which asks all "
                "clients for their devices",
            ) from error

    def remove_folders(self) -> None:
        """Make the guard remove this client's folders on exit, if they are empty then."""
        self._removes = True

    def __exit__(self, *details: object) -> None:
        super().__exit__(*details)
        for folder in self._folders if self._removes else ():
            with suppress(OSError):
                folder.rmdir()


def check_shared(directory: Path, peers: Sequence[str]) -> None:
    """Check that a directory is the one that all clients share: it has the folders of others.

    Raises GuardError if one is missing, since the directory is then on another file system.
    """
    unseen = [name for name in peers if not (directory / name).is_dir()]
    if unseen:
        raise GuardError(
            str(directory),
            f"has no folders of {', '.join(unseen[:5])}, so it is not the directory that the "
            "clients share",
            "mount the same file system on all clients",
        )


def check_mounted(mount: str | None, directories: Iterable[Path]) -> None:
    """Check that directories are on a file system that is mounted at ``mount`` or below.

    Raises:
        GuardError: A directory is not, so its load would go to the local disk.
    """
    for directory in directories if mount is not None else ():
        if mounted_below(directory, Path(mount or "")) is None:
            raise GuardError(
                mount or "",
                f"nothing is mounted there, nor between it and {directory}, so all I/O would go to "
                "this client's own disk",
                f"mount the shared file system at {mount}, or correct [cluster] mount",
            )
