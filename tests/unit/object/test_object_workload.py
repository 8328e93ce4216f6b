"""The object workload: parameters to points, points to jobs and steps."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from storlab.base.errors import StudyError
from storlab.base.units import NS_PER_S
from storlab.contracts.family import Access, JobContext, Step
from storlab.contracts.registry import FAMILIES
from storlab.lab.study.file import parse_study
from storlab.model.point import Point
from storlab.model.s3 import Credentials, S3Access, S3Options, S3Store
from storlab.model.study import Header, Target
from storlab.workloads.object.job import ObjectJob
from support.refusals import refusal

OBJECT = FAMILIES["object"]
HEADER = Header(name="s", ramp="2s", runtime="10s", settle="1s")  # type: ignore[arg-type]
TARGET = Target(name="t", s3="http://127.0.0.1:9000/bucket")
SECRET = Credentials("AKIDEXAMPLE", "a-secret-key")
STORE = S3Store(endpoints=["http://127.0.0.1:9000"], bucket="bucket", credentials=SECRET)
ACCESS = Access(s3=S3Access(store=STORE, prefix="in/storlab-abc/"))
MIB = 1 << 20


def points(lines: str) -> list[Point]:
    study = parse_study(
        '[study]\nname = "s"\n[[target]]\nname = "t"\ns3 = "http://127.0.0.1:9000/bucket"\n'
        f'[[workload]]\nkind = "object"\n{lines}'
    )
    return [
        Point(target="t", workload="w", workload_index=0, kind="object", engine="native", params=v)
        for v in study.workload[0].values()
    ]


def point(lines: str = "") -> Point:
    (single,) = points(lines)
    return single


def refused(lines: str) -> str:
    with pytest.raises(StudyError) as caught:
        points(lines)
    return "; ".join(f"{p['where'].split()[-1]}: {p['what']}" for p in caught.value.problems)


def context(run_id: str = "p1-r1", header: Header = HEADER, seed: int = 7) -> JobContext:
    return JobContext(header, TARGET, ACCESS, seed=seed, work_dir=Path("w"), run_id=run_id)


def job(lines: str = "") -> ObjectJob:
    made = OBJECT.job(point(lines), context())
    assert isinstance(made, ObjectJob)
    return made


def orders(steps: list[Step]) -> list[ObjectJob]:
    made = [step.job for step in steps]
    assert all(isinstance(order, ObjectJob) for order in made)
    return [order for order in made if isinstance(order, ObjectJob)]


def prepared(lines: str) -> list[Step]:
    return OBJECT.prepare(points(lines), context(run_id=""))


def test_the_smallest_job() -> None:
    made = job()
    assert (made.task, made.kind, made.write_prefix) == (
        "run",
        "object",
        "in/storlab-abc/run-p1-r1/",
    )
    assert (made.mix.get, made.mix.put, made.concurrency, made.lanes) == (100, 0, 16, None)
    assert made.sizes is not None
    assert [s.bytes for s in made.sizes.sizes] == [4 * MIB]
    assert made.pool is not None
    assert (made.pool.objects, made.pool.shards) == (2500, 1)
    assert made.pool.prefix.startswith("in/storlab-abc/pool-")
    assert (made.ramp_ns, made.window_ns, made.interval_ns) == (
        2 * NS_PER_S,
        10 * NS_PER_S,
        NS_PER_S,
    )
    assert (made.retries, made.backoff_ns, made.payload, made.verify) == (0, 0, "unsigned", False)
    assert made.arrival.kind == "closed"
    assert ObjectJob.model_validate_json(made.model_dump_json()).pool == made.pool


def test_every_field_of_a_study_reaches_the_job() -> None:
    made = job(
        "\n".join(
            [
                "get_percent = 40",
                "head_percent = 10",
                "list_percent = 5",
                "delete_percent = 4",
                "multi_delete_percent = 1",
                'object_size = { uniform = ["64MiB", "128MiB"] }',
                "concurrency = 6",
                "objects = 77",
                "prefixes = 3",
                'keys = "hot_cold"',
                "hot_space_percent = 20",
                "hot_access_percent = 80",
                "read_written = true",
                'part_size = "16MiB"',
                "part_concurrency = 2",
                'range_size = "1MiB"',
                "list_max_keys = 50",
                "delete_batch = 9",
                "rate_requests = 250",
                'arrival = "poisson"',
                'payload = "trailer-crc"',
                'routing = "least_busy"',
                'request_timeout = "5s"',
                "retries = 2",
                'retry_backoff = "10ms"',
                "verify = true",
                "threads = 99",
            ]
        )
    )
    assert made.mix.model_dump() == {
        "get": 40,
        "put": 40,
        "head": 10,
        "list": 5,
        "delete": 4,
        "multi_delete": 1,
    }
    assert made.sizes is not None
    assert made.pool is not None
    assert made.sizes == made.pool.sizes
    assert (made.sizes.kind, made.sizes.low, made.sizes.high) == ("uniform", 64 * MIB, 128 * MIB)
    assert (made.pool.objects, made.pool.shards) == (77, 3)
    assert (made.concurrency, made.threads) == (6, 6)  # threads without a request are useless
    assert made.keys.model_dump() == {
        "kind": "hot_cold",
        "theta": 1.1,
        "hot_space_percent": 20,
        "hot_access_percent": 80,
    }
    assert (made.join_pool, made.verify) == (True, True)
    assert (made.part_size, made.part_concurrency, made.range_size) == (16 * MIB, 2, MIB)
    assert (made.list_max_keys, made.delete_batch) == (50, 9)
    assert made.arrival.model_dump() == {"kind": "poisson", "rate_iops": 250}
    assert (made.payload, made.routing) == ("trailer-crc", "least_busy")
    assert (made.request_timeout_ns, made.drain_timeout_ns) == (5 * NS_PER_S, 5 * NS_PER_S)
    assert (made.retries, made.backoff_ns) == (2, 10_000_000)


def test_a_job_keeps_no_secret_and_hands_it_over() -> None:
    made = job()
    assert b"a-secret-key" not in made.stored()
    assert "a-secret-key" not in repr(made)
    assert made.secrets() == {"access_key": "AKIDEXAMPLE", "secret_key": "a-secret-key"}


def test_lanes_take_the_place_of_the_mix() -> None:
    made = job("concurrency_per_operation = { put = 5, get = 3 }")
    assert made.lanes == {"put": 5, "get": 3}
    assert made.concurrency == 8
    assert not any(made.mix.model_dump().values())
    assert made.pool is not None


def test_a_point_keeps_no_field_it_has_no_use_for() -> None:
    swept = points(
        'get_percent = [0, 50]\nkeys = ["uniform", "zipf"]\nzipf_theta = 0.9\nobjects = [10, 20]'
    )
    assert len(swept) == 5  # pure writes have neither keys nor a pool
    assert len({p.point_id for p in swept}) == 5
    assert swept[0].params["objects"] == 2500
    parts = points('object_size = ["4MiB", "64MiB"]\npart_size = "8MiB"\npart_concurrency = [1, 2]')
    assert [(p.params["part_size"], p.params["part_concurrency"]) for p in parts] == [
        (None, 4),
        (8 * MIB, 1),
        (8 * MIB, 2),
    ]


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        ("get_percent = 70\nput_percent = 30", "put_percent: put_percent is not a field"),
        (
            "get_percent = 70\nhead_percent = [0, 40]",
            "get_percent: get_percent 70, head_percent 40",
        ),
        ("head_percent = 1", "get_percent: get_percent 100, head_percent 1 add up to 101"),
        ("concurrency_per_operation = { gett = 1 }", '"gett" is not a kind of request'),
        ("concurrency_per_operation = {}", "concurrency_per_operation: is empty"),
        ("concurrency_per_operation = { get = 0 }", "must be at least 1"),
        (
            "concurrency_per_operation = { get = 9 }\nconcurrency = 9",
            "concurrency: conflicts with concurrency_per_operation",
        ),
        (
            "concurrency_per_operation = { get = 9 }\nget_percent = 9",
            "get_percent: conflicts with concurrency_per_operation",
        ),
        (
            "concurrency_per_operation = { get = 9 }\nrate_requests = 9",
            "rate_requests: conflicts",
        ),
        ("concurrency_per_operation = { get = 65535, put = 1 }", "adds up to 65,536"),
        ('range_size = "5MiB"', "range_size: 5MiB is more than the smallest object"),
        (
            'range_size = "5MiB"\nobject_size = { "8MiB" = 1, "1MiB" = 9 }',
            "the smallest object, 1MiB",
        ),
        ("list_percent = 1\nget_percent = 99\nobjects = 9\nprefixes = 10", "prefixes: 10 prefixes"),
        ("range_size = 0", "range_size: must be more than 0"),
        ('part_size = "5MB"', "part_size: 5MB is not between 5MiB and 5GiB"),
        ('part_size = "8MiB"', "part_size: no object is larger"),
        (
            'object_size = "60GiB"\npart_size = "5MiB"',
            "part_size: an object of 60GiB would have more than",
        ),
        ('object_size = "6GiB"', "object_size: 6GiB is more than S3 accepts in one request"),
        ('object_size = "6TiB"', "object_size: S3 objects can have at most 5TiB"),
        ("object_size = 0", "object_size: an object must have at least 1 byte"),
        ("object_size = {}", "object_size: the table of object sizes is empty"),
        ('object_size = { "4KiB" = 0 }', "a weight must be a number above 0"),
        ('object_size = { "4KiB" = 1, "4096B" = 2 }', '"4096B" is in the table twice'),
        ('object_size = { uniform = ["4KiB"] }', "uniform needs two sizes"),
        ('object_size = { uniform = ["4KiB", "4KiB"] }', "4KiB is not below 4KiB"),
        (
            'object_size = { uniform = ["1KiB", "4KiB"], "4KiB" = 1 }',
            "cannot be combined with uniform",
        ),
        ('object_size = { lognormal = { median = "1KiB" } }', "lognormal needs median, sigma, min"),
        (
            'object_size = { lognormal = { median = "1B", sigma = 1, min = "2B", max = "9B" } }',
            "median must lie between min and max",
        ),
        (
            "object_size = { lognormal = { median = 5000, sigma = 9, min = 4999, max = 5001 } }",
            "nearly all sizes of this sigma are outside",
        ),
        ("part_concurrency = 2", "part_concurrency: has no effect"),
        ("list_max_keys = 5", "list_max_keys: has no effect"),
        ("delete_batch = 5", "delete_batch: has no effect"),
        ("delete_batch = 1001\nmulti_delete_percent = 1\nget_percent = 1", "at most 1000"),
        ("get_percent = 0\nobjects = 5", "objects: has no effect"),
        ("get_percent = 0\nverify = true", "verify: has no effect"),
        ("read_written = true", "read_written: has no effect"),
        ("zipf_theta = 0.9", 'zipf_theta: belongs to keys = "zipf"'),
        ('arrival = "poisson"', "closed loop"),
        ('retry_backoff = "1s"', "retry_backoff: has no effect"),
        ('payload = "chunked"', 'payload: must be one of "unsigned"'),
    ],
)
def test_what_makes_no_sense_is_refused_with_its_field(lines: str, message: str) -> None:
    assert message in refused(lines)


@pytest.mark.parametrize(
    ("kind", "fix"), [("gett", 'did you mean "get"?'), ("copy", "use one of get, put, head")]
)
def test_for_an_unknown_kind_the_known_ones_are_named(kind: str, fix: str) -> None:
    with pytest.raises(StudyError) as caught:
        point(f"concurrency_per_operation = {{ {kind} = 1 }}")
    assert fix in caught.value.fix


def test_a_target_without_a_bucket_is_refused_with_the_fix() -> None:
    reason = refusal(OBJECT.check(point().params, Target(name="t", path="x", size=MIB)))
    assert reason is not None
    assert reason.startswith("targets: object requests need an S3 bucket")
    assert refusal(OBJECT.check(point().params, TARGET)) is None
    assert refusal(OBJECT.check(point().params, Target(name="t", s3="embedded:x"))) is None


def test_points_of_equal_pools_share_one() -> None:
    steps = prepared('get_percent = [30, 70]\nconcurrency = [4, 64]\nkeys = ["uniform", "zipf"]')
    assert [step.text for step in steps] == ["making 2,500 objects (10.5 GB)"]
    assert steps[0].total_bytes == 2500 * 4 * MIB
    (fill,) = orders(steps)
    run = job("get_percent = 30")
    assert (fill.task, fill.pool, fill.concurrency) == ("fill", run.pool, 64)
    assert (fill.retries > 0, fill.ramp_ns, fill.window_ns) == (True, 0, None)


def test_other_sizes_numbers_prefixes_or_parts_make_another_pool() -> None:
    steps = orders(
        prepared('object_size = ["1MiB", "9MiB"]\nobjects = [5, 6]\nprefixes = [1, 2]')
        + prepared('object_size = "9MiB"\nobjects = 5\npart_size = "8MiB"')
    )
    pools = [step.pool for step in steps if step.pool is not None]
    assert len({pool.prefix for pool in pools}) == len({pool.seed for pool in pools}) == 9
    assert all(pool.prefix.startswith("in/storlab-abc/pool-") for pool in pools)


def test_a_pool_is_the_same_in_every_run_and_session() -> None:
    asked = point("get_percent = 50")
    first = OBJECT.job(asked, context("p1-r1", seed=1))
    second = OBJECT.job(asked, context("p1-r2", seed=2))
    assert isinstance(first, ObjectJob)
    assert isinstance(second, ObjectJob)
    assert first.pool == second.pool
    assert first.seed != second.seed
    assert first.write_prefix != second.write_prefix
    other = OBJECT.job(asked, context(header=HEADER.model_copy(update={"seed": 9})))
    assert isinstance(other, ObjectJob)
    assert other.pool is not None
    assert first.pool is not None
    assert other.pool.seed != first.pool.seed


def test_a_point_that_only_writes_has_no_pool() -> None:
    assert prepared("get_percent = 0") == []
    assert job("get_percent = 0").pool is None
    for reader in ("get", "head", "list", "delete", "multi_delete"):
        others = "" if reader == "get" else "get_percent = 0\n"
        assert len(prepared(f"{others}{reader}_percent = 1")) == 1
    assert len(prepared("concurrency_per_operation = { put = 1, head = 1 }")) == 1


@pytest.mark.parametrize(
    ("lines", "tasks"),
    [
        ("", []),
        ("get_percent = 50", ["clean"]),
        ("get_percent = 50\ndelete_percent = 10", ["clean", "fill"]),
        ("get_percent = 50\nmulti_delete_percent = 50", ["fill"]),
        ("concurrency_per_operation = { get = 1, delete = 1 }", ["fill"]),
    ],
)
def test_after_a_run_its_traces_go_and_the_pool_is_whole(lines: str, tasks: list[str]) -> None:
    made = orders(OBJECT.after(point(lines), context()))
    assert [order.task for order in made] == tasks
    for order in made:
        if order.task == "clean":
            assert order.write_prefix == "in/storlab-abc/run-p1-r1/"
            assert order.pool is None
        else:
            assert order.pool == job(lines).pool


@pytest.mark.parametrize(
    ("lines", "count"),
    [
        ("concurrency = 2000", 2000),
        ('concurrency = 20\nget_percent = 0\npart_size = "5MiB"\nobject_size = "64MiB"', 20 * 4),
        (
            'concurrency_per_operation = { get = 100, put = 10 }\nobject_size = "64MiB"\n'
            'part_size = "5MiB"\npart_concurrency = 8',
            100 + 10 * 8,
        ),
    ],
)
def test_each_request_and_each_part_in_flight_has_a_connection(lines: str, count: int) -> None:
    assert OBJECT.estimate(point(lines), HEADER, TARGET).open_files == count
    options = S3Options(endpoints=["http://node2:9000"])
    two = Target(name="t", s3="http://127.0.0.1:9000/bucket", s3_options=options)
    assert OBJECT.estimate(point(lines), HEADER, two).open_files == 2 * count


def test_an_estimate_counts_what_is_made_before_and_what_is_known_to_be_written() -> None:
    def estimate(lines: str) -> Any:
        return OBJECT.estimate(point(lines), HEADER, TARGET)

    read = estimate("objects = 10")
    assert (read.duration_ns, read.bytes_written, read.writes) == (13 * NS_PER_S, 0, False)
    assert (read.data_bytes, read.reads, read.write_share) == (40 * MIB, True, 0)
    assert [data.objects for data in read.data_sets] == [10]
    assert estimate("get_percent = 0").data_sets == ()
    mixed = estimate('get_percent = 70\nrange_size = "2MiB"')
    assert (mixed.bytes_written, mixed.writes) == (None, True)
    assert mixed.write_share == pytest.approx(30 * 4 / (30 * 4 + 70 * 2))
    write = estimate("get_percent = 0\nrate_requests = 100")
    assert (write.bytes_written, write.data_bytes, write.reads) == (100 * 12 * 4 * MIB, 0, False)
    assert estimate("get_percent = 50\ndelete_percent = 50").writes
    sizes = estimate('object_size = { "1MiB" = 3, "5MiB" = 1 }\nobjects = 4')
    assert sizes.data_bytes == 8 * MIB


@pytest.mark.parametrize(
    ("lines", "wording"),
    [
        ("get_percent = 70", "70/30 GET/PUT"),
        ("get_percent = 100", "GETs only"),
        ("get_percent = 0", "PUTs only"),
        ("get_percent = 60\nlist_percent = 10", "60/30/10 GET/PUT/LIST"),
        ("get_percent = 33.3\ndelete_percent = 66.7", "33.3/66.7 GET/DELETE"),
        ("concurrency_per_operation = { put = 8, get = 4 }", "4 GET + 8 PUT at once"),
    ],
)
def test_the_mix_has_a_phrase(lines: str, wording: str) -> None:
    params = point(lines).params
    assert OBJECT.page.parameters.phrase("get_percent", params) == wording
    for part in ("list_percent", "delete_percent", "concurrency_per_operation"):
        assert OBJECT.page.parameters.phrase(part, params) == ""


def test_sizes_and_concurrency_have_phrases() -> None:
    def phrase(name: str, lines: str) -> str | None:
        return OBJECT.page.parameters.phrase(name, point(lines).params)

    assert phrase("concurrency", "concurrency = 4") == "concurrency 4"
    assert phrase("concurrency", "concurrency_per_operation = { get = 4 }") == ""
    assert phrase("rate_requests", "rate_requests = 50") == "50 requests/s"
    assert phrase("object_size", "") is None
    uniform = 'object_size = { uniform = ["1MiB", "8MiB"] }'
    assert phrase("object_size", uniform) == "1\u00a0MiB to 8\u00a0MiB"
    weights = 'object_size = { "4KiB" = 7, "1MiB" = 3 }'
    assert phrase("object_size", weights) == "70\u00a0% 4\u00a0KiB, 30\u00a0% 1\u00a0MiB"
    text = phrase(
        "object_size",
        'object_size = { lognormal = { median = "1MiB", sigma = 1.2, min = 1, max = "1GiB" } }',
    )
    assert text == "log-normal about 1\u00a0MiB (sigma 1.2, 1\u00a0B to 1\u00a0GiB)"
