"""Verify mode's state on disk after a kill at any moment."""

from __future__ import annotations

from pathlib import Path

import pytest

from storlab.lab.prepare.precondition import target_slug
from storlab.lab.site.verification import Verification, verifiable_runs
from storlab.model.job import Member, MemberKind, WeightedSize
from storlab.model.study import Target
from storlab.stores.devices import place_of
from storlab.workloads.block.job import BlockJob, Mix, Offsets, Verify


def job(path: Path, name: str = "data", kind: MemberKind = "file") -> BlockJob:
    return BlockJob(
        members=[Member(path=str(path), name=name, kind=kind, size=1 << 20)],
        jobs=1,
        queue_depth=1,
        mix=Mix(read=0, write=100),
        block_sizes=[WeightedSize(bytes=4096)],
        offsets=Offsets(kind="uniform"),
        verify=Verify(state="", block=4096),
        window_bytes=1 << 20,
        seed=1,
    )


def test_a_kill_before_the_job_was_written_blocks_no_later_run(tmp_path: Path) -> None:
    target = Target(name="t", path="data", size=1 << 20)
    home = tmp_path / "verify" / target_slug("t")
    home.mkdir(parents=True)
    (home / "run_id").write_text("p-r1\n")
    Verification(tmp_path, target).prepare("p-r2", job(tmp_path / "data"))
    assert [run.run_id for run in verifiable_runs(tmp_path)] == ["p-r2"]
    Verification(tmp_path, target).prepare("p-r3", job(tmp_path / "data"))
    assert [run.run_id for run in verifiable_runs(tmp_path)] == ["p-r3"]


@pytest.mark.parametrize("other", ["./data", "link", "other"])
def test_a_write_under_another_name_makes_the_state_worthless(tmp_path: Path, other: str) -> None:
    (tmp_path / "link").symlink_to("data")
    target = Target(name="t", path="data", size=1 << 20)
    Verification(tmp_path, target).prepare("t-r1", job(tmp_path / "data"))
    plain = job(tmp_path / other, other).model_copy(update={"verify": None})
    second = Target(name="u", path=other, size=1 << 20)
    Verification(tmp_path, second).prepare("u-r1", plain)
    left = [run.run_id for run in verifiable_runs(tmp_path)]
    assert left == (["t-r1"] if other == "other" else [])


def test_a_device_is_one_place_by_any_name_and_by_an_open_file(tmp_path: Path) -> None:
    device = next((path for path in Path("/dev").iterdir() if path.is_block_device()), None)
    if device is None:
        pytest.skip("no block device in /dev")
    (tmp_path / "by-id").symlink_to(device)
    assert place_of(tmp_path / "by-id") == place_of(device) != place_of("/dev/null")


def test_a_held_device_is_the_device_that_it_was(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    numbers = {"/proc/1/fd/7": 2049, "/dev/disk/by-id/b": 2049, "/dev/disk/by-id/c": 2050}
    monkeypatch.setattr("storlab.stores.devices.device_number", lambda path: numbers.get(str(path)))
    verified = job(Path("/proc/1/fd/7"), "/dev/disk/by-id/b", "block_device")
    for name, left in (("/dev/disk/by-id/c", ["t-r1"]), ("/dev/disk/by-id/b", [])):
        Verification(tmp_path, Target(name="t", path="b")).prepare("t-r1", verified)
        plain = job(Path(name), "another").model_copy(update={"verify": None})
        Verification(tmp_path, Target(name="u", path="c")).prepare("u-r1", plain)
        assert [run.run_id for run in verifiable_runs(tmp_path)] == left
