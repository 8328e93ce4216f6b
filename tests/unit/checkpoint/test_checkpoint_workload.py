"""The checkpoint workload: parameters to points, points to jobs."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from storlab.base.errors import PreflightError, StudyError
from storlab.base.units import NS_PER_S
from storlab.contracts.family import Access, JobContext, Share
from storlab.contracts.registry import get_engine
from storlab.lab.plan.plan import make_plan
from storlab.lab.study.file import load_study
from storlab.model.point import Point
from storlab.model.s3 import Credentials, S3Access, S3Store
from storlab.model.study import Target
from storlab.process.execution import StopRequest, finish
from storlab.workloads.checkpoint.job import CheckpointJob
from support.checkpoint_points import (
    BUCKET,
    CHECKPOINT,
    HEADER,
    PROFILE,
    SIZE,
    TARGET,
    context,
    order,
    point,
    points,
)
from support.refusals import refusal


def refused(lines: str) -> str:
    with pytest.raises(StudyError) as caught:
        points(lines)
    return "; ".join(f"{p['where'].split()[-1]}: {p['what']}" for p in caught.value.problems)


def test_the_smallest_order() -> None:
    made = order()
    assert made.task == "run"
    assert (made.place.directory, made.place.direct) == ("/h/checkpoints-p1-r1", True)
    assert (made.ranks, len(made.files), made.format) == (8, 8, "raw")
    assert (made.writes, made.restores, made.keep_last, made.pause_ns) == (10, 1, None, 0)
    assert (made.io_bytes, made.queue_depth) == (4 << 20, 8)
    assert (made.sync, made.publish, made.verify, made.cold) == ("fsync", "rename", True, "direct")
    assert (made.seed, made.interval_ns, made.ramp_ns) == (7, NS_PER_S // 2, 0)
    assert sum(file.bytes for file in made.files) == SIZE


def test_every_field_of_a_study_reaches_the_order() -> None:
    made = order(
        "\n".join(
            [
                'profile = "llama3-70b"',
                "scale = 0.01",
                "subset = 4",
                'layout = "safetensors"',
                "writes = 3",
                "restores = 2",
                'io_size = "1MiB"',
                "io_depth = 16",
                'sync = "none"',
                'publish = "in_place"',
                "keep_last = 2",
                'pause = "5s"',
                "verify = false",
                'cold = "drop"',
            ]
        ),
        Target(name="t", directory="d", direct=False),
    )
    assert made.place.direct is False
    assert (made.ranks, made.format) == (4, "safetensors")
    assert {file.rank for file in made.files} == {0, 1, 2, 3}
    assert (made.writes, made.restores, made.keep_last) == (3, 2, 2)
    assert (made.io_bytes, made.queue_depth, made.pause_ns) == (1 << 20, 16, 5 * NS_PER_S)
    assert (made.sync, made.publish, made.verify, made.cold) == ("none", "in_place", False, "drop")
    whole = order('profile = "llama3-70b"\nsubset = 4').files[0].bytes
    assert made.files[0].bytes == round(whole * 0.01) + 4096


def test_a_profile_of_the_user_is_part_of_the_plan(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Check that resumed runs use the same profile from any working directory."""
    profile = tmp_path / "profile.toml"
    text = 'title = "profile"\nranks = 2\n[[file]]\nname = "{{rank}}.bin"\nbytes = "{}MiB"\n'
    profile.write_text(text.format(1))
    monkeypatch.chdir(tmp_path)
    planned = point('profile = "profile.toml"')
    profile.write_text(text.format(64))
    assert point('profile = "profile.toml"').point_id != planned.point_id
    profile.unlink()
    stored = Point.model_validate_json(planned.model_dump_json())
    assert [file.bytes for file in CHECKPOINT.job(stored, context()).files] == [1 << 20] * 2
    assert refusal(CHECKPOINT.check(stored.params, TARGET)) is None
    assert CHECKPOINT.estimate(stored, HEADER, TARGET).bytes_written == 10 * 2 << 20
    assert "profile_data" not in point(PROFILE).params


def test_what_is_swept_unfolds() -> None:
    found = points(
        'profile = ["llama3-8b", "llama3-70b"]\nscale = [0.01, 0.1]\nsubset = [4, 8]\n'
        'layout = ["profile", "file_per_rank"]\nio_size = ["1MiB", "4MiB"]\nio_depth = [1, 8]\n'
        'sync = ["fsync", "none"]\npublish = ["rename", "in_place"]'
    )
    assert len(found) == 2**8
    assert len({each.point_id for each in found}) == 2**8


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        ('io_size = "5000B"', "io_size: 5KB is not a multiple of 4KiB"),
        ('io_size = "2GiB"', "io_size: "),
        ("scale = 0.0", "scale: "),
        ("scale = 1.5", "scale: "),
        ('part_size = "1MiB"', "part_size: 1MiB is not between 5MiB and 5GiB"),
        ('part_size = "64GiB"', "part_size: 64GiB is not between 5MiB and 5GiB"),
        ("writes = 0", "writes: "),
        ("keep_last = 0", "keep_last: "),
        ('restores = 0\ncold = "drop"', "cold: applies to restores"),
        ("restores = 0\nverify = false", "verify: applies to restores"),
        ('writer = "torch"\nengine = "native"', "writer: "),
        ('writer = "torch"\nlayout = "safetensors"', "layout: is not possible with PyTorch"),
    ],
)
def test_what_cannot_be_is_refused_by_field(lines: str, message: str) -> None:
    assert message in refused(PROFILE + lines)


def test_a_profile_is_needed() -> None:
    assert "profile" in refused("")


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        ('profile = "llama3-9b"', "is not a checkpoint profile"),
        ('profile = "absent/mine.toml"', "cannot be read"),
        ('profile = "llama3-8b"\nsubset = 9', "9 is more than the 8 ranks"),
    ],
)
def test_a_profile_is_looked_at_before_anything_runs(lines: str, message: str) -> None:
    problem = refusal(CHECKPOINT.check(point(lines).params, TARGET))
    assert problem is not None
    assert message in problem
    assert refusal(CHECKPOINT.check(point().params, TARGET)) is None
    CHECKPOINT.estimate(point(lines), HEADER, TARGET)  # leaves the refusal to check


IDLE_RANKS = 'title = "t"\nranks = 4\n[[file]]\nname = "a-{rank}"\nbytes = "1MB"\nranks = [2, 3]\n'


def test_a_subset_that_writes_nothing_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "p.toml").write_text(IDLE_RANKS)
    few, enough = (point(f'profile = "p.toml"\nsubset = {ranks}') for ranks in (2, 3))
    for target in (TARGET, BUCKET):
        assert refusal(CHECKPOINT.check(enough.params, target)) is None
        assert refusal(CHECKPOINT.check(few.params, target)) == (
            "subset: the first 2 ranks of p.toml write nothing; use at least 3, or remove it"
        )


def test_a_client_whose_ranks_write_nothing_has_an_order(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "p.toml").write_text(IDLE_RANKS)
    waiting = replace(context(home=tmp_path), share=Share(0, 2))
    made = CHECKPOINT.job(point('profile = "p.toml"\nwrites = 2'), waiting)
    assert isinstance(made, CheckpointJob)
    assert (made.files, made.ranks) == ([], 2)
    ran = finish(get_engine("native").start(made, tmp_path), StopRequest(), lambda _: None)
    assert (ran.status, len(ran.details["writes"]), ran.failure) == ("finished", 2, None)


def test_opening_a_study_needs_no_profile() -> None:
    """Check that a result can be read without the profile's file."""
    assert points('profile = "absent/mine.toml"')[0].params["profile"] == "absent/mine.toml"


def test_the_estimate_is_that_of_the_work() -> None:
    estimate = CHECKPOINT.estimate(point(PROFILE + 'pause = "2s"'), HEADER, TARGET)
    assert (estimate.layout_files, estimate.writes, estimate.reads) == (0, True, False)
    assert (estimate.bytes_written, estimate.space_bytes) == (10 * SIZE, 10 * SIZE)
    assert estimate.duration_ns == 11 * SIZE + 9 * 2 * NS_PER_S + NS_PER_S  # at 1 GB/s
    assert estimate.data_bytes == 0
    for keep, kept in ((2, 3), (9, 10), (50, 10)):
        kept_of = CHECKPOINT.estimate(point(PROFILE + f"keep_last = {keep}"), HEADER, TARGET)
        assert kept_of.space_bytes == kept * SIZE


def test_after_a_run_its_checkpoints_go_even_without_their_profile() -> None:
    (step,) = CHECKPOINT.after(point('profile = "absent/mine.toml"'), context())
    assert isinstance(step.job, CheckpointJob)
    assert (step.job.task, step.job.place.directory) == ("clean", "/h/checkpoints-p1-r1")
    assert CHECKPOINT.prepare([point()], context()) == []


def test_without_a_directory_there_is_no_order() -> None:
    with pytest.raises(ValueError, match="need a directory or an S3 bucket"):
        CHECKPOINT.job(point(), context(home=None))


def test_a_bucket_gets_a_prefix_of_the_run() -> None:
    secret = Credentials("AKIDEXAMPLE", "a-secret-key")
    store = S3Store(endpoints=["http://127.0.0.1:9000"], bucket="bucket", credentials=secret)
    access = Access(s3=S3Access(store=store, prefix="in/storlab-abc/"))
    bucket = JobContext(HEADER, BUCKET, access, seed=7, work_dir=Path("w"), run_id="p1-r1")
    made = CHECKPOINT.job(point(PROFILE + 'part_size = "128MiB"'), bucket)
    assert isinstance(made, CheckpointJob)
    assert (made.place.directory, made.place.prefix) == (None, "in/storlab-abc/checkpoints-p1-r1/")
    assert made.part_size == 128 << 20
    assert (made.place.request_timeout_ns, made.place.retries) == (60 * NS_PER_S, 5)
    assert made.place.backoff_ns == NS_PER_S // 5
    hasty = 'request_timeout = "5s"\nretries = 0\nretry_backoff = 0'
    hurried = CHECKPOINT.job(point(PROFILE + hasty), bucket)
    assert isinstance(hurried, CheckpointJob)
    assert (hurried.place.request_timeout_ns, hurried.place.retries) == (5 * NS_PER_S, 0)
    older = point()
    for name in ("request_timeout", "retries", "retry_backoff"):
        del older.params[name]  # as in a plan from before these parameters existed
    (step,) = CHECKPOINT.after(older, bucket)
    assert isinstance(step.job, CheckpointJob)
    assert step.job.place.retries == 0
    assert made.secrets()
    assert "a-secret-key" not in made.model_dump_json()
    (step,) = CHECKPOINT.after(point(), bucket)
    assert isinstance(step.job, CheckpointJob)
    assert (step.job.task, step.job.place) == ("clean", made.place)


@pytest.mark.parametrize(
    ("lines", "field"),
    [
        ('layout = "safetensors"', "layout"),
        ('writer = "torch"', "writer"),
        ('sync = "none"', "sync"),
        ('publish = "in_place"', "publish"),
        ('cold = "drop"', "cold"),
        ('part_size = "5MiB"\nlayout = "file_per_rank"', None),
        ('part_size = "5MiB"', None),
    ],
)
def test_what_buckets_cannot_do_is_said_before(lines: str, field: str | None) -> None:
    problem = refusal(CHECKPOINT.check(point(PROFILE + lines).params, BUCKET))
    assert (problem or "").partition(":")[0] == (field or "")
    assert refusal(CHECKPOINT.check(point(PROFILE + lines).params, TARGET)) is None


def test_a_file_with_too_many_parts_is_refused() -> None:
    lines = 'profile = "llama3-405b-352-files"\nlayout = "file_per_rank"\npart_size = "5MiB"'
    problem = refusal(CHECKPOINT.check(point(lines).params, BUCKET))
    assert problem is not None
    assert problem.startswith("part_size: a file of 108 GB would have too many parts")
    assert "11MiB" in problem


def test_buffers_that_do_not_fit_into_memory_are_refused() -> None:
    huge = 'profile = "llama3-1t"\nio_size = "1GiB"\nio_depth = 1024'
    with pytest.raises(ValueError, match="subset = 8"):
        CHECKPOINT.job(point(huge), context())


def test_the_plan_knows_of_the_buffers_of_every_rank(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("storlab.lab.plan.plan.host_memory_bytes", lambda: 64 << 30)
    study = tmp_path / "s.toml"
    target = f'[[target]]\nname = "t"\ndirectory = "{tmp_path / "t"}"\n'
    workload = '[[workload]]\nkind = "checkpoint"\nprofile = "llama3-405b"\nscale = 0.0001\n'
    lines = 'io_size = "64MiB"\nio_depth = 8\n'
    study.write_text(f'[study]\nname = "s"\nrepeats = 1\n{target}{workload}{lines}')
    # (512 ranks + 1) x (8 + 4) x 64 MiB
    with pytest.raises(PreflightError, match=r"need 413 GB.*io_depth x io_size x subset"):
        make_plan(load_study(study))
    native = study.read_text()
    for mend in ("subset = 1\n", 'writer = "torch"\n'):
        study.write_text(native + mend)
        make_plan(load_study(study))
