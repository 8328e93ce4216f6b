"""Groups of requests in an object workload: study to points, points to jobs, outcome to results."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from storlab._native import Histogram
from storlab.analysis.points import WorkloadPoint
from storlab.base.errors import StudyError
from storlab.base.units import NS_PER_S
from storlab.contracts.family import Access, JobContext
from storlab.contracts.registry import ENGINES, FAMILIES
from storlab.lab.run.records import completed_record
from storlab.lab.study.file import parse_study
from storlab.model.point import PlannedRun, Point
from storlab.model.result import (
    EngineInfo,
    Failure,
    GroupOutcome,
    OperationTotals,
    RunOutcome,
    Sample,
)
from storlab.model.s3 import Credentials, S3Access, S3Store
from storlab.model.samples import summarise_latency
from storlab.model.study import Header, StudyBase, Target
from storlab.results.consistency import contradiction
from storlab.workloads.object.job import GroupedObjectJob, ObjectJob
from storlab.workloads.object.params import ObjectParams

OBJECT = FAMILIES["object"]
HEADER = Header(name="s", ramp="2s", runtime="10s", settle="1s")  # type: ignore[arg-type]
TARGET = Target(name="t", s3="http://127.0.0.1:9000/bucket")
SECRET = Credentials("AKIDEXAMPLE", "a-secret-key")
STORE = S3Store(endpoints=["http://127.0.0.1:9000"], bucket="bucket", credentials=SECRET)
ACCESS = Access(s3=S3Access(store=STORE, prefix="in/storlab-abc/"))
MIB = 1 << 20
GROUPS = """\
object_size = "1MiB"
objects = 50
[[workload.group]]
name = "readers"
concurrency = 32
[[workload.group]]
name = "writers"
get_percent = 0
object_size = "64MiB"
part_size = "16MiB"
concurrency = 4
rate_requests = 2
"""


def study(lines: str) -> StudyBase:
    return parse_study(
        '[study]\nname = "s"\n[[target]]\nname = "t"\ns3 = "http://127.0.0.1:9000/bucket"\n'
        f'[[workload]]\nkind = "object"\nname = "w"\n{lines}'
    )


def points(lines: str = GROUPS) -> list[Point]:
    return [
        Point(target="t", workload="w", workload_index=0, kind="object", engine="native", params=v)
        for v in study(lines).workload[0].values()
    ]


def context(run_id: str = "p1-r1") -> JobContext:
    return JobContext(HEADER, TARGET, ACCESS, seed=7, work_dir=Path("w"), run_id=run_id)


def jobs_of(lines: str = GROUPS) -> dict[str, ObjectJob]:
    (point,) = points(lines)
    made = OBJECT.job(point, context())
    assert isinstance(made, GroupedObjectJob)
    assert made.secrets() == SECRET.as_dict()
    assert SECRET.secret_key not in made.stored().decode()
    return {group.name: group.job for group in made.groups}


def test_groups_take_over_fields_of_the_workload() -> None:
    (point,) = points()
    readers, writers = ObjectParams.of(point.params).loads().values()
    assert (readers.get_percent, readers.object_size, readers.rate_requests) == (100, MIB, None)
    assert (writers.get_percent, writers.object_size, writers.rate_requests) == (0, 64 * MIB, 2)
    assert (readers.part_size, writers.part_size) == (None, 16 * MIB)
    assert point.params["concurrency"] == 36
    assert "object_size" not in point.params, "the groups differ in it"


def test_a_point_without_groups_has_no_trace_of_them() -> None:
    (point,) = points("concurrency = 2")
    assert "group" not in point.params
    assert OBJECT.groups(point) == {}


def test_each_group_is_a_point_that_depends_on_the_others() -> None:
    own = OBJECT.groups(points()[0])
    assert list(own) == ["readers", "writers"]
    assert own["readers"].params["beside"]["writers"]["rate_requests"] == 2
    slower = OBJECT.groups(points(GROUPS.replace("rate_requests = 2", "rate_requests = 1"))[0])
    assert own["readers"].point_id != slower["readers"].point_id


def test_threads_are_not_part_of_the_work_of_a_group() -> None:
    more = GROUPS.replace("concurrency = 32", "concurrency = 32\nthreads = 3")
    plain, changed = (points(lines)[0] for lines in (GROUPS, more))
    assert plain.point_id != changed.point_id
    for one, other in zip(
        [plain, *OBJECT.groups(plain).values()],
        [changed, *OBJECT.groups(changed).values()],
        strict=True,
    ):
        assert WorkloadPoint.of(one).key != WorkloadPoint.of(other).key
        assert OBJECT.spec.compared(one.params) == OBJECT.spec.compared(other.params)


def test_a_sweep_of_the_workload_is_taken_over() -> None:
    swept = GROUPS.replace("objects = 50", "objects = 50\nget_percent = [100, 80]")
    found = points(swept)
    mixes = [
        [load.get_percent for load in ObjectParams.of(p.params).loads().values()] for p in found
    ]
    assert mixes == [[100, 0], [80, 0]]


@pytest.mark.parametrize(
    ("change", "field"),
    [
        (("concurrency = 32", "concurrency = [16, 32]"), "concurrency"),
        (('name = "writers"', 'name = "readers"'), "name"),
        (("objects = 50", "concurrency_per_operation = { get = 8 }"), "concurrency_per_operation"),
        (("concurrency = 32", "verify = true"), "verify"),
        (("concurrency = 32", 'arrival = "poisson"'), "arrival"),
        (("concurrency = 32", "list_max_keys = 5"), "list_max_keys"),
        (("objects = 50", "objects = 50\nconcurrency = 8"), "concurrency"),
        (("objects = 50", "objects = 50\nlist_max_keys = 5"), "list_max_keys"),
        (("objects = 50", 'objects = 50\nretry_backoff = "1s"'), "retry_backoff"),
        (('part_size = "16MiB"', 'part_size = "1MiB"'), "part_size"),
    ],
)
def test_what_groups_cannot_do_is_refused(change: tuple[str, str], field: str) -> None:
    lines = GROUPS.replace(*change)
    assert lines != GROUPS
    with pytest.raises(StudyError) as caught:
        points(lines)
    assert [p["where"].split(".")[-1].split()[-1] for p in caught.value.problems] == [field]


def test_jobs_of_groups_have_their_own_load_and_seed() -> None:
    jobs = jobs_of()
    readers, writers = jobs["readers"], jobs["writers"]
    assert (readers.mix.get, writers.mix.put) == (100, 100)
    assert (readers.concurrency, writers.concurrency) == (32, 4)
    assert (readers.arrival.kind, writers.arrival.rate_iops) == ("closed", 2)
    assert (readers.part_size, writers.part_size) == (None, 16 * MIB)
    assert readers.seed != writers.seed
    assert (readers.window_ns, readers.ramp_ns) == (writers.window_ns, writers.ramp_ns)
    assert readers.pool is not None and writers.pool is None


def test_groups_that_only_read_share_a_pool_and_those_that_delete_do_not() -> None:
    lines = """\
objects = 50
[[workload.group]]
name = "readers"
[[workload.group]]
name = "lists"
get_percent = 0
list_percent = 100
[[workload.group]]
name = "writers and deleters"
get_percent = 0
delete_percent = 50
"""
    jobs = jobs_of(lines)
    pools = {name: job.pool.prefix for name, job in jobs.items() if job.pool is not None}
    assert pools["readers"] == pools["lists"] != pools["writers and deleters"]
    (point,) = points(lines)
    made = [step.job for step in OBJECT.prepare([point], context(run_id=""))]
    assert {job.pool.prefix for job in made} == {*pools.values()}  # type: ignore[attr-defined]
    assert len(made) == 2
    plain = points("objects = 50\nget_percent = 90\ndelete_percent = 5")[0]
    shared = OBJECT.prepare([plain, point], context(run_id=""))
    assert len(shared) == 2, "runs one after the other share a pool, which is restored"
    clean, fill = (step.job for step in OBJECT.after(point, context()))
    assert (clean.task, fill.task) == ("clean", "fill")  # type: ignore[attr-defined]
    assert fill.pool == jobs["writers and deleters"].pool  # type: ignore[attr-defined]
    assert not OBJECT.after(points("concurrency = 1")[0], context())


def test_an_estimate_adds_up_the_groups() -> None:
    lines = GROUPS.replace("get_percent = 0", "get_percent = 50")
    estimate = OBJECT.estimate(points(lines)[0], HEADER, TARGET)
    assert estimate.bytes_written == 12 * 64 * MIB  # ramp and window, one PUT per second
    assert [data.bytes for data in estimate.data_sets] == [50 * MIB, 50 * 64 * MIB]
    # A writer keeps a connection for each of its 4 parts in flight.
    assert estimate.open_files == 32 + 4 * 4
    closed = points(GROUPS.replace("rate_requests = 2\n", ""))[0]
    assert OBJECT.estimate(closed, HEADER, TARGET).bytes_written is None


def test_warp_refuses_groups() -> None:
    (point,) = points()
    assert ENGINES["warp"].refuse(OBJECT.job(point, context())) is not None


def outcome(done: int = 20, errors: int = 0) -> RunOutcome:
    """Return an outcome of 10 s with 4,000 GETs of 1 MiB and ``done`` PUTs of 64 MiB."""

    def part(operation: str, count: int, size: int, ns: int) -> tuple[OperationTotals, Sample]:
        latency = Histogram()
        latency.record(ns, count)
        encoded = latency.to_v2()
        got = operation == "get"
        totals = OperationTotals(
            operations=count,
            bytes=count * size,
            latency=summarise_latency(encoded),
            ttfb=summarise_latency(encoded) if got else None,
            errors={} if got or not errors else {"SlowDown (503)": errors},
        )
        ttfb = encoded if got else None
        sample = Sample(
            0, 0, 10 * NS_PER_S, operation, count, count * size, encoded, ttfb=ttfb,
            errors=0 if got else errors,
        )  # fmt: skip
        return totals, sample

    gets, puts = part("get", 4000, MIB, 80_000_000), part("put", done, 64 * MIB, 500_000_000)
    return RunOutcome(
        status="finished",
        engine=EngineInfo(name="native", version="1", backend="s3"),
        window_start_ns=0,
        window_end_ns=10 * NS_PER_S,
        samples=[gets[1], puts[1]],
        totals={"get": gets[0], "put": puts[0]},
        cpu=None,
        groups={
            "readers": GroupOutcome({"get": gets[0]}, [gets[1]]),
            "writers": GroupOutcome({"put": puts[0]}, [puts[1]]),
        },
    )


def test_a_group_has_metrics_concurrency_and_flags_of_its_own() -> None:
    (point,) = points()
    run = PlannedRun(order=0, repeat=1, point_id=point.point_id)
    done = outcome(done=12, errors=3)
    record = completed_record(run, point, study(GROUPS), "2026-01-01T00:00:00Z", done)
    assert contradiction(record, 0) is None
    assert record.metric("requests_s") == pytest.approx(401.2)
    assert record.concurrency is not None
    assert record.concurrency.configured == 36
    own = OBJECT.groups(point)
    parts = {name: record.of_group(name, part.workload, part.params) for name, part in own.items()}
    readers, writers = parts["readers"], parts["writers"]
    assert readers.metric("requests_s") == pytest.approx(400)
    assert readers.metric("ttfb_mean_ns", "get") == pytest.approx(8e7, rel=0.01)
    assert readers.metric("requests_s", "put") is None
    assert writers.metric("throughput_mb_s") == pytest.approx(1.2 * 64 * MIB / 1e6)
    assert (readers.metric("errors"), writers.metric("errors")) == (0, 3)
    flags = {name: {flag.kind for flag in part.flags} for name, part in parts.items()}
    assert flags == {"readers": set(), "writers": {"errors", "open-loop-behind"}}
    of_run = {flag.kind: flag.message for flag in record.flags}
    assert set(of_run) == flags["writers"]
    assert all(message.startswith("writers: ") for message in of_run.values())
    assert parts["writers"].details == {}


def test_a_failed_run_has_the_flags_of_its_groups_but_no_results() -> None:
    (point,) = points()
    run = PlannedRun(order=0, repeat=1, point_id=point.point_id)
    failed = replace(outcome(errors=3), status="failed", failure=Failure(message="x", fix="y"))
    record = completed_record(run, point, study(GROUPS), "2026-01-01T00:00:00Z", failed)
    assert (record.metrics, record.groups) == ([], {})
    (errors,) = (flag for flag in record.flags if flag.kind == "errors")
    assert errors.message.startswith("writers: ")


def test_groups_without_deviations_have_no_flags() -> None:
    (point,) = points()
    run = PlannedRun(order=0, repeat=1, point_id=point.point_id)
    record = completed_record(run, point, study(GROUPS), "2026-01-01T00:00:00Z", outcome())
    assert record.flags == []
