"""Groups of jobs in a block workload: study to points, points to jobs, outcome to results."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from storlab._native import Histogram
from storlab.base.errors import StudyError
from storlab.base.units import NS_PER_S
from storlab.contracts.family import Access, JobContext
from storlab.contracts.registry import FAMILIES
from storlab.engines.fio import job as fio_job
from storlab.lab.study.file import parse_study
from storlab.model.job import Member
from storlab.model.point import Point
from storlab.model.result import (
    EngineInfo,
    GroupOutcome,
    OperationTotals,
    RunOutcome,
    Sample,
)
from storlab.model.samples import summarise_latency
from storlab.model.study import Header, Target
from storlab.results.consistency import contradiction
from storlab.workloads.block.job import GroupedBlockJob
from storlab.workloads.block.params import BlockParams

BLOCK = FAMILIES["block"]
HEADER = Header(name="s", ramp="2s", runtime="10s", settle="1s")  # type: ignore[arg-type]
GIB = 1 << 30
GROUPS = """\
queue_depth = 16
[[workload.group]]
name = "readers"
jobs = 2
region_size = "50%"
[[workload.group]]
name = "writer"
access = "sequential"
read_percent = 0
block_size = "1MiB"
queue_depth = 1
rate_iops = 50
region_start = "50%"
"""


def points(lines: str, target: str = 'path = "x"') -> list[Point]:
    study = parse_study(
        f'[study]\nname = "s"\n[[target]]\nname = "t"\n{target}\nsize = "1GiB"\n'
        f'[[workload]]\nkind = "block"\n{lines}'
    )
    return [
        Point(target="t", workload="w", workload_index=0, kind="block", engine="native", params=v)
        for v in study.workload[0].values()
    ]


def job_of(point: Point, target: Target, members: int = 1) -> GroupedBlockJob:
    paths = [f"/x{number}" for number in range(members)]
    access = Access([Member(path=p, name=p, kind="file", size=GIB) for p in paths])
    made = BLOCK.job(point, JobContext(HEADER, target, access, seed=7, work_dir=Path("w")))
    assert isinstance(made, GroupedBlockJob)
    return made


def test_groups_take_over_fields_of_the_workload() -> None:
    (point,) = points(GROUPS)
    readers, writer = BlockParams.of(point.params).loads().values()
    assert (readers.queue_depth, readers.jobs, readers.block_size) == (16, 2, 4096)
    assert (readers.access, readers.offsets, readers.rate_iops) == ("random", "uniform", None)
    assert (writer.queue_depth, writer.jobs, writer.block_size) == (1, 1, 1 << 20)
    assert (writer.access, writer.offsets, writer.rate_iops) == ("sequential", "sequential", 50)
    assert point.params["jobs"] == 3
    assert "queue_depth" not in point.params, "the groups differ in it"


def test_a_point_without_groups_has_no_trace_of_them() -> None:
    (point,) = points("jobs = 2")
    assert "group" not in point.params
    assert BLOCK.groups(point) == {}


def test_each_group_is_a_point_that_depends_on_the_others() -> None:
    own = BLOCK.groups(points(GROUPS)[0])
    assert list(own) == ["readers", "writer"]
    assert own["readers"].params["block_size"] == 4096
    assert own["readers"].params["beside"]["writer"]["rate_iops"] == 50
    slower = BLOCK.groups(points(GROUPS.replace("rate_iops = 50", "rate_iops = 5"))[0])
    assert own["readers"].point_id != slower["readers"].point_id


def test_a_sweep_of_the_workload_is_taken_over() -> None:
    found = points(GROUPS.replace("queue_depth = 16", "queue_depth = [4, 8]"))
    assert [p.params["queue_depth"] for p in found] == [4, 8]
    depths = [
        [load.queue_depth for load in BlockParams.of(p.params).loads().values()] for p in found
    ]
    assert depths == [[4, 1], [8, 1]]
    beside = [BLOCK.groups(p)["readers"].params["beside"] for p in found]
    assert beside[0] == beside[1], "the other group is the same in both"


@pytest.mark.parametrize(
    ("change", "field"),
    [
        (("jobs = 2", "jobs = [1, 2]"), "group"),
        (('name = "writer"', 'name = "readers"'), "name"),
        (('name = "writer"', 'name = "a.b"'), "name"),
        (("queue_depth = 16", "verify = true"), "verify"),
        (("queue_depth = 16", 'total_bytes = "1GiB"'), "total_bytes"),
        (("queue_depth = 1\n", "queue_depth = 0\n"), "queue_depth"),
        (("queue_depth = 1\n", "drain_timeout = 5\n"), "drain_timeout"),
        (("jobs = 2", 'arrival = "poisson"'), "arrival"),
        (("jobs = 2", 'sync = "fsync"\nsync_every = 1'), "sync"),
        (("queue_depth = 16", "read_percent = 50\n[workload.x]"), "x"),
    ],
)
def test_what_groups_cannot_do_is_refused(change: tuple[str, str], field: str) -> None:
    with pytest.raises(StudyError) as caught:
        points(GROUPS.replace(*change))
    assert field in str(caught.value)


def test_a_field_that_every_group_sets_has_no_effect_in_the_workload() -> None:
    lines = GROUPS.replace("jobs = 2", "jobs = 2\nqueue_depth = 4")
    with pytest.raises(StudyError, match="queue_depth"):
        points(lines)


def test_a_group_too_large_for_its_region_is_named() -> None:
    (point,) = points(GROUPS)
    small = Target(name="t", path="x", size=1 << 20)
    (problem,) = BLOCK.check(point.params, small)
    assert problem.field[:2] == ("group", 1)


def test_jobs_of_groups_have_their_own_load_region_and_seed() -> None:
    (point,) = points(GROUPS)
    job = job_of(point, Target(name="t", path="x", size=GIB))
    readers, writer = (group.job for group in job.groups)
    assert (readers.members[0].offset, readers.members[0].size) == (0, GIB // 2)
    assert (writer.members[0].offset, writer.members[0].size) == (GIB // 2, GIB // 2)
    assert readers.seed != writer.seed
    assert (readers.window_ns, readers.ramp_ns) == (writer.window_ns, writer.ramp_ns)
    assert [m.path for m in job.touches()] == ["/x0"]
    (place,) = job.places()
    assert (place.offset, place.size) == (0, GIB)
    assert job.jobs == 3


def test_jobs_in_a_directory_have_a_file_each() -> None:
    (point,) = points(GROUPS, 'directory = "d"')
    target = Target(name="t", directory="d", size=GIB)
    assert BLOCK.estimate(point, HEADER, target).layout_files == 3
    readers, writer = (group.job for group in job_of(point, target, members=3).groups)
    assert [m.path for m in readers.members] == ["/x0", "/x1"]
    assert [m.path for m in writer.members] == ["/x2"]


def test_written_bytes_are_those_of_all_groups() -> None:
    (point,) = points(GROUPS)
    target = Target(name="t", path="x", size=GIB)
    estimate = BLOCK.estimate(point, HEADER, target)
    assert estimate.bytes_written == 12 * 50 << 20  # ramp and window
    assert estimate.writes
    closed = points(GROUPS.replace("rate_iops = 50\n", ""))[0]
    assert BLOCK.estimate(closed, HEADER, target).bytes_written is None


def outcome(late: int = 0) -> RunOutcome:
    """Return an outcome of 10 s in which readers did 4,000 reads and the writer 500 writes."""

    def part(operation: str, count: int, size: int, ns: int) -> tuple[OperationTotals, Sample]:
        latency = Histogram()
        latency.record(ns, count)
        encoded = latency.to_v2()
        totals = OperationTotals(
            operations=count,
            bytes=count * size,
            late_operations=late if operation == "write" else 0,
            latency=summarise_latency(encoded),
        )
        sample = Sample(0, 0, 10 * NS_PER_S, operation, count, count * size, encoded)
        return totals, sample

    reads, writes = part("read", 4000, 4096, 80_000_000), part("write", 500, 1 << 20, 1_000_000)
    return RunOutcome(
        status="finished",
        engine=EngineInfo(name="native", version="1", backend="uring"),
        window_start_ns=0,
        window_end_ns=10 * NS_PER_S,
        samples=[reads[1], writes[1]],
        totals={"read": reads[0], "write": writes[0]},
        cpu=None,
        groups={
            "readers": GroupOutcome({"read": reads[0]}, [reads[1]]),
            "writer": GroupOutcome({"write": writes[0]}, [writes[1]]),
        },
    )


def test_a_group_has_metrics_concurrency_and_flags_of_its_own() -> None:
    (point,) = points(GROUPS)
    target = Target(name="t", path="x", size=GIB)
    own, done = BLOCK.groups(point), outcome(late=100)
    whole = {(m.name, m.operation): m.value for m in BLOCK.metrics(point, done)}
    assert whole["iops", "all"] == pytest.approx(450)
    assert BLOCK.concurrency(point, done).configured == 33
    parts = {name: done.of_group(name) for name in own}
    values = {
        name: {(m.name, m.operation): m.value for m in BLOCK.metrics(own[name], part)}
        for name, part in parts.items()
    }
    assert values["readers"]["iops", "all"] == pytest.approx(400)
    assert values["writer"]["throughput_mb_s", "all"] == pytest.approx(52.4288)
    assert values["readers"]["latency_mean_ns", "read"] == pytest.approx(8e7, rel=0.01)
    assert ("iops", "read") not in values["writer"]
    assert BLOCK.concurrency(own["readers"], parts["readers"]).configured == 32
    kinds = {
        name: {f.kind for f in BLOCK.flags(own[name], target, part)} for name, part in parts.items()
    }
    assert kinds == {"readers": set(), "writer": {"open-loop-behind"}}
    assert "open-loop-behind" not in {f.kind for f in BLOCK.flags(point, target, done)}


def test_samples_of_groups_are_stored_beside_those_of_the_run() -> None:
    names = [sample.operation for sample in outcome().every_sample]
    assert sorted(names) == ["read", "readers.read", "write", "writer.write"]


def test_groups_that_do_not_add_up_are_a_contradiction() -> None:
    from storlab.lab.run.records import completed_record
    from storlab.model.point import PlannedRun

    (point,) = points(GROUPS)
    study = parse_study(
        '[study]\nname = "s"\n[[target]]\nname = "t"\npath = "x"\nsize = "1GiB"\n'
        f'[[workload]]\nkind = "block"\n{GROUPS}'
    )
    run = PlannedRun(order=0, repeat=1, point_id=point.point_id)
    record = completed_record(run, point, study, "2026-01-01T00:00:00Z", outcome(late=100))
    assert contradiction(record, 0) is None
    (behind,) = (flag for flag in record.flags if flag.kind == "open-loop-behind")
    assert behind.message.startswith("writer: ")
    assert {flag.kind for flag in record.groups["readers"].flags}.isdisjoint({behind.kind})
    own = BLOCK.groups(point)["writer"]
    part = record.of_group("writer", own.workload, own.params)
    assert part.metric("iops") == pytest.approx(50)
    assert part.run_id.startswith(part.point_id) and part.run_id != record.run_id
    fewer = replace(outcome(), totals={**outcome().totals, "read": OperationTotals.model_validate(
        {**outcome().totals["read"].model_dump(), "operations": 3999}
    )})  # fmt: skip
    wrong = completed_record(run, point, study, "2026-01-01T00:00:00Z", fewer)
    assert "groups" in str(contradiction(wrong, 0))


def sections(text: str) -> dict[str, dict[str, Any]]:
    found: dict[str, dict[str, Any]] = {}
    name = ""
    for line in text.splitlines():
        if line.startswith("["):
            name = line.strip("[]")
            found[name] = {}
        elif "=" in line:
            option, _, value = line.partition("=")
            found[name][option] = value
    return found


def test_fio_runs_groups_as_sections_at_the_same_time() -> None:
    (point,) = points(GROUPS)
    job = job_of(point, Target(name="t", path="x", size=GIB))
    assert fio_job.grouped_refusal(job, True) is None
    found = sections(fio_job.grouped_job_file(job, "io_uring"))
    assert list(found) == ["global", "readers", "writer"]
    assert not any("stonewall" in options for options in found.values())
    readers, writer = found["readers"], found["writer"]
    assert (readers["rw"], readers["iodepth"], readers["numjobs"]) == ("randread", "16", "2")
    assert (writer["rw"], writer["bs"], writer["rate_iops"]) == ("write", str(1 << 20), "50")
    assert (writer["offset"], writer["size"]) == (str(GIB // 2), str(GIB // 2))
    assert readers["new_group"] == writer["new_group"] == "1"
    assert found["global"]["runtime"] == "10000000us"
    mixed = GROUPS.replace('name = "readers"', 'name = "readers"\nread_percent = 33.3')
    refused = fio_job.grouped_refusal(job_of(points(mixed)[0], Target(name="t", path="x")), True)
    assert refused is not None and "readers" in refused
