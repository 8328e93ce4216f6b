"""The rule for device saturation on cases with a known answer."""

from __future__ import annotations

from dataclasses import replace

import pytest

from storlab.model.result import CpuUse, EngineInfo, LatencySummary, OperationTotals, RunRecord
from storlab.workloads.preprocess.saturation import Saturation, Step, allowed_share, change, judge

QUIET = (0.995, 1.0, 1.005)
LOUD = (0.8, 1.0, 1.25)


def step(
    workers: int,
    time_s: float,
    busy: float | None = 95.0,
    spread: tuple[float, ...] = QUIET,
    device: float | None = 500.0,
    allowed: float = 100.0,
) -> Step:
    return Step(
        workers=workers,
        times=tuple(time_s * each for each in spread),
        busy=() if busy is None else (busy,) * len(spread),
        allowed_percent=allowed,
        device_mb_s=() if device is None else (device,) * len(spread),
        moved_mb_s=600.0,
    )


def judged(*steps: Step) -> Saturation:
    verdict, workers = judge(steps)
    return Saturation("disk", steps, verdict, workers)


def test_the_device_saturates_where_more_waiting_workers_bring_nothing() -> None:
    found = judged(
        step(1, 100), step(2, 50, 94), step(4, 26, 90), step(8, 20, 60), step(16, 20, 30),
        step(24, 19.8, 20),
    )  # fmt: skip
    assert (found.verdict, found.workers) == ("device", 8)
    assert found.text == "the device saturates at 8 workers"
    assert [found.word(each) for each in found.steps] == [
        "CPU-bound", "CPU-bound", "CPU-bound", "the device saturates", "no faster", "no faster",
    ]  # fmt: skip


def test_it_may_saturate_with_the_first_worker() -> None:
    found = judged(step(1, 20, 65), step(2, 20, 33), step(4, 20.2, 16))
    assert (found.verdict, found.workers) == ("device", 1)
    assert found.text == "the device saturates at 1 worker"


def test_busy_workers_are_bound_by_the_cpu() -> None:
    found = judged(step(1, 100), step(2, 51), step(4, 26))
    assert (found.verdict, found.text) == ("cpu", "CPU-bound at every number of workers")
    found = judged(step(1, 100, 60), step(2, 45), step(4, 24))
    assert found.text == "CPU-bound at 4 workers"


def test_more_workers_than_cores_saturate_no_device() -> None:
    # busy is a share of the available cores
    assert judged(step(1, 100), step(2, 50), step(4, 50), step(8, 50)).verdict == "cpu"


def test_a_machine_that_others_keep_busy_is_not_bound_by_the_workers_cpu() -> None:
    found = judged(*(replace(step(n, 50, 42), machine_percent=97.0) for n in (1, 2, 4)))
    assert found.verdict == "others"
    assert [found.word(each) for each in found.steps][-1] == "unknown"
    busy = judged(*(replace(step(n, 50 / n, 95), machine_percent=97.0) for n in (1, 2, 4)))
    assert busy.text == "CPU-bound at every number of workers"


def test_a_sweep_that_still_gains_is_open() -> None:
    found = judged(step(1, 100, 60), step(2, 70, 50), step(4, 50, 40))
    assert (found.verdict, found.text) == (
        "open",
        "no limit reached at 4 workers, the most measured",
    )
    assert [found.word(each) for each in found.steps] == [
        "workers wait", "workers wait", "still faster",
    ]  # fmt: skip


def test_noise_is_neither_a_gain_nor_a_saturation() -> None:
    found = judged(step(1, 20, 50, LOUD), step(2, 20, 25, LOUD), step(4, 20, 12, LOUD))
    assert found.verdict == "within noise"
    assert change((20.0, 20.1), (19.9, 20.0)) == "equivalent"
    assert change((20.0, 20.1), (15.0, 15.1)) == "better"
    assert change((20.0, 26.0), (18.0, 23.0)) == "within noise"


def test_single_runs_decide_nothing_but_that_workers_are_busy() -> None:
    found = judged(step(1, 20, 50, (1.0,)), step(4, 20, 12, (1.0,)))
    assert found.verdict == "one run"
    assert judged(step(1, 100, 95, (1.0,)), step(4, 26, 93, (1.0,))).verdict == "cpu"


def test_one_number_of_workers_tells_nothing() -> None:
    found = judged(step(4, 20, 30))
    assert (found.verdict, found.workers) == ("not swept", 4)
    assert "is unknown" in found.text
    assert judge([]) == ("not measured", None)


def test_neighbours_at_the_end_of_a_dense_sweep_are_no_plateau() -> None:
    dense = [step(workers, 100 / workers, 60) for workers in range(1, 25)]
    assert judge(dense) == ("open", 24)
    found = judged(step(23, 4.35, 60), step(24, 4.2, 60))
    assert found.verdict == "too near"


def test_what_no_device_moved_is_not_the_devices_doing() -> None:
    for device in (None, 1.0):
        found = judged(
            step(1, 40, 60), step(4, 20, 40, device=device), step(8, 20, 20, device=device)
        )
        assert (found.verdict, found.workers) == ("waiting", 4)
        assert "no device is known" in found.text


def test_workers_that_nobody_watched_are_not_said_to_wait_for_a_device() -> None:
    assert judged(step(1, 20, None), step(4, 20, None)).verdict == "waiting"


def test_parts_that_do_not_divide_evenly_leave_workers_without_work() -> None:
    # 16 parts: 12 workers need two rounds like 8, and 24 leave 8 idle
    found = judged(
        step(1, 160, 98), step(8, 20, 98), step(12, 20, 66, allowed=66.7),
        step(24, 10, 66, allowed=66.7),
    )  # fmt: skip
    assert (found.verdict, found.text) == ("parts", "too few parts for 24 workers")
    assert found.word(found.steps[-1]) == "too few parts"


def record(
    parts: int,
    cores: int,
    seconds: int = 10,
    latency: LatencySummary | None = None,
    tasks: int = 0,
) -> RunRecord:
    stage = {"name": "ingest", "start_ns": 0, "end_ns": seconds * 10**9, "parts": parts}
    stages = [{**stage, "tasks": tasks}]
    return RunRecord(
        run_id="a-r1", point_id="a", repeat=1, target="disk", workload="dlrm", kind="preprocess",
        params={}, status="finished", engine=EngineInfo(name="native", version="1"),
        started_at="2026-11-21T10:00:00+00:00", window_start_ns=0, window_end_ns=1,
        totals={"ingest": OperationTotals(operations=parts, bytes=1, latency=latency)},
        cpu=CpuUse(user_ns=1, system_ns=0, cores=cores), details={"stages": stages},
    )  # fmt: skip


@pytest.mark.parametrize(
    ("parts", "workers", "cores", "share"),
    [
        (16, 8, 64, 1.0),
        (16, 12, 64, 8 / 12),
        (16, 24, 64, 16 / 24),
        (16, 24, 8, 1.0),
        (5, 4, 4, 0.625),
    ],
)
def test_the_share_that_parts_allow(parts: int, workers: int, cores: int, share: float) -> None:
    assert allowed_share(record(parts, cores), workers) == pytest.approx(share)
    assert allowed_share(record(parts, cores), workers, "encode") == 1.0
    assert allowed_share(record(0, cores), workers) == 1.0
    assert allowed_share(record(parts, cores, seconds=0), workers) == 1.0


def test_columns_whose_parts_are_shared_out_keep_all_workers_busy() -> None:
    assert allowed_share(record(26, 64), 64) == pytest.approx(26 / 64)
    assert allowed_share(record(26, 64, tasks=960), 64) == 1.0


def lasting(mean_s: float, longest_s: float) -> LatencySummary:
    names = ("min_ns", "p50_ns", "p90_ns", "p99_ns", "p999_ns", "p9999_ns")
    rest = dict.fromkeys(names, round(mean_s * 10**9))
    return LatencySummary(count=26, mean_ns=mean_s * 10**9, max_ns=round(longest_s * 10**9), **rest)


def test_one_long_part_leaves_the_others_without_work() -> None:
    # 26 columns, one of which takes the whole 10 s stage: together they occupy 2 of 8 workers
    uneven = record(26, 64, latency=lasting(20 / 26, 10.0))
    assert allowed_share(uneven, 8) == pytest.approx(2 / 8)
    # of about equal size: the last flush does not count as a lack of parts
    even = record(26, 64, latency=lasting(0.5, 0.6))
    assert allowed_share(even, 8) == pytest.approx(26 / 4 / 8)
