"""The checkpoint workload: parameters to points, points to orders, runs to metrics and flags."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from storlab.base.errors import StudyError
from storlab.base.units import NS_PER_S
from storlab.contracts.family import Access, JobContext, Share
from storlab.contracts.registry import FAMILIES, get_engine
from storlab.lab.study.file import parse_study
from storlab.model.point import Point
from storlab.model.result import (
    CpuUse,
    EngineInfo,
    Failure,
    LatencySummary,
    OperationTotals,
    RunOutcome,
)
from storlab.model.s3 import Credentials, S3Access, S3Store
from storlab.model.study import Header, Target
from storlab.process.execution import StopRequest, finish
from storlab.workloads.checkpoint.interval import daly_interval, share_lost_with_failures
from storlab.workloads.checkpoint.job import CheckpointJob
from support.refusals import refusal

CHECKPOINT = FAMILIES["checkpoint"]
HEADER = Header(name="s", settle="1s", interval="500ms")  # type: ignore[arg-type]
TARGET = Target(name="t", directory="d")
PROFILE = 'profile = "llama3-405b-8gpu-415gb"\n'
SIZE = 415_200_000_000
GB = 1_000_000_000


def points(lines: str) -> list[Point]:
    study = parse_study(
        '[study]\nname = "s"\n[[target]]\nname = "t"\ndirectory = "d"\n'
        f'[[workload]]\nkind = "checkpoint"\n{lines}'
    )
    workload = study.workload[0]
    return [
        Point(
            target="t",
            workload="w",
            workload_index=0,
            kind="checkpoint",
            engine=workload.engine or "native",
            params=values,
        )
        for values in workload.values()
    ]


def point(lines: str = PROFILE) -> Point:
    (single,) = points(lines)
    return single


def refused(lines: str) -> str:
    with pytest.raises(StudyError) as caught:
        points(lines)
    return "; ".join(f"{p['where'].split()[-1]}: {p['what']}" for p in caught.value.problems)


def context(target: Target = TARGET, home: Path | None = Path("/h")) -> JobContext:
    access = Access(home=home)
    return JobContext(HEADER, target, access, seed=7, work_dir=Path("w"), run_id="p1-r1")


def order(lines: str = PROFILE, target: Target = TARGET) -> CheckpointJob:
    made = CHECKPOINT.job(point(lines), context(target))
    assert isinstance(made, CheckpointJob)
    return made


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
    """Runs after a resume have the files of those before it, wherever it is started."""
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
        ('io_size = "5000B"', "io_size: 5000 is no multiple"),
        ('io_size = "2GiB"', "io_size: "),
        ("scale = 0.0", "scale: "),
        ("scale = 1.5", "scale: "),
        ('part_size = "1MiB"', "part_size: 1MiB is not between 5MiB and 5GiB"),
        ('part_size = "64GiB"', "part_size: 64GiB is not between 5MiB and 5GiB"),
        ("writes = 0", "writes: "),
        ("keep_last = 0", "keep_last: "),
        ('restores = 0\ncold = "drop"', "cold: says something of restores"),
        ("restores = 0\nverify = false", "verify: says something of restores"),
        ('writer = "torch"\nengine = "native"', "writer: "),
        ('writer = "torch"\nlayout = "safetensors"', "layout: PyTorch"),
    ],
)
def test_what_cannot_be_is_refused_by_field(lines: str, message: str) -> None:
    assert message in refused(PROFILE + lines)


def test_a_profile_is_needed() -> None:
    assert "profile" in refused("")


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        ('profile = "llama3-9b"', "there is no profile"),
        ('profile = "absent/mine.toml"', "cannot be read"),
        ('profile = "llama3-8b"\nsubset = 9', "has 8 ranks and not 9"),
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
    """A result is read where the profile's file is not."""
    assert points('profile = "absent/mine.toml"')[0].params["profile"] == "absent/mine.toml"


def test_the_estimate_is_that_of_the_work() -> None:
    estimate = CHECKPOINT.estimate(point(PROFILE + 'pause = "2s"'), HEADER, TARGET)
    assert (estimate.files, estimate.writes, estimate.reads) == (0, True, False)
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
    with pytest.raises(ValueError, match="neither directory nor bucket"):
        CHECKPOINT.job(point(), context(home=None))


BUCKET = Target(name="b", s3="http://127.0.0.1:9000/bucket")


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
        del older.params[name]  # of a plan that was made before there were these
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
    assert problem.startswith("part_size: 108 GB have too many parts; use 11MiB")


def test_buffers_that_do_not_fit_into_memory_are_refused() -> None:
    huge = 'profile = "llama3-1t"\nio_size = "1GiB"\nio_depth = 1024'
    with pytest.raises(ValueError, match="subset = 8"):
        CHECKPOINT.job(point(huge), context())


def ranks(start: int, *ends: int) -> list[dict[str, Any]]:
    return [
        {"rank": n, "bytes": GB // 2, "start_ns": start, "moved_ns": end, "end_ns": end}
        for n, end in enumerate(ends)
    ]


def write(start: float, written: float, durable: float, device: int | None = GB) -> dict[str, Any]:
    begin, moved, end = (round(t * NS_PER_S) for t in (start, written, durable))
    return {
        "number": 1,
        "start_ns": begin,
        "written_ns": moved,
        "durable_ns": end,
        "bytes": GB,
        "device_written_bytes": device,
        "ranks": ranks(begin, moved, end),
    }


def restore(start: float, end: float, device: int | None = GB, resident: int = 0) -> dict[str, Any]:
    begin, last = round(start * NS_PER_S), round(end * NS_PER_S)
    return {
        "number": 2,
        "start_ns": begin,
        "end_ns": last,
        "bytes": GB,
        "resident_before_bytes": resident,
        "device_read_bytes": device,
        "verified": True,
        "ranks": ranks(begin, last, last),
    }


def latency(mean_s: float, count: int) -> LatencySummary:
    ns = round(mean_s * NS_PER_S)
    return LatencySummary(
        count=count, mean_ns=ns, min_ns=ns, p50_ns=ns, p90_ns=ns, p99_ns=ns, p999_ns=ns,
        p9999_ns=ns, max_ns=ns,
    )  # fmt: skip


def outcome(writes: list[dict[str, Any]], restores: list[dict[str, Any]]) -> RunOutcome:
    totals = {
        "write": OperationTotals(operations=1000, bytes=len(writes) * GB, latency=latency(0.1, 1)),
        "read": OperationTotals(operations=500, bytes=len(restores) * GB, latency=latency(0.1, 1)),
    }
    return RunOutcome(
        status="finished",
        engine=EngineInfo(name="native", version="1"),
        window_start_ns=0,
        window_end_ns=100 * NS_PER_S,
        samples=[],
        totals=totals,
        cpu=CpuUse(user_ns=2 * NS_PER_S, system_ns=NS_PER_S, cores=8, worker_ns=NS_PER_S),
        details={"writes": writes, "restores": restores, "device_counters": True},
    )


TWO_WRITES = [write(0, 1.5, 2), write(10, 13, 14)]
ONE_RESTORE = [restore(20, 24)]


def metrics(lines: str = "", **parts: list[dict[str, Any]]) -> dict[str, float]:
    ran = outcome(parts.get("writes", TWO_WRITES), parts.get("restores", ONE_RESTORE))
    found = CHECKPOINT.metrics(point(PROFILE + lines), ran)
    return {f"{m.name}.{m.operation}": m.value for m in found}


def test_written_and_durable_are_different_times() -> None:
    found = metrics()
    assert found["write_time_s.all"] == pytest.approx((1.5 + 3) / 2)
    assert found["durable_time_s.all"] == pytest.approx(3)
    assert found["durable_time_max_s.all"] == pytest.approx(4)
    assert found["write_mb_s.all"] == pytest.approx(2000 / 4.5)
    assert found["durable_mb_s.all"] == pytest.approx(2000 / 6)
    assert found["restore_time_s.all"] == pytest.approx(4)
    assert found["restore_mb_s.all"] == pytest.approx(250)
    assert found["slowest_rank_time_s.all"] == pytest.approx(3)
    assert found["slowest_rank_mb_s.all"] == pytest.approx((500 / 2 + 500 / 4) / 2)
    assert found["cpu_s_per_gb.all"] == pytest.approx(1)
    assert found["restore_device_ratio.all"] == pytest.approx(1)


def test_throughput_counts_the_time_in_which_checkpoints_moved() -> None:
    """The window has pauses, which are no part of any rate."""
    found = metrics()
    assert found["throughput_mb_s.write"] == pytest.approx(2000 / 6)
    assert found["throughput_mb_s.read"] == pytest.approx(250)
    assert found["throughput_mb_s.all"] == pytest.approx(300)
    assert found["concurrency_effective.all"] == pytest.approx(150 / 10)


def test_nothing_is_called_durable_that_was_not_flushed() -> None:
    found = metrics('sync = "none"')
    assert not [name for name in found if name.startswith("durable")]
    assert found["write_time_s.all"] == pytest.approx(2.25)


def test_what_training_loses() -> None:
    found = metrics('training_interval = "57s"')
    assert found["training_share_lost_percent.all"] == pytest.approx(5)
    assert "optimal_interval_young_s.all" not in found
    found = metrics('mtbf = "10h"')
    assert found["optimal_interval_young_s.all"] == pytest.approx((2 * 3 * 36_000) ** 0.5)
    assert found["optimal_interval_daly_s.all"] == pytest.approx(463, rel=0.01)
    optimum = found["training_share_lost_at_optimum_percent.all"]
    assert 0 < optimum < found["training_share_lost_with_failures_percent.all"]


def test_files_are_preallocated_unless_somebody_else_writes_them() -> None:
    assert order().preallocate
    assert not order(PROFILE + "preallocate = false").preallocate
    assert point(PROFILE).params["preallocate"] is True
    by_torch = point(PROFILE + 'writer = "torch"')
    assert by_torch.params["preallocate"] is None
    grown = point(PROFILE + "preallocate = false").params
    assert "preallocate" in (refusal(CHECKPOINT.check(grown, BUCKET)) or "")


def test_what_training_loses_is_of_the_whole_checkpoint() -> None:
    """A shrunk one was fast because there was little of it; the training writes the whole."""
    shrunk = metrics('scale = 0.01\nmtbf = "10h"')
    assert shrunk["durable_time_s.all"] == pytest.approx(3)
    assert shrunk["optimal_interval_young_s.all"] == pytest.approx((2 * 300 * 36_000) ** 0.5)
    assert shrunk["optimal_interval_daly_s.all"] == pytest.approx(daly_interval(300, 36_000))
    lost = share_lost_with_failures(300, 1800, 36_000, 100 * shrunk["restore_time_s.all"])
    assert shrunk["training_share_lost_with_failures_percent.all"] == pytest.approx(100 * lost)
    assert shrunk["training_share_lost_percent.all"] == pytest.approx(100 * 300 / 2100)


def test_a_checkpoint_without_an_end_is_in_neither_times_nor_bytes() -> None:
    whole = metrics(writes=TWO_WRITES[:1], restores=[])
    cut = [*TWO_WRITES[:1], {**TWO_WRITES[1], "written_ns": None}]
    found = metrics(writes=cut, restores=[])
    assert found["write_time_s.all"] == whole["write_time_s.all"]
    assert found["write_mb_s.all"] == whole["write_mb_s.all"]


def test_derived_times_of_training_are_modelled() -> None:
    found = CHECKPOINT.metrics(point(PROFILE + 'mtbf = "10h"'), outcome(TWO_WRITES, ONE_RESTORE))
    modelled = {m.name for m in found if m.provenance == "modelled"}
    assert modelled == {
        "training_share_lost_percent",
        "optimal_interval_young_s",
        "optimal_interval_daly_s",
        "training_share_lost_with_failures_percent",
        "training_share_lost_at_optimum_percent",
    }


def test_a_run_without_restores_and_device_counters_has_fewer_metrics() -> None:
    found = metrics(writes=[write(0, 1, 2, None)], restores=[])
    assert not [name for name in found if name.startswith(("restore", "write_device"))]
    assert "throughput_mb_s.read" not in found


def flags(ran: RunOutcome, lines: str = "", target: Target = TARGET) -> dict[str, str]:
    return {f.kind: f.message for f in CHECKPOINT.flags(point(PROFILE + lines), target, ran)}


def test_a_good_run_has_no_flags() -> None:
    assert flags(outcome(TWO_WRITES, ONE_RESTORE)) == {}


@pytest.mark.parametrize(("cores", "starved"), [(2, True), (1, False)])
def test_more_ranks_than_cores_wait_for_one_another(cores: int, starved: bool) -> None:
    ran = outcome(TWO_WRITES, ONE_RESTORE)
    ran.cpu = CpuUse(user_ns=1, system_ns=1, cores=cores, longest_wait_percent=60.0)
    ran.cpu = ran.cpu.model_copy(update={"machine_busy_percent": 5.0, "machine_cores": 16})
    assert ("starved" in flags(ran)) is starved
    params = point(f"{PROFILE}subset = 4").params
    assert CHECKPOINT.page.workers_of(params) == 4
    assert CHECKPOINT.page.workers_of({**params, "profile": "gone.toml"}) == 0


def test_what_stands_beside_the_numbers() -> None:
    good = outcome(TWO_WRITES, ONE_RESTORE)
    assert "scaled to 1 %" in flags(good, "scale = 0.01")["scaled"]
    assert "not-durable" in flags(good, 'sync = "none"')
    assert "page-cache" in flags(good, 'cold = "as_is"')
    buffered = Target(name="t", directory="d", direct=False)
    assert "page-cache" in flags(good, target=buffered)
    embedded = Target(name="e", s3="embedded:d")
    assert set(flags(good, target=embedded)) == {"page-cache", "embedded-server"}
    assert flags(good, target=BUCKET) == {}


def test_a_flush_that_did_not_reach_the_device_is_found_by_its_counter() -> None:
    ran = outcome([write(0, 1, 2, GB // 10)], ONE_RESTORE)
    assert "10 % of the bytes" in flags(ran)["not-durable"]


@pytest.mark.parametrize(
    ("entry", "message"),
    [
        (restore(0, 1, GB // 2), "counted 50 % of the bytes"),
        (restore(0, 1, None, GB // 4), "250 MB of 1 GB lay in memory"),
        (restore(0, 1, 0, GB), "counted 0 %"),
    ],
)
def test_a_restore_from_memory_is_not_called_cold(entry: dict[str, Any], message: str) -> None:
    ran = outcome(TWO_WRITES, [entry])
    assert message in flags(ran)["restore-not-cold"]
    assert "restore-not-cold" not in flags(ran, 'cold = "as_is"')


def test_a_restore_that_differs_is_a_failed_verification() -> None:
    ran = outcome(TWO_WRITES, [])
    ran.status = "failed"
    ran.failure = Failure(message="verify of rank3.pt at offset 4096 failed", operation="verify")
    assert "rank3.pt" in flags(ran)["verify-failed"]


def test_the_words_of_a_page() -> None:
    page = CHECKPOINT.page
    params = point(PROFILE + "scale = 0.01\nsubset = 4").params
    assert page.phrase("scale", params) == "scaled to 1 %"
    assert page.phrase("subset", params) == "first 4 ranks"
    assert page.says("verify", params)
    assert not page.says("pause", params)
    assert not page.says("mtbf", params)
