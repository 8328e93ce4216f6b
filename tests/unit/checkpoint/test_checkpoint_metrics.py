"""The checkpoint workload: runs to metrics and flags."""

from __future__ import annotations

from typing import Any

import pytest

from storlab.base.units import NS_PER_S
from storlab.model.result import (
    CpuUse,
    EngineInfo,
    Failure,
    LatencySummary,
    OperationTotals,
    RunOutcome,
)
from storlab.model.study import Target
from storlab.workloads.checkpoint.interval import daly_interval, share_lost_with_failures
from support.checkpoint_points import BUCKET, CHECKPOINT, GB, PROFILE, TARGET, order, point
from support.refusals import refusal


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
    """Check that pauses in the window are excluded from throughput."""
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
    """Check that training's loss refers to the full checkpoint, not the scaled-down one."""
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
    assert CHECKPOINT.page.load.workers_of(params) == 4
    assert CHECKPOINT.page.load.workers_of({**params, "profile": "gone.toml"}) == 0


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
    assert page.parameters.phrase("scale", params) == "scaled to 1 %"
    assert page.parameters.phrase("subset", params) == "first 4 ranks"
    assert page.parameters.is_relevant("verify", params)
    assert not page.parameters.is_relevant("pause", params)
    assert not page.parameters.is_relevant("mtbf", params)
