"""A study as one client sees it, and its guard."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, cast

import pytest

from storlab.base.errors import GuardError, PreflightError, StudyError
from storlab.cluster.places import places
from storlab.cluster.task import ClientPlace
from storlab.lab.plan.plan import make_plan
from storlab.lab.site.client_view import (
    ClientGuard,
    CommonPlaces,
    check_mounted,
    client_study,
    plan_of_targets,
    shared_study,
)
from storlab.lab.study.file import LoadedStudy, load_study
from storlab.model.study import StudyBase
from storlab.stores.sidecar import sidecar_path

STUDY = """
[study]
name = "view"
[cluster]
hosts = ["c1", "c2"]
mount = "{mount}"
[[target]]
name = "shared"
directory = "{mount}/below/here"
size = "1MiB"
[[target]]
name = "own"
path = "{mount}.dat"
size = "1MiB"
[[workload]]
kind = "block"
jobs = [1, 3]
"""


def loaded(tmp_path: Path) -> LoadedStudy:
    path = tmp_path / "study.toml"
    path.write_text(STUDY.format(mount=tmp_path / "mnt"))
    return load_study(path)


def place(name: str = "c1", mount: str | None = None) -> ClientPlace:
    return ClientPlace(name=name, host=name, rank=1, mount=mount)


@pytest.mark.parametrize(
    ("directory", "mount", "own", "found"),
    [
        ("/mnt/a/x/y", "/mnt/a", "/mnt/b", "/mnt/b/x/y"),
        ("/mnt/a", "/mnt/a", "/mnt/b", "/mnt/b"),
        ("/mnt/a/x", "/mnt/a", "/mnt/a", "/mnt/a/x"),
        ("/mnt/a/x", None, "/mnt/b", "/mnt/a/x"),
        ("/mnt/a/x", "/mnt/a", None, "/mnt/a/x"),
    ],
)
def test_directories_lie_below_the_mount_of_the_client(
    directory: str, mount: str | None, own: str | None, found: str
) -> None:
    assert place(mount=own).path_of(directory, mount) == Path(found)


def seen_by(study: StudyBase, client: ClientPlace, base: Path) -> StudyBase:
    return client_study(shared_study(study, client, base), client)


def test_each_client_has_its_folder_and_its_seed(tmp_path: Path) -> None:
    study = loaded(tmp_path).study
    mount = str(tmp_path / "mnt")
    first = seen_by(study, place("c1", mount), tmp_path)
    other = seen_by(study, place("c2", "/elsewhere"), tmp_path)
    assert first.target[0].directory == f"{mount}/below/here/c1"
    assert other.target[0].directory == "/elsewhere/below/here/c2"
    assert first.target[1] == other.target[1] == study.target[1]
    assert len({study.study.seed, first.study.seed, other.study.seed}) == 3
    again = seen_by(study, place("c1", mount), tmp_path)
    assert again == first
    changed = {"study", "target"}
    assert first.model_dump(exclude=changed) == study.model_dump(exclude=changed)


def test_only_the_targets_of_a_task_are_held(tmp_path: Path) -> None:
    plan = make_plan(loaded(tmp_path))
    part = plan_of_targets(plan, {"own"})
    assert {point.target for point in part.points.values()} == {"own"}


def guard(
    tmp_path: Path, campaign: str = "ours", mount: str | None = None, peers: Sequence[str] = ()
) -> ClientGuard:
    made = loaded(tmp_path)
    here = place(mount=mount)
    whole = shared_study(made.study, here, tmp_path)
    return ClientGuard(
        client_study(whole, here),
        plan_of_targets(make_plan(made), {"shared"}),
        campaign=campaign,
        consented=False,
        granted={},
        place=here,
        common=CommonPlaces(whole, {}, None),
        peers=peers,
    )


def test_folders_are_made_for_each_job_and_removed_when_empty(tmp_path: Path) -> None:
    shared = tmp_path / "mnt" / "below" / "here"
    shared.mkdir(parents=True)
    with guard(tmp_path) as held:
        members = held.access["shared"].members
        folders = [Path(member.path).parent for member in members]
        assert folders == [shared / "c1" / f"job-{number}" for number in range(3)]
        (folders[1] / "of somebody else").touch()
        held.remove_folders()
    left = sorted(str(path.relative_to(shared)) for path in shared.rglob("*"))
    assert left == ["c1", "c1/job-1", "c1/job-1/of somebody else"]


def test_a_directory_that_is_missing_here_is_not_made(tmp_path: Path) -> None:
    """Check that a folder of a missing mount is not created on the local disk."""
    with pytest.raises(PreflightError, match="does not exist on this client"):
        guard(tmp_path).__enter__()
    assert not (tmp_path / "mnt").exists()


def test_a_mount_that_is_missing_is_refused_before_anything_is_made(tmp_path: Path) -> None:
    (tmp_path / "mnt" / "below" / "here").mkdir(parents=True)
    mount = str(tmp_path / "mnt")
    with pytest.raises(GuardError, match="nothing is mounted there"):
        guard(tmp_path, mount=mount).__enter__()
    assert list((tmp_path / "mnt" / "below" / "here").iterdir()) == []
    check_mounted(None, [tmp_path])
    check_mounted("/proc", [Path("/proc/sys/kernel")])


def test_a_directory_may_lie_on_a_mount_below_the_mount_point() -> None:
    """Check that a directory on a mount below the named mount point is accepted."""
    check_mounted("/", [Path("/proc/self")])
    with pytest.raises(GuardError, match="nor between it and /etc"):
        check_mounted("/etc", [Path("/etc")])
    with pytest.raises(GuardError, match="nothing is mounted there"):
        check_mounted("/", [Path("/etc")])  # the root mount never counts


def test_a_directory_that_others_do_not_share_is_refused_before_anything_is_made(
    tmp_path: Path,
) -> None:
    shared = tmp_path / "mnt" / "below" / "here"
    shared.mkdir(parents=True)
    with pytest.raises(GuardError, match="no folders of c1, c2"):
        guard(tmp_path, peers=["c1", "c2"]).__enter__()
    assert list(shared.iterdir()) == []
    (shared / "c1").mkdir()
    (shared / "c2").mkdir()
    with guard(tmp_path, peers=["c1", "c2"]) as held:
        assert len(held.access["shared"].members) == 3


class FakeHold:
    """An opened device."""

    name = "/dev/disk/by-path/pci-1"
    resumed = True

    def check_planned(self, planned: Mapping[str, object], *, resumed: bool) -> None:
        assert resumed == self.resumed
        if planned != {"wwid": "mine"}:
            raise GuardError(self.name, "is not the device in the plan", "put it back")


def test_a_client_does_not_write_to_a_device_that_nobody_consented_to(tmp_path: Path) -> None:
    """Check that equal device names on clients do not extend consent to other drives."""
    held, hold = guard(tmp_path), cast(Any, FakeHold())
    target = held.study.target[0]
    for planned in ({}, {hold.name: {"wwid": "that of the lab"}}):
        held.plan = held.plan.model_copy(update={"devices": planned})
        with pytest.raises(GuardError, match="that the user accepted") as caught:
            held._check_planned(target, hold)
        assert "storlab plan" in caught.value.fix
    held.plan = held.plan.model_copy(update={"devices": {hold.name: {"wwid": "mine"}}})
    held._check_planned(target, hold)
    held.plan = held.plan.model_copy(update={"devices": {}})
    held._check_planned(target.model_copy(update={"serial": "S1"}), hold)


def test_what_the_plan_has_of_another_client_is_no_consent(tmp_path: Path) -> None:
    held, hold = guard(tmp_path), cast(Any, FakeHold())
    target = held.study.target[0]
    facts: dict[str, str | int] = {"wwid": "mine"}
    of_clients = {"c1": {hold.name: {}}, "c2": {hold.name: facts}}
    held.plan = held.plan.model_copy(
        update={"client_devices": of_clients, "devices": {hold.name: facts}}
    )
    with pytest.raises(GuardError, match="that the user accepted"):
        held._check_planned(target, hold)
    held.plan = held.plan.model_copy(update={"client_devices": {"c1": {hold.name: facts}}})
    held._check_planned(target, hold)


OWN = """
[study]
name = "own"
[cluster]
hosts = ["c1", "c2"]
[cluster.host.c2.target."{name}"]
{own}
[[target]]
name = "drive"
path = "/dev/disk/by-id/first"
serial = "S1"
[[workload]]
kind = "block"
read_percent = 0
"""


def own_study(tmp_path: Path, own: str, name: str = "drive") -> LoadedStudy:
    path = tmp_path / "own.toml"
    path.write_text(OWN.format(own=own, name=name))
    return load_study(path)


def test_a_client_has_its_own_device_and_its_own_consent(tmp_path: Path) -> None:
    made = own_study(tmp_path, 'path = "/dev/disk/by-id/second"')
    first, second = places(made.study.cluster, ["c1", "c2"], 2)  # type: ignore[arg-type]
    assert shared_study(made.study, first, tmp_path).target[0] == made.study.target[0]
    (other,) = shared_study(made.study, second, tmp_path).target
    assert (other.path, other.serial) == ("/dev/disk/by-id/second", None)
    plan = make_plan(made)
    assert plan.client_devices == {
        "c1": {"/dev/disk/by-id/first": {}},
        "c2": {"/dev/disk/by-id/second": {}},
    }
    assert plan.destructive == ["/dev/disk/by-id/first", "/dev/disk/by-id/second"]
    known = plan.model_copy(
        update={"client_devices": {**plan.client_devices, "c2": {"/dev/x": {"wwid": "w"}}}}
    )
    assert known.plan_hash != plan.plan_hash


@pytest.mark.parametrize(
    ("own", "name", "what"),
    [
        ('path = "/dev/disk/by-id/x"', "drives", "is not a target of the study"),
        ('paths = ["/dev/a", "/dev/b"]', "drive", "has 2 files or devices"),
        ('serial = "S2"', "drive", "has 0 files or devices"),
        ('path = "dev/x"', "drive", "is not an absolute path"),
        ('path = "/data/x"', "drive", "one is a file and one a device"),
    ],
)
def test_what_a_client_has_fits_the_target(tmp_path: Path, own: str, name: str, what: str) -> None:
    with pytest.raises(StudyError, match=what):
        make_plan(own_study(tmp_path, own, name))


def test_files_of_others_are_refused_in_its_folder_too(tmp_path: Path) -> None:
    folder = tmp_path / "mnt" / "below" / "here" / "c1" / "job-0"
    folder.mkdir(parents=True)
    data = folder / "storlab.dat"
    data.write_bytes(b"somebody's")
    with pytest.raises(GuardError, match=r"storlab\.dat"):
        guard(tmp_path).__enter__()
    assert data.read_bytes() == b"somebody's"
    assert not sidecar_path(data).exists()
