"""Records of runs: interval throughput, steadiness, and seeds."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from storlab.contracts.registry import FAMILIES, study_class
from storlab.lab.plan.jobs import run_seed
from storlab.lab.run.records import completed_record, failed_record, interval_throughput
from storlab.model.point import PlannedRun, Point
from storlab.model.result import (
    CpuUse,
    EngineInfo,
    Failure,
    Operation,
    OperationTotals,
    RunOutcome,
    RunRecord,
    Sample,
)
from storlab.model.study import StudyBase

INTERVAL = 1_000_000_000
INFO = EngineInfo(name="native", version="0")


def study(**target: object) -> StudyBase:
    return study_class().model_validate(
        {
            "study": {"name": "records", "interval": "1s"},
            "target": [{"name": "t", "path": "null:", **target}],
            "workload": [{"kind": "block"}],
        }
    )


def point(of: StudyBase, **changes: object) -> Point:
    fields = {
        "target": "t",
        "workload": "block",
        "workload_index": 0,
        "kind": "block",
        "engine": "native",
        "params": of.workload[0].values()[0],
    }
    return Point.model_validate({**fields, **changes})


def outcome(megabytes: list[float], last_ns: int = INTERVAL) -> RunOutcome:
    last = len(megabytes) - 1
    kinds: tuple[Operation, ...] = ("read", "write")
    samples = [
        Sample(
            interval=number,
            start_ns=number * INTERVAL,
            end_ns=number * INTERVAL + (last_ns if number == last else INTERVAL),
            operation=operation,
            operations=1,
            bytes=round(size * 500_000),
            latency=b"",
        )
        for number, size in enumerate(megabytes)
        for operation in kinds
    ]
    return RunOutcome(
        status="finished",
        engine=INFO,
        window_start_ns=0,
        window_end_ns=len(megabytes) * INTERVAL,
        samples=samples,
        totals={},
        cpu=None,
    )


def record_of(result: RunOutcome, **target: object) -> RunRecord:
    of = study(**target)
    place = point(of)
    run = PlannedRun(order=0, repeat=1, point_id=place.point_id)
    return completed_record(run, place, of, "now", result)


def test_interval_throughput_adds_all_operations_and_scales_a_short_interval() -> None:
    result = outcome([100, 50, 30], last_ns=INTERVAL * 3 // 5)
    assert interval_throughput(result, INTERVAL) == [100, 50, 50]
    result = outcome([100, 50, 1], last_ns=INTERVAL // 10)
    assert interval_throughput(result, INTERVAL) == [100, 50]


def test_a_drifting_run_is_flagged_and_a_steady_one_is_not() -> None:
    steady = record_of(outcome([100, 102, 99, 101, 100, 100]))
    assert steady.steady is not None
    assert steady.steady["verdict"] == "steady"
    assert [flag.kind for flag in steady.flags if flag.kind == "not-steady"] == []
    drifting = record_of(outcome([100, 90, 80, 70, 60]))
    assert drifting.steady is not None
    assert drifting.steady["verdict"] == "not-steady"
    (flag,) = [flag for flag in drifting.flags if flag.kind == "not-steady"]
    assert "drifted by -50 %" in flag.message


def test_the_offered_rate_of_a_cluster_is_that_of_all_clients() -> None:
    """Check that the offered rate is multiplied by the clients."""
    of, result = study(), outcome([100] * 5)
    result.totals["read"] = OperationTotals(operations=500, bytes=1)
    place = point(of, clients=3, params={**of.workload[0].values()[0], "rate_iops": 100})
    run = PlannedRun(order=0, repeat=1, point_id=place.point_id)
    record = completed_record(run, place, of, "now", result)
    (behind,) = [flag for flag in record.flags if flag.kind == "open-loop-behind"]
    assert behind.message.startswith("100 of 300 operations per second were completed")
    assert record.params["rate_iops"] == 100


def test_a_short_run_has_no_verdict_and_no_flag() -> None:
    short = record_of(outcome([100, 10]))
    assert short.steady is not None
    assert short.steady["verdict"] == "too-short"
    assert all(flag.kind != "not-steady" for flag in short.flags)


def test_a_failed_run_has_its_reason_and_no_metrics() -> None:
    result = outcome([100] * 6)
    result.status = "failed"
    record = record_of(result)
    assert record.status == "failed"
    assert record.failure is not None
    assert record.metrics == []


def empty(**counts: Any) -> RunOutcome:
    """Return a window of 6 s with this work."""
    result = outcome([0] * 6)
    result.samples = []
    totals = {"operations": 0, "bytes": 0, **counts}
    result.totals = {"read": OperationTotals.model_validate(totals)}
    result.cpu = CpuUse(user_ns=0, system_ns=0, cores=1, longest_wait_percent=99.5)
    return result


def test_a_window_that_bytes_end_is_made_longer_by_more_of_them() -> None:
    of, result = study(), empty()
    place = point(of)
    place = place.model_copy(update={"params": {**place.params, "total_bytes": 4096}})
    run = PlannedRun(order=0, repeat=1, point_id=place.point_id)
    failure = completed_record(run, place, of, "now", result).failure
    assert failure is not None
    assert failure.fix.endswith("make total_bytes larger")


def test_a_window_without_one_operation_is_a_failed_run() -> None:
    record = record_of(empty())
    assert (record.status, record.metrics) == ("failed", [])
    assert record.failure is not None
    assert record.failure.message == (
        "no operation completed in the window of 6 s; a worker waited for a core in 99.5 % of it"
    )
    assert "storlab doctor" in record.failure.fix


@pytest.mark.parametrize(
    "counts", [{"operations": 1}, {"late_operations": 1}, {"errors": {"HTTP 500": 1}}], ids=str
)
def test_what_was_late_or_refused_was_measured(counts: dict[str, Any]) -> None:
    assert record_of(empty(**counts)).status == "finished"


def test_meters_are_said_to_be_unread() -> None:
    record = record_of(outcome([1]), meters=[{"kind": "nvme"}])
    assert any("power not measured" in note and "nvme" in note for note in record.notes)


def test_a_run_that_never_began() -> None:
    of = study()
    place = point(of)
    run = PlannedRun(order=3, repeat=2, point_id=place.point_id)
    record = failed_record(run, place, INFO, "now", Failure(message="gone", errno=19))
    assert record.run_id == run.run_id
    assert record.failure is not None
    assert record.failure.errno == 19


@pytest.mark.parametrize(
    ("kind", "name", "values"),
    [
        ("block", "backend", ("uring", "posix")),
        ("checkpoint", "writer", ("native", "torch")),
        ("checkpoint", "mtbf", (None, 10**12)),
        ("preprocess", "implementation", ("native", "polars")),
        ("training", "loader", ("native", "torch")),
    ],
)
def test_equal_work_has_equal_seeds_whoever_does_it(
    kind: str, name: str, values: tuple[Any, Any]
) -> None:
    assert name in FAMILIES[kind].spec.model_fields
    here, there = (
        point(study(), kind=kind, params={"the": "work", name: value}) for value in values
    )
    assert run_seed(1, here, 1) == run_seed(1, there, 1)


def test_the_seed_depends_on_parameters_and_repeat_only() -> None:
    of = study()
    here, there = point(of), point(of, target="other", engine="fio", workload_index=4)
    assert run_seed(1, here, 1) == run_seed(1, there, 1)
    changed = point(of, params={**here.params, "queue_depth": 77})
    seeds = {
        run_seed(1, here, 1),
        run_seed(1, here, 2),
        run_seed(2, here, 1),
        run_seed(1, changed, 1),
    }
    assert len(seeds) == 4
    assert all(0 <= seed < 1 << 63 for seed in seeds)
    assert run_seed(1, here, 1) == run_seed(1, here, 1)


def test_how_late_the_load_began_is_kept() -> None:
    late = replace(outcome([100.0] * 5), first_io_late_ns=300, last_worker_late_ns=900)
    record = record_of(late)
    assert (record.first_io_late_ns, record.last_worker_late_ns) == (300, 900)
    assert RunRecord.model_validate_json(record.model_dump_json()) == record


def test_a_record_of_a_storlab_that_did_not_know_how_late_it_was_is_read() -> None:
    fields = record_of(outcome([100.0] * 5)).model_dump()
    del fields["first_io_late_ns"], fields["last_worker_late_ns"]
    record = RunRecord.model_validate(fields)
    assert record.first_io_late_ns is None
    assert record.last_worker_late_ns is None


def test_a_run_on_stand_ins_measures_nothing() -> None:
    """Check that a run on simulators is emulated, while declared values stay declared."""
    result = outcome([100.0] * 4)
    assert record_of(result).provenance == "measured"
    facts = {"capacity": "1TB", "rack_units": 1}
    record = record_of(replace(result, details={"stand_ins": ["no driver"]}), **facts)
    assert record.provenance == "emulated"
    words = {metric.name: metric.provenance for metric in record.metrics}
    assert words["throughput_mb_s"] == "emulated"
    assert words["capacity_tb_ru"] == "declared"
    assert "measured" not in words.values()
