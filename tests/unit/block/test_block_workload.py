"""The block workload: parameters to points, points to jobs, outcomes to metrics and flags."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Literal

import pytest

from storlab._native import Histogram
from storlab.base.units import NS_PER_S
from storlab.contracts.family import Access, JobContext
from storlab.contracts.registry import FAMILIES
from storlab.lab.study.file import parse_study
from storlab.model.job import Member
from storlab.model.point import Point
from storlab.model.result import (
    CpuUse,
    EngineInfo,
    Flag,
    LatencySummary,
    Operation,
    OperationTotals,
    RunOutcome,
    Sample,
    VerifyReport,
)
from storlab.model.study import Header, Target
from storlab.model.types import Table
from storlab.workloads.block.job import BlockJob
from storlab.workloads.common.flags import flag_meanings
from support.refusals import refusal

BLOCK = FAMILIES["block"]
HEADER = Header(name="s", ramp="2s", runtime="10s", settle="1s")  # type: ignore[arg-type]
TARGET = Target(name="t", path="x", size=1 << 30)
GIB = 1 << 30


def points(lines: str) -> list[Point]:
    study = parse_study(
        '[study]\nname = "s"\n[[target]]\nname = "t"\npath = "x"\nsize = "1GiB"\n'
        f'[[workload]]\nkind = "block"\n{lines}'
    )
    return [
        Point(target="t", workload="w", workload_index=0, kind="block", engine="native", params=v)
        for v in study.workload[0].values()
    ]


def point(lines: str = "") -> Point:
    (single,) = points(lines)
    return single


def job(
    lines: str = "", target: Target = TARGET, size: int = GIB, header: Header = HEADER
) -> BlockJob:
    members = [Member(path="/x", name="x", kind="file", size=size, offset=4096)]
    context = JobContext(header, target, Access(members), seed=7, work_dir=Path("w"))
    made = BLOCK.job(point(lines), context)
    assert isinstance(made, BlockJob)
    return made


def test_lists_are_swept_and_their_product_taken() -> None:
    found = points('block_size = ["4KiB", "1MiB"]\njobs = [1, 2, 4]\nread_percent = [0, 50]')
    assert len(found) == 12
    assert found[0].params["block_size"] == 4096
    assert len({p.point_id for p in found}) == 12


def test_sequential_access_is_not_multiplied_by_offsets() -> None:
    found = points('access = ["random", "sequential"]\noffsets = ["uniform", "zipf"]')
    assert [p.params["offsets"] for p in found] == ["uniform", "zipf", "sequential"]


def test_a_point_keeps_its_identity_when_other_fields_change() -> None:
    assert point("jobs = 2").point_id == points("jobs = [1, 2]")[1].point_id
    assert point("jobs = 2").point_id != point("jobs = 2\nqueue_depth = 8").point_id


def test_the_smallest_job() -> None:
    made = job()
    assert made.members == [Member(path="/x", name="x", kind="file", size=GIB, offset=4096)]
    assert (made.mix.read, made.mix.write, made.mix.trim) == (100, 0, 0)
    assert (made.jobs, made.queue_depth, made.batch) == (1, 32, 1)
    assert made.offsets.kind == "uniform"
    assert made.arrival.kind == "closed"
    assert (made.ramp_ns, made.window_ns, made.window_bytes) == (2 * NS_PER_S, 10 * NS_PER_S, None)
    assert made.interval_ns == NS_PER_S
    assert (made.seed, made.direct, made.layout, made.verify) == (7, True, "jbod", None)
    assert BlockJob.model_validate_json(made.model_dump_json()) == made


def test_every_field_of_a_study_reaches_the_job() -> None:
    made = job(
        "\n".join(
            [
                'access = "random"',
                'block_size = { "64KiB" = 30, "4KiB" = 70 }',
                "read_percent = 40",
                "queue_depth = 3",
                "jobs = 5",
                "batch = 2",
                'offsets = "hot_cold"',
                "hot_space_percent = 20",
                "hot_access_percent = 80",
                "rate_iops = 1000",
                'arrival = "poisson"',
                'backend = "posix"',
                "cpus = [3, 1]",
                'sync = "fdatasync"',
                "sync_every = 8",
                "final_sync = true",
                "compress_percent = 30",
                "verify = true",
                'total_bytes = "1GiB"',
                'drain_timeout = "5s"',
            ]
        )
    )
    assert [(s.bytes, s.weight) for s in made.block_sizes] == [(65536, 30), (4096, 70)]
    assert (made.mix.read, made.mix.write) == (40, 60)
    assert (made.queue_depth, made.jobs, made.batch, made.cpus) == (3, 5, 2, [3, 1])
    assert made.offsets.model_dump() == {
        "kind": "hot_cold",
        "theta": 1.1,
        "hot_space_percent": 20,
        "hot_access_percent": 80,
    }
    assert made.arrival.model_dump() == {"kind": "poisson", "rate_iops": 1000}
    assert made.backend == "posix"
    assert made.sync.model_dump() == {"kind": "fdatasync", "every_writes": 8, "final": True}
    assert made.payload.compress_percent == 30
    assert made.verify is not None
    assert (made.verify.state, made.verify.block) == ("w/verify.state", 4096)
    assert (made.window_ns, made.window_bytes) == (None, GIB)
    assert made.drain_timeout_ns == 5 * NS_PER_S


def test_a_final_sync_alone_flushes_only_at_the_end() -> None:
    made = job("read_percent = 0\nfinal_sync = true")
    assert made.sync.model_dump() == {"kind": "fsync", "every_writes": 0, "final": True}


def test_a_rate_without_arrival_is_constant() -> None:
    assert job("rate_iops = 5.5").arrival.model_dump() == {"kind": "constant", "rate_iops": 5.5}


def test_one_sample_is_never_longer_than_the_window() -> None:
    short = Header(name="s", runtime="250ms")  # type: ignore[arg-type]
    assert job(header=short).interval_ns == NS_PER_S // 4


@pytest.mark.parametrize(
    ("lines", "offset", "size"),
    [
        ('region_start = "25%"\nregion_size = "50%"', 4096 + GIB // 4, GIB // 2),
        ('region_start = "33%"\nregion_size = "67%"', 4096 + 354_336_768, GIB - 354_336_768),
        ('region_start = "1MiB"', 4096 + (1 << 20), GIB - (1 << 20)),
        ('region_size = "8MiB"', 4096, 8 << 20),
        ('region_size = "100%"', 4096, GIB),
    ],
)
def test_a_region_narrows_each_member(lines: str, offset: int, size: int) -> None:
    (member,) = job(lines).members
    assert (member.offset, member.size) == (offset, size)


def test_a_member_too_small_for_a_block_is_refused() -> None:
    with pytest.raises(ValueError, match="a block has 4194304"):
        job('block_size = "4MiB"', size=1 << 20)


@pytest.mark.parametrize(
    ("target", "layout", "chunk"),
    [
        (Target(name="t", directory="d", size=GIB), "per_job", None),
        (Target(name="t", paths=["a", "b"]), "jbod", None),
        (
            Target(name="t", paths=["a", "b"], layout="stripe", stripe_chunk=65536),
            "stripe",
            65536,
        ),
    ],
)
def test_the_layout_comes_from_the_target(target: Target, layout: str, chunk: int | None) -> None:
    made = job(target=target)
    assert (made.layout, made.stripe_chunk) == (layout, chunk)


def test_verified_regions_and_windows_are_whole_granules() -> None:
    lines = 'read_percent = 0\nverify = true\ntotal_bytes = "5MB"\n'
    made = job(lines + 'block_size = { "96KiB" = 1, "64KiB" = 1 }\nregion_start = 1024')
    assert made.verify is not None
    assert made.verify.block == 32768
    assert (made.members[0].offset, made.members[0].size) == (32768, GIB - 32768)
    assert made.window_bytes == 5_013_504


def test_a_verified_block_may_not_cross_chunks_by_a_part() -> None:
    stripe = Target(name="t", paths=["a", "b"], layout="stripe", stripe_chunk=98304)
    verified = point('read_percent = 0\nverify = true\nblock_size = "64KiB"').params
    reason = refusal(BLOCK.check(verified, stripe))
    assert reason is not None
    assert "stripe_chunk of 96KiB" in reason
    assert refusal(BLOCK.check({**verified, "block_size": 32768}, stripe)) is None


def test_the_null_target_cannot_be_verified() -> None:
    null = Target(name="n", path="null:")
    assert refusal(BLOCK.check(point().params, null)) is None
    reason = refusal(BLOCK.check(point("read_percent = 0\nverify = true").params, null))
    assert reason is not None
    assert reason.startswith("verify:")


def test_an_estimate_says_how_long_and_whether_it_writes() -> None:
    reads = BLOCK.estimate(point(), HEADER, TARGET)
    assert (reads.duration_ns, reads.bytes_written, reads.writes) == (13 * NS_PER_S, 0, False)
    mixed = BLOCK.estimate(point("read_percent = 30\ntrim_percent = 20"), HEADER, TARGET)
    assert (mixed.bytes_written, mixed.writes) == (None, True)
    assert mixed.write_share == pytest.approx(50 / 80)
    trims = BLOCK.estimate(point("read_percent = 50\ntrim_percent = 50"), HEADER, TARGET)
    assert (trims.bytes_written, trims.writes) == (0, True)
    folder = Target(name="d", directory="d", size=GIB)
    assert BLOCK.estimate(point("jobs = 6"), HEADER, folder).layout_files == 6


@pytest.mark.parametrize(
    ("target", "count"),
    [
        (TARGET, 1 + 6),
        (Target(name="t", paths=["/a", "/b"], size=GIB), 2 + 6),
        (Target(name="d", directory="d", size=GIB), 6 + 6),
    ],
)
def test_each_file_is_open_once_and_each_job_has_a_ring(target: Target, count: int) -> None:
    assert BLOCK.estimate(point("jobs = 6"), HEADER, target).open_files == count


# Outcomes of a 2 s run: in each of two intervals, reads of 1 ms and writes of 3 ms.


def histogram(value_ns: int, count: int) -> bytes:
    filled = Histogram()
    filled.record(value_ns, count)
    return filled.to_v2()


def summary(count: int, mean_ns: float) -> LatencySummary:
    same = dict.fromkeys(
        ("min_ns", "p50_ns", "p90_ns", "p99_ns", "p999_ns", "p9999_ns", "max_ns"), int(mean_ns)
    )
    return LatencySummary(count=count, mean_ns=mean_ns, **same)


def outcome(**changes: Any) -> RunOutcome:
    samples = [
        Sample(i, i * NS_PER_S, (i + 1) * NS_PER_S, op, n, n * 4096, histogram(value_ns, n))
        for i in range(2)
        for op, n, value_ns in (
            ("read", 3000, 1_000_000),
            ("write", 1000, 3_000_000),
            ("sync", 10, 20_000_000),
        )
    ]
    totals: dict[Operation, OperationTotals] = {
        "read": OperationTotals(operations=6000, bytes=6000 * 4096, latency=summary(6000, 1e6)),
        "write": OperationTotals(operations=2000, bytes=2000 * 4096, latency=summary(2000, 3e6)),
        "sync": OperationTotals(operations=20, bytes=0, latency=summary(20, 2e7)),
    }
    made = RunOutcome(
        status="finished",
        engine=EngineInfo(name="native", version="1", backend="uring"),
        window_start_ns=0,
        window_end_ns=2 * NS_PER_S,
        samples=samples,
        totals=totals,
        cpu=CpuUse(user_ns=600_000_000, system_ns=200_000_000, cores=1),
    )
    for name, value in changes.items():
        setattr(made, name, value)
    return made


def metrics(result: RunOutcome, lines: str = "") -> dict[tuple[str, str], float]:
    found = BLOCK.metrics(point(lines), result)
    assert len({(m.name, m.operation) for m in found}) == len(found)
    return {(m.name, m.operation): m.value for m in found}


def test_rates_are_per_second_of_the_window_in_si_units() -> None:
    found = metrics(outcome())
    assert found["iops", "read"] == 3000
    assert found["iops", "write"] == 1000
    assert found["iops", "all"] == 4000
    assert found["throughput_mb_s", "read"] == pytest.approx(12.288)
    assert found["throughput_mb_s", "all"] == pytest.approx(16.384)
    assert found["iops", "sync"] > 0  # separate, and part of no sum
    assert ("iops", "trim") not in found


def test_latencies_are_of_merged_histograms_and_flushes_stand_apart() -> None:
    found = metrics(outcome())
    assert found["latency_mean_ns", "read"] == pytest.approx(1e6, rel=1e-3)
    assert found["latency_p99_ns", "write"] == pytest.approx(3e6, rel=1e-3)
    assert found["latency_max_ns", "sync"] == pytest.approx(2e7, rel=1e-3)
    # All: 6,000 reads and 2,000 writes, without flushes.
    assert found["latency_mean_ns", "all"] == pytest.approx(1.5e6, rel=1e-3)
    assert found["latency_p50_ns", "all"] == pytest.approx(1e6, rel=1e-3)
    assert found["latency_p90_ns", "all"] == pytest.approx(3e6, rel=1e-3)
    assert found["latency_max_ns", "all"] == pytest.approx(3e6, rel=1e-3)
    assert ("intended_latency_mean_ns", "all") not in found


def test_percentiles_of_intervals_are_merged_not_averaged() -> None:
    uneven = outcome()
    uneven.samples = [
        Sample(0, 0, 1, "read", 9900, 0, histogram(1_000_000, 9900)),
        Sample(1, 1, 2, "read", 100, 0, histogram(900_000_000, 100)),
    ]
    found = metrics(uneven)
    assert found["latency_p99_ns", "read"] == pytest.approx(1e6, rel=1e-3)
    assert found["latency_p999_ns", "read"] == pytest.approx(9e8, rel=1e-3)


def test_an_engine_without_samples_gives_its_summaries_and_no_mixed_percentile() -> None:
    found = metrics(outcome(samples=[]))
    assert found["latency_p99_ns", "write"] == 3e6
    assert ("latency_p99_ns", "all") not in found
    reads = outcome(samples=[])
    del reads.totals["write"]
    assert metrics(reads)["latency_p99_ns", "all"] == 1e6


def test_intended_latency_is_reported_where_it_was_taken() -> None:
    late = outcome()
    late.samples = [Sample(0, 0, 1, "read", 5, 0, histogram(1000, 5), histogram(900_000, 5))]
    found = metrics(late, "rate_iops = 10")
    assert found["intended_latency_p99_ns", "read"] == pytest.approx(900_000, rel=1e-3)
    assert found["intended_latency_p99_ns", "all"] == pytest.approx(900_000, rel=1e-3)
    assert found["latency_p99_ns", "read"] == pytest.approx(1000, rel=1e-3)


def test_client_cpu_is_user_and_system_time() -> None:
    found = metrics(outcome())
    assert found["cpu_percent", "all"] == pytest.approx(40)
    assert found["cpu_us_per_io", "all"] == pytest.approx(100)
    assert ("cpu_percent", "all") not in metrics(outcome(cpu=None))


def test_trimmed_bytes_are_not_throughput_but_their_operations_count() -> None:
    trimmed = outcome(
        totals={"trim": OperationTotals(operations=100, bytes=100 << 20, latency=summary(100, 5.0))}
    )
    found = metrics(trimmed)
    assert found["throughput_mb_s", "trim"] == pytest.approx(52.4288)
    assert found["throughput_mb_s", "all"] == 0
    assert found["iops", "all"] == 50


def test_an_empty_window_has_no_metrics() -> None:
    empty = outcome(window_end_ns=0)
    assert metrics(empty) == {}
    assert BLOCK.concurrency(point(), empty).implied is None
    assert BLOCK.flags(point("rate_iops = 5"), TARGET, empty) == []


def test_concurrency_follows_from_littles_law_without_the_flushes() -> None:
    # (6,000 x 1 ms + 2,000 x 3 ms) / 2 s = 6.
    concurrency = BLOCK.concurrency(point("queue_depth = 3\njobs = 2"), outcome())
    assert concurrency.configured == 6
    assert concurrency.implied == pytest.approx(6)
    assert metrics(outcome())["concurrency_effective", "all"] == pytest.approx(6)


def kinds(lines: str, target: Target = TARGET, **changes: Any) -> list[str]:
    return [f.kind for f in flags(lines, target, **changes)]


def flags(lines: str, target: Target = TARGET, **changes: Any) -> list[Flag]:
    return BLOCK.flags(point(lines), target, outcome(**changes))


@pytest.mark.parametrize(
    ("depth", "flagged"), [(6, False), (5, True), (7, True), (64, True)], ids=str
)
def test_a_run_is_flagged_when_concurrency_is_off_by_a_tenth(depth: int, flagged: bool) -> None:
    assert kinds(f"queue_depth = {depth}") == (["concurrency-mismatch"] if flagged else [])


def test_an_open_loop_configures_no_concurrency() -> None:
    assert kinds("queue_depth = 64\nrate_iops = 4000") == []


def cpu(
    worker_ns: int | None,
    cores: int,
    busiest: float | None = None,
    machine: float | None = None,
) -> CpuUse:
    return CpuUse(
        user_ns=1_900_000_000,
        system_ns=0,
        cores=cores,
        worker_ns=worker_ns,
        busiest_worker_percent=busiest,
        machine_busy_percent=machine,
    )


@pytest.mark.parametrize(
    ("use", "flagged"),
    [
        (cpu(1_810_000_000, 1), True),
        (cpu(1_790_000_000, 1), False),
        (cpu(1_810_000_000, 2), False),
        (cpu(None, 1), True),
        (cpu(1_810_000_000, 2, 95.0), True),
        (cpu(1_810_000_000, 2, 85.0), False),
        (cpu(200_000_000, 2, 5.0, 97.0), True),
        (cpu(200_000_000, 2, 5.0, 80.0), False),
        (None, False),
    ],
)
def test_a_busy_load_generator_is_flagged(use: CpuUse | None, flagged: bool) -> None:
    assert kinds("queue_depth = 6", cpu=use) == (["client-bound"] if flagged else [])


def test_what_the_page_cache_may_have_served_is_flagged() -> None:
    buffered = Target(name="t", path="x", direct=False)
    assert kinds("queue_depth = 6", buffered) == ["page-cache"]
    assert kinds("queue_depth = 6", Target(name="n", path="null:", direct=False)) == []


@pytest.mark.parametrize(
    ("asked", "used", "flagged"),
    [("auto", "posix", True), ("posix", "posix", False), ("auto", "uring", False)],
)
def test_threads_in_place_of_io_uring_are_flagged(
    asked: Literal["auto", "posix"], used: str, flagged: bool
) -> None:
    engine = EngineInfo(name="native", version="1", backend=used)
    flags = kinds(f'queue_depth = 6\nbackend = "{asked}"', engine=engine)
    assert flags == (["posix-fallback"] if flagged else [])


def test_bad_blocks_are_flagged_with_their_number() -> None:
    good = VerifyReport(checked_blocks=10)
    bad = VerifyReport(checked_blocks=10_000, bad_blocks={"lost": 2, "torn": 0, "stale": 1})
    assert kinds("queue_depth = 6", verify=good) == []
    (flag,) = flags("queue_depth = 6", verify=bad)
    assert flag.kind == "verify-failed"
    assert flag.message == "of 10,000 blocks checked: 2 lost, 1 stale"


def test_what_the_engine_said_stands_beside_the_numbers() -> None:
    (flag,) = flags("queue_depth = 6", notes=["one", "two"])
    assert (flag.kind, flag.message) == ("engine-note", "one; two")
    (flag,) = flags("queue_depth = 6", notes=["bad: a", *["bad: b"] * 9])
    assert flag.message == "bad: a; bad: b"
    (flag,) = flags("queue_depth = 6", notes=[f"bad: {i}" for i in range(10)])
    assert flag.message.endswith("bad: 7; and 2 more")


def test_shares_that_add_up_to_all_leave_no_writes() -> None:
    made = job("read_percent = 33.3\ntrim_percent = 66.7")
    assert made.mix.write == 0


def late(operations: int) -> dict[Operation, Table]:
    totals = dict(outcome().totals)
    totals["read"] = totals["read"].model_copy(update={"late_operations": operations})
    return {**totals}


@pytest.mark.parametrize(
    ("rate", "late_operations", "flagged"),
    # 8000 in 2 s; 1 % of the due operations, and a queue of 6.
    [(4000, 0, False), (4043, 0, False), (4050, 0, True), (4000, 87, True), (4000, 86, False)],
)
def test_an_open_loop_that_fell_behind_is_flagged(
    rate: int, late_operations: int, flagged: bool
) -> None:
    flags = kinds(f"rate_iops = {rate}\nqueue_depth = 6", totals=late(late_operations))
    assert flags == (["open-loop-behind"] if flagged else [])


@pytest.mark.parametrize(
    ("rate", "late_operations", "flagged"),
    # 8000 in 2 s; 1 % of the due operations, and 2 % that may be in flight at the end.
    [(8000, 0, True), (4130, 0, True), (4120, 0, False), (4000, 241, True), (4000, 240, False)],
)
def test_a_deep_queue_does_not_hide_an_open_loop_that_fell_behind(
    rate: int, late_operations: int, flagged: bool
) -> None:
    flags = kinds(f"rate_iops = {rate}\nqueue_depth = 8192", totals=late(late_operations))
    assert flags == (["open-loop-behind"] if flagged else [])


@pytest.mark.parametrize(
    ("number", "longest_ns", "flagged"),
    # Reads: 6,000 with a p99.9 of 1 ms, 0.1 % above it.
    [(7, 5_000_000, True), (6, 5_000_000, False), (7, 1_000_000, False), (0, 0, False)],
)
def test_operations_in_flight_at_the_end_are_flagged_if_they_can_raise_p999(
    number: int, longest_ns: int, flagged: bool
) -> None:
    totals = dict(outcome().totals)
    apart = {"unfinished_operations": number, "unfinished_longest_ns": longest_ns}
    totals["read"] = totals["read"].model_copy(update=apart)
    flags = kinds("queue_depth = 6", totals=totals)
    assert flags == (["unfinished-operations"] if flagged else [])
    meaning = flag_meanings()["unfinished-operations"]
    assert meaning.claims
    assert meaning.latencies
    assert meaning.about == ("latency_",)
