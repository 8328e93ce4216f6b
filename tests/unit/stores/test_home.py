"""Homes: ownership, removal, and free space."""

from __future__ import annotations

import errno
import json
from collections.abc import Sequence
from pathlib import Path
from unittest.mock import Mock

import pytest

from conftest import need_root
from storlab.base.errors import GuardError, PreflightError
from storlab.lab.plan.home_space import HomeNeed
from storlab.lab.prepare import dataset
from storlab.lab.prepare.dataset import check_space
from storlab.process.execution import Interrupted, StopRequest
from storlab.stores import home as home_module
from storlab.stores.filesystems import free_bytes
from storlab.stores.home import (
    HOME,
    LOCK,
    MARKER,
    DataDirectoryLock,
    allocated_bytes,
    check_home,
)


def make(hold: DataDirectoryLock, *names: str) -> None:
    for name in names:
        (hold.path / name).mkdir()
        (hold.path / name / "file").write_bytes(b"x" * 10_000)


def there(directory: Path) -> list[str]:
    home = directory / HOME
    return sorted(p.name for p in home.iterdir() if p.name not in (MARKER, LOCK))


def test_a_home_is_made_marked_and_removed_when_nothing_came_into_it(tmp_path: Path) -> None:
    with DataDirectoryLock(tmp_path, "one") as hold:
        assert hold.path == tmp_path.resolve() / HOME
        document = json.loads((hold.path / MARKER).read_text())
        assert (document["schema_version"], document["made_by"]) == (1, "storlab")
    assert list(tmp_path.iterdir()) == []


def test_what_an_interrupted_run_has_left_is_room_for_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(dataset, "free_bytes", lambda _: 1 << 20)
    home = tmp_path / HOME
    for name in ("checkpoints-p1-r1", "p1-r2", "p1-r10"):
        (home / name).mkdir(parents=True)
        (home / name / "file").write_bytes(bytes(4 << 20))
    for run_id in ("p1-r1", "p1-r2"):
        check_space([], {home: [HomeNeed({}, 5 << 20, left=frozenset([run_id]))]})
        with pytest.raises(PreflightError):
            check_space([], {home: [HomeNeed({}, 6 << 20, left=frozenset([run_id]))]})
    with pytest.raises(PreflightError):
        check_space([], {home: [HomeNeed({}, 5 << 20, left=frozenset(["p1-r3"]))]})


def test_a_full_disk_is_cleaned_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Check that removing data works without free space."""
    full = OSError(errno.ENOSPC, "No space left on device")
    with DataDirectoryLock(tmp_path, "one") as hold:
        make(hold, "data")
        monkeypatch.setattr(home_module, "replace_file", Mock(side_effect=full))
    with DataDirectoryLock(tmp_path, "one") as hold:  # as `storlab clean` does
        assert hold.clean(StopRequest()) == [str(hold.path / "data")]
    assert list(tmp_path.iterdir()) == []


def test_looking_makes_nothing_and_refuses_the_same(tmp_path: Path) -> None:
    with DataDirectoryLock(tmp_path, "one", look_only=True) as hold:
        assert hold.path == tmp_path.resolve() / HOME
    assert list(tmp_path.iterdir()) == []
    (tmp_path / HOME).mkdir()
    (tmp_path / HOME / "thesis.tex").write_text("precious")
    with pytest.raises(GuardError, match="storlab did not create it"):
        DataDirectoryLock(tmp_path, "one", look_only=True).__enter__()


def foreign(home: Path) -> None:
    home.mkdir()
    (home / "thesis.tex").write_text("precious")


def false_marker(home: Path) -> None:
    foreign(home)
    (home / MARKER).write_text('{"made_by": "somebody", "schema_version": 1}')


def linked_marker(home: Path) -> None:
    foreign(home)
    real = home.parent / "real"
    real.write_text('{"made_by": "storlab", "schema_version": 1}')
    (home / MARKER).symlink_to(real)


def linked(home: Path) -> None:
    elsewhere = home.parent / "elsewhere"
    elsewhere.mkdir()
    home.symlink_to(elsewhere)


def plain_file(home: Path) -> None:
    home.write_text("precious")


@pytest.mark.parametrize("made", [foreign, false_marker, linked_marker, linked, plain_file])
def test_what_storlab_did_not_make_is_refused_and_stays(made, tmp_path: Path) -> None:  # type: ignore[no-untyped-def]
    made(tmp_path / HOME)
    before = sorted(str(p) for p in tmp_path.rglob("*"))
    with pytest.raises(GuardError):
        DataDirectoryLock(tmp_path, "one").__enter__()
    assert sorted(str(p) for p in tmp_path.rglob("*")) == before


def test_an_empty_directory_of_that_name_is_taken(tmp_path: Path) -> None:
    (tmp_path / HOME).mkdir()
    with DataDirectoryLock(tmp_path, "one") as hold:
        make(hold, "data")
        assert hold.clean(StopRequest()) == [str(hold.path / "data")]
    assert list(tmp_path.iterdir()) == []


def test_a_home_is_not_made_where_only_the_kernel_makes_files() -> None:
    with pytest.raises(GuardError, match="kernel file system"):
        DataDirectoryLock(Path("/proc"), "one").__enter__()


def test_one_campaign_at_a_time(tmp_path: Path) -> None:
    with DataDirectoryLock(tmp_path, "one"), pytest.raises(GuardError, match="another campaign"):
        DataDirectoryLock(tmp_path, "two").__enter__()
    with DataDirectoryLock(tmp_path, "two"):
        pass


def test_cleaning_up_takes_what_is_ones_own_and_leaves_what_others_keep(tmp_path: Path) -> None:
    with DataDirectoryLock(tmp_path, "one") as hold:
        make(hold, "kept")  # by a target with keep_data
    with DataDirectoryLock(tmp_path, "two") as hold:
        make(hold, "own")
        assert hold.clean(StopRequest()) == [str(hold.path / "own")]
    assert there(tmp_path) == ["kept"]
    with DataDirectoryLock(tmp_path, "three") as hold:
        assert hold.clean(StopRequest()) == []
    with DataDirectoryLock(tmp_path, "one") as hold:  # storlab clean
        assert hold.clean(StopRequest()) == [str(hold.path / "kept")]
    assert list(tmp_path.iterdir()) == []


def test_what_a_killed_campaign_left_is_still_its_own(tmp_path: Path) -> None:
    killed = DataDirectoryLock(tmp_path, "killed")
    killed.__enter__()
    make(killed, "left")
    killed._stack.pop_all()  # no clean-up; the lock ends with the process
    (killed.path / LOCK).unlink()
    with DataDirectoryLock(tmp_path, "two") as hold:
        make(hold, "own")
        assert hold.clean(StopRequest()) == [str(hold.path / "own")]
    with DataDirectoryLock(tmp_path, "killed") as hold:
        assert hold.clean(StopRequest()) == [str(hold.path / "left")]


def test_links_in_a_home_are_removed_and_not_followed(tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "thesis.tex").write_text("precious")
    directory = tmp_path / "target"
    directory.mkdir()
    with DataDirectoryLock(directory, "one") as hold:
        make(hold, "data")
        (hold.path / "link").symlink_to(outside)
        (hold.path / "data" / "deeper").symlink_to(outside)
        assert len(hold.clean(StopRequest())) == 2
    assert (outside / "thesis.tex").read_text() == "precious"
    assert list(directory.iterdir()) == []


def test_a_stop_request_ends_cleaning_up_and_it_can_be_repeated(tmp_path: Path) -> None:
    with DataDirectoryLock(tmp_path, "one") as hold:
        make(hold, "a", "b")
        stop = StopRequest()
        stop.ask()
        with pytest.raises(Interrupted):
            hold.clean(stop)
        assert there(tmp_path) == ["a", "b"]
        assert len(hold.clean(StopRequest())) == 2


@pytest.mark.root
def test_something_mounted_in_it_is_never_touched(tmp_path: Path) -> None:
    import subprocess

    need_root("mount", "umount")
    with DataDirectoryLock(tmp_path, "one") as hold:
        make(hold, "data")
        place = hold.path / "data"
        subprocess.run(["mount", "-t", "tmpfs", "none", str(place)], check=True)
        try:
            (place / "precious").write_text("x")
            with pytest.raises(GuardError, match="contains a mount point"):
                hold.clean(StopRequest())
            assert (place / "precious").exists()
            with pytest.raises(GuardError, match="contains a mount point"):
                check_home(hold.path)
        finally:
            subprocess.run(["umount", str(place)], check=True)
        hold.clean(StopRequest())


def needs(**sets: int) -> Sequence[HomeNeed]:
    return [HomeNeed(dict(sets))]


def test_room_is_needed_for_data_sets_and_for_the_files_of_one_run(tmp_path: Path) -> None:
    home = tmp_path / HOME
    free = free_bytes(tmp_path)
    check_space([], {home: [HomeNeed({"a": free // 4}, free // 4)]})
    with pytest.raises(PreflightError) as caught:
        check_space([], {home: [HomeNeed({"a": free}, free)]})
    assert "the data sets need" in caught.value.what
    assert "the files of a run another" in caught.value.what
    assert not home.exists()
    with pytest.raises(PreflightError, match="the files of a run need"):
        check_space([], {home: [HomeNeed({}, 2 * free)]})


def test_two_targets_in_one_home_share_a_data_set_and_run_one_after_the_other(
    tmp_path: Path,
) -> None:
    most = free_bytes(tmp_path) * 2 // 3
    check_space([], {tmp_path / HOME: [HomeNeed({"a": most}), HomeNeed({"a": most})]})
    check_space([], {tmp_path / HOME: [HomeNeed({}, most), HomeNeed({}, most)]})
    with pytest.raises(PreflightError):
        check_space([], {tmp_path / HOME: [HomeNeed({"a": most}), HomeNeed({"b": most})]})


def test_what_is_there_of_a_data_set_needs_no_more_room(tmp_path: Path) -> None:
    with DataDirectoryLock(tmp_path, "one") as hold:
        make(hold, "a", "other")
        size = allocated_bytes(hold.path / "a")
        assert size >= 10_000
        need = HomeNeed({"a": 100_000, "b": 5_000})
        assert need.missing_bytes(hold.path) == 105_000 - size
        assert HomeNeed({"a": 10}).missing_bytes(hold.path) == 0
        hold.clean(StopRequest())
