"""Verify mode's state on disk, whenever the campaign was killed."""

from __future__ import annotations

from pathlib import Path

from storlab.lab.prepare.precondition import target_slug
from storlab.lab.site.verification import Verification, verifiable_runs
from storlab.model.job import Member, WeightedSize
from storlab.model.study import Target
from storlab.workloads.block.job import BlockJob, Mix, Offsets, Verify


def job(path: Path) -> BlockJob:
    return BlockJob(
        members=[Member(path=str(path), name=str(path), kind="file", size=1 << 20)],
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
