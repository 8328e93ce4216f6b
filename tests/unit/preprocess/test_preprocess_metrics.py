"""Metrics and flags of preprocessing, from given stages."""

from __future__ import annotations

from typing import Any

import pytest

from storlab.contracts.registry import FAMILIES
from storlab.lab.study.file import parse_study
from storlab.model.point import Point
from storlab.model.result import CpuUse, EngineInfo, LatencySummary, OperationTotals, RunOutcome
from storlab.model.study import Target
from storlab.workloads.preprocess.page import PREPROCESS_PAGE

PREPROCESS = FAMILIES["preprocess"]
TARGET = Target(name="t", directory="d")
S = 1_000_000_000
RAW, PARQUET, BINARY = 2 * 10**9, 7 * 10**8, 10**9
ROWS = 8_000_000


def point(lines: str = "") -> Point:
    study = parse_study(
        '[study]\nname = "s"\n[[target]]\nname = "t"\ndirectory = "."\n'
        f'[[workload]]\nkind = "preprocess"\n{lines}'
    )
    (params,) = study.workload[0].values()
    return Point(
        target="t", workload="w", workload_index=0, kind="preprocess", engine="e", params=params
    )


def stage(name: str, start_s: float, end_s: float, **changes: Any) -> dict[str, Any]:
    fields = {
        "name": name,
        "start_ns": round(start_s * S),
        "end_ns": round(end_s * S),
        "rows": ROWS,
        "input_bytes": PARQUET,
        "output_bytes": BINARY,
        "cpu_ns": S,
        "peak_memory_bytes": 100_000_000,
        "device_read_bytes": PARQUET,
        "device_written_bytes": 0,
        "parts": 30,
        "resumed_parts": 0,
        "passes": 1,
    }
    assert changes.keys() <= fields.keys()
    return fields | changes


def stages(**ingest: Any) -> list[dict[str, Any]]:
    """Return stages of 4 s, 2 s and 3 s, with gaps of half a second."""
    first: dict[str, Any] = {
        "input_bytes": RAW,
        "cpu_ns": 6 * S,
        "device_read_bytes": RAW,
        "device_written_bytes": PARQUET,
    }
    return [
        stage("ingest", 1, 5, **(first | ingest)),
        stage("vocabulary", 5.5, 7.5, peak_memory_bytes=300_000_000),
        stage("encode", 8, 11, cpu_ns=5 * S, device_written_bytes=BINARY),
    ]


def outcome(given_stages: list[dict[str, Any]] | None = None, **details: Any) -> RunOutcome:
    each = stages() if given_stages is None else given_stages
    known = {
        "stages": each,
        "rows": ROWS,
        "lines": ROWS,
        "input_bytes": RAW,
        "output_bytes": BINARY,
        "parquet_bytes": PARQUET,
        "malformed": {"count": 0, "by_reason": {}, "samples": []},
        "resumed_parts": sum(stage["resumed_parts"] for stage in each),
        "device_counters": True,
        "memory_limit_bytes": 4 << 30,
        "peak_memory_bytes": max((stage["peak_memory_bytes"] for stage in each), default=0),
    }
    quick = LatencySummary(
        count=30,
        mean_ns=0.4 * S,
        min_ns=S // 10,
        **dict.fromkeys(("p50_ns", "p90_ns", "p99_ns", "p999_ns", "p9999_ns", "max_ns"), S),
    )
    return RunOutcome(
        status="finished",
        engine=EngineInfo(name="native", version="0"),
        window_start_ns=S,
        window_end_ns=11 * S,
        samples=[],
        totals={
            stage["name"]: OperationTotals(operations=30, bytes=stage["input_bytes"], latency=quick)
            for stage in each
        },
        cpu=CpuUse(user_ns=10 * S, system_ns=2 * S, cores=2),
        details=known | details,
    )


def named(run: RunOutcome, lines: str = "workers = 4") -> dict[str, float]:
    return {f"{m.name}.{m.operation}": m.value for m in PREPROCESS.metrics(point(lines), run)}


def flags(run: RunOutcome, lines: str = "workers = 4") -> dict[str, str]:
    return {f.kind: f.message for f in PREPROCESS.flags(point(lines), TARGET, run)}


def test_times_of_the_run_and_of_each_stage() -> None:
    found = named(outcome())
    assert found["completion_time_s.all"] == 10  # including gaps
    assert found["completion_time_s.ingest"] == 4
    assert found["completion_time_s.vocabulary"] == 2
    assert found["completion_time_s.encode"] == 3


def test_rates_are_of_rows_raw_data_and_binary_data() -> None:
    found = named(outcome())
    assert found["rows_s.all"] == ROWS / 10
    assert found["rows_s.ingest"] == ROWS / 4
    assert found["input_mb_s.all"] == 200  # of raw data
    assert found["input_mb_s.ingest"] == 500
    assert found["input_mb_s.encode"] == pytest.approx(700 / 3)  # of Parquet
    assert found["output_mb_s.all"] == 100
    assert not any(key.startswith("output_mb_s.") and key != "output_mb_s.all" for key in found)


def test_cpu_is_told_in_seconds_and_by_what_was_done() -> None:
    found = named(outcome())
    assert (found["cpu_s.all"], found["cpu_s.ingest"]) == (12, 6)
    assert found["cpu_s_per_gb.all"] == 6
    assert found["cpu_us_per_row.all"] == 1.5
    assert found["rows_s_per_core.all"] == pytest.approx(ROWS / 12)


def test_the_workers_are_busy_on_no_more_cores_than_there_are() -> None:
    found = named(outcome(), "workers = 4")
    assert found["worker_busy_percent.all"] == 60  # 12 s of 10 s x 2 cores
    assert found["worker_busy_percent.ingest"] == 75
    assert found["worker_busy_percent.vocabulary"] == 25
    single = named(outcome(), "workers = 1")
    assert single["worker_busy_percent.vocabulary"] == 50
    unknown = outcome()
    unknown.cpu = None
    assert "worker_busy_percent.all" not in named(unknown)


def test_memory_and_bytes_of_the_device() -> None:
    found = named(outcome())
    assert (found["peak_memory_mb.all"], found["peak_memory_mb.ingest"]) == (300, 100)
    assert found["device_read_mb.all"] == 2000 + 700 + 700
    assert found["device_written_mb.all"] == 700 + 1000
    assert found["device_mb_s.ingest"] == (2000 + 700) / 4
    assert found["device_mb_s.all"] == (3400 + 1700) / 10


def test_what_nobody_counted_has_no_metric() -> None:
    nobody: dict[str, Any] = {"device_read_bytes": None, "device_written_bytes": None}
    found = named(outcome([{**entry, **nobody} for entry in stages()]))
    assert not [key for key in found if key.startswith("device_")]
    part = named(outcome(stages(**nobody)))
    assert "device_read_mb.all" not in part
    assert part["device_read_mb.encode"] == 700


def test_units_stand_at_the_end_of_names() -> None:
    units = {m.name: m.unit for m in PREPROCESS.metrics(point(), outcome())}
    ends = {
        "_mb_s": "MB/s", "_mb": "MB", "_us_per_row": "us", "rows_s": "1/s", "_time_s": "s",
        "_percent": "%",
    }  # fmt: skip
    for name, unit in units.items():
        assert all(unit == wanted for end, wanted in ends.items() if name.endswith(end)), name


def test_every_quantity_of_the_page_is_a_metric_of_that_unit() -> None:
    metrics = PREPROCESS.metrics(point(), outcome())
    units = {f"{m.name}.{m.operation}": m.unit for m in metrics}
    for quantity in PREPROCESS_PAGE.metrics.quantities:
        if not quantity.power:
            assert units[quantity.key] == quantity.unit


def test_a_run_that_went_on_has_only_the_stages_that_it_did_itself() -> None:
    run = outcome(stages(resumed_parts=12))
    found = named(run)
    assert not [key for key in found if key.endswith((".all", ".ingest")) if "concurr" not in key]
    assert found["completion_time_s.encode"] == 3
    assert flags(run)["resumed"].startswith("an earlier process had finished 12 parts: this run ")
    assert "1 part: " in flags(outcome(stages(resumed_parts=1)))["resumed"]


def test_a_run_that_told_nothing_has_no_metrics() -> None:
    assert named(outcome([])) == {}
    bare = outcome([])
    bare.details = {}
    assert named(bare) == {}
    assert flags(bare) == {}


def test_concurrency_is_that_of_the_workers() -> None:
    both = PREPROCESS.concurrency(point("workers = 4"), outcome())
    assert both.configured == 4
    assert both.implied == pytest.approx(3 * 30 * 0.4 / 10)
    assert named(outcome())["concurrency_effective.all"] == both.implied


def test_malformed_lines_are_counted_by_what_is_wrong_with_them() -> None:
    reasons = {"fields": 2_000, "label": 0, "integer": 1, "category": 1_999}
    malformed = {"count": 4_000, "by_reason": reasons, "samples": []}
    flag = flags(outcome(malformed=malformed), 'malformed = "skip"')["malformed-lines"]
    assert flag == (
        "4,000 of 8,000,000 lines (0.05 %) are malformed and left out (not 40 fields: 2,000; no "
        "integer: 1; no category: 1,999)"
    )
    assert flags(outcome(malformed=malformed), 'malformed = "refuse"') == {}  # the run has failed
    assert flags(outcome()) == {}


def test_raw_data_must_have_come_from_the_device() -> None:
    served = outcome(stages(device_read_bytes=RAW // 2))
    flag = flags(served)["page-cache"]
    assert flag.startswith("the device read 50 % of the raw bytes while they were ingested")
    assert "page-cache" not in flags(outcome(stages(device_read_bytes=RAW * 9 // 10)))
    assert "cold = false" in flags(outcome(), "cold = false")["page-cache"]
    unknown = outcome(stages(device_read_bytes=None))
    assert "not counted" in flags(unknown)["page-cache"]


def test_workers_without_a_part_are_told() -> None:
    flag = flags(outcome(stages(parts=3)))["workers-idle"]
    assert flag.startswith("the raw data has 3 parts, so 1 of 4 workers had nothing to ingest")
    assert "workers-idle" not in flags(outcome(stages(parts=4)))


def test_too_little_memory_is_told() -> None:
    several = stages()
    several[1]["passes"] = 3
    flag = flags(outcome(several), 'memory = "1GiB"')["several-passes"]
    assert flag == ("memory = 1GiB is too small for one pass; passes: vocabulary 3 times")
    large = flags(outcome(peak_memory_bytes=2 * 10**9), 'memory = "1GiB"')["memory-exceeded"]
    assert large == "the stages used up to 2 GB, more than memory = 1GiB"


def test_a_client_at_its_limit_is_told() -> None:
    run = outcome()
    run.cpu = CpuUse(user_ns=19 * S, system_ns=S, cores=2)
    assert "client-bound" in flags(run)
    run.notes = ["pandas does not keep to memory"]
    assert flags(run)["engine-note"] == "pandas does not keep to memory"
