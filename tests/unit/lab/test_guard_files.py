"""Ownership of data files, and places where none may be created. No root needed."""

from __future__ import annotations

import json
import os
from contextlib import ExitStack
from pathlib import Path

import pytest

from storlab.base.errors import GuardError, PreflightError
from storlab.lab.guard.guard import Guard
from storlab.lab.plan.plan import make_plan
from storlab.lab.prepare.dataset import check_space, clean_up, to_lay_out
from storlab.lab.study.file import load_study
from storlab.model.job import Member
from storlab.stores.data_file import check_data_file, is_kernel_place
from storlab.stores.sidecar import DataFileHold, Sidecar, is_complete, made_by_storlab, sidecar_path
from support.sidecars import put_sidecar

SIZE = 8192


def lay_out(path: Path, state: str = "complete") -> None:
    path.write_bytes(b"x" * SIZE)
    inode = path.stat().st_ino
    put_sidecar(path, Sidecar(SIZE, 1, "0", state, inode))  # type: ignore[arg-type]


def cleaned(paths: list[Path], campaign: str = "c") -> list[str]:
    """Return what cleaning up a campaign with these files removes."""
    with ExitStack() as stack:
        holds = {str(p): stack.enter_context(DataFileHold(p, campaign)) for p in paths}
        return clean_up([member(path) for path in paths], holds)


def member(path: Path, size: int = SIZE) -> Member:
    return Member(path=str(path), name=str(path), kind="file", size=size)


def check(path: Path, size: int | None = SIZE, writes: bool = True) -> Member:
    return check_data_file(str(path), path, size, writes=writes)


def test_another_plan_than_the_reviewed_one_is_refused(tmp_path: Path) -> None:
    study = tmp_path / "study.toml"
    study.write_text(
        '[study]\nname = "s"\n[[target]]\nname = "n"\npath = "null:"\n'
        '[[workload]]\nkind = "block"\n'
    )
    loaded = load_study(study)
    plan = make_plan(loaded)
    with Guard(loaded.study, plan, plan_hash=plan.plan_hash, base=tmp_path):
        pass
    with pytest.raises(GuardError), Guard(loaded.study, plan, plan_hash="0" * 12, base=tmp_path):
        pass


def test_a_new_file_passes_without_being_made(tmp_path: Path) -> None:
    assert check(tmp_path / "new") == member(tmp_path / "new")
    assert list(tmp_path.iterdir()) == []


def test_a_file_of_ours_passes_and_counts_as_complete(tmp_path: Path) -> None:
    data = tmp_path / "data"
    lay_out(data)
    assert check(data).size == SIZE
    assert is_complete(data, SIZE)
    assert not is_complete(data, SIZE + 4096)
    assert to_lay_out([member(data)]) == []


def test_an_unfinished_file_of_ours_is_laid_out_again(tmp_path: Path) -> None:
    data = tmp_path / "data"
    lay_out(data, "started")
    assert check(data).size == SIZE
    assert to_lay_out([member(data)]) == [member(data)]


def test_a_crash_before_the_inode_was_known_leaves_an_empty_file_of_ours(tmp_path: Path) -> None:
    data = tmp_path / "data"
    put_sidecar(data, Sidecar(SIZE, 1, "0", "started"))
    data.touch()
    assert made_by_storlab(data)
    data.write_text("somebody wrote here")
    assert not made_by_storlab(data)


@pytest.mark.parametrize("writes", [True, False])
def test_a_foreign_file_is_refused_for_writing_and_for_growing(
    tmp_path: Path, writes: bool
) -> None:
    data = tmp_path / "data"
    data.write_bytes(b"precious" * 512)
    with pytest.raises(GuardError, match="storlab did not create it"):
        check(data, SIZE, writes=writes)
    assert data.read_bytes() == b"precious" * 512
    assert cleaned([data]) == []
    assert data.exists()


def test_a_foreign_file_may_be_read_as_far_as_it_goes(tmp_path: Path) -> None:
    data = tmp_path / "data"
    data.write_bytes(b"x" * 2 * SIZE)
    assert check(data, None, writes=False).size == 2 * SIZE
    assert check(data, SIZE, writes=False).size == SIZE
    assert to_lay_out([member(data)]) == []


def test_a_link_leads_to_the_file_it_names(tmp_path: Path) -> None:
    (tmp_path / "precious").write_bytes(b"p" * SIZE)
    (tmp_path / "link").symlink_to(tmp_path / "precious")
    with pytest.raises(GuardError, match="storlab did not create it"):
        check(tmp_path / "link")


def test_a_foreign_sidecar_is_not_overwritten(tmp_path: Path) -> None:
    for content in ("not json", "{}", json.dumps({"what": "mine", "size": 1})):
        sidecar_path(tmp_path / "data").write_text(content)
        with pytest.raises(GuardError, match="sidecar"):
            check(tmp_path / "data")
        assert sidecar_path(tmp_path / "data").read_text() == content


@pytest.mark.parametrize(
    "name", ["/dev/storlab-typo", "/dev/disk/by-id/storlab-typo", "/proc/storlab", "/sys/storlab"]
)
def test_nothing_is_made_where_the_kernel_lives(name: str) -> None:
    with pytest.raises(GuardError, match="never creates or writes files in"):
        check(Path(name))


def test_a_link_into_dev_is_seen_through(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to("/dev/storlab-typo")
    with pytest.raises(GuardError, match="never creates or writes files in"):
        check(tmp_path / "link")
    (tmp_path / "directory").symlink_to("/dev")
    with pytest.raises(GuardError, match="never creates or writes files in"):
        check(tmp_path / "directory" / "typo")


def test_shared_memory_is_a_place_for_files() -> None:
    name = f"/dev/shm/storlab-test-{os.getpid()}"
    assert check(Path(name)).path == name
    assert not Path(name).exists()


def test_what_cannot_work_is_said_before(tmp_path: Path) -> None:
    with pytest.raises(PreflightError, match="has no size"):
        check(tmp_path / "new", None)
    with pytest.raises(PreflightError, match="does not exist"):
        check(tmp_path / "no" / "such" / "file")
    with pytest.raises(PreflightError, match="are free"):
        check_space([member(tmp_path / "huge", 1 << 60)])


def test_only_files_of_ours_are_removed(tmp_path: Path) -> None:
    own, foreign, replaced = (tmp_path / name for name in ("own", "foreign", "replaced"))
    lay_out(own)
    foreign.write_text("precious")
    lay_out(replaced)
    (tmp_path / "new").write_text("precious")
    (tmp_path / "new").rename(replaced)
    assert cleaned([own, foreign, replaced]) == [str(own)]
    assert not own.exists()
    assert not sidecar_path(own).exists()
    assert foreign.read_text() == replaced.read_text() == "precious"


def test_without_attributes_a_file_of_another_size_is_somebodys(tmp_path: Path) -> None:
    """Check that a file with a reused inode and another size is not storlab's."""
    data = tmp_path / "data"
    lay_out(data)
    data.write_bytes(b"years of work")
    assert not made_by_storlab(data)
    assert cleaned([data]) == []
    put_sidecar(data, Sidecar(SIZE, 1, "0", "started", data.stat().st_ino))
    assert made_by_storlab(data)


def test_a_lonely_sidecar_goes_with_its_file(tmp_path: Path) -> None:
    data = tmp_path / "data"
    lay_out(data)
    data.unlink()
    assert cleaned([data]) == []
    assert list(tmp_path.iterdir()) == []


def test_memory_for_files_is_no_place_of_the_kernels() -> None:
    assert not any(is_kernel_place(Path(p)) for p in ("/dev/shm", "/dev/shm/new"))
    assert all(is_kernel_place(Path(p)) for p in ("/dev/shmm", "/dev/new", "/proc/x", "/sys/x"))
