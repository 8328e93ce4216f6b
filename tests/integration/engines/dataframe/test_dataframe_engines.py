"""Output of the pandas and Polars engines equals the straightforward implementation's."""

from __future__ import annotations

import json
import os
import signal
from itertools import pairwise
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from storlab.base.clock import sleep_s
from storlab.contracts.registry import get_engine
from storlab.workloads.preprocess.job import STAGES
from support.preprocess_runs import (
    REASONS,
    assert_as_expected,
    clicks,
    expected_of,
    messy,
    order,
    outcome_of,
)

ENGINES = ("pandas", "polars")
VARIANTS: dict[str, dict[str, Any]] = {
    "keep all": {"threshold": 0, "numerical": "float32", "compression": "none"},
    "once": {"threshold": 1, "workers": 3, "part_bytes": 1 << 20, "compression": "zstd"},
    "twice": {"threshold": 2, "row_group_rows": 7, "compression": "lz4", "workers": 2},
    "modulo": {"modulo": 97, "threshold": 15, "workers": 5, "malformed_samples": 3},
    "largest modulo": {"modulo": 1 << 32, "cold": False},
}


@pytest.mark.parametrize("variant", VARIANTS)
@pytest.mark.parametrize("engine", ENGINES)
def test_every_byte_is_as_expected(tmp_path: Path, engine: str, variant: str) -> None:
    job = order(messy(tmp_path / "raw"), tmp_path / "run", **VARIANTS[variant])
    expected = expected_of(job)
    assert set(expected.by_reason) == REASONS
    outcome = outcome_of(engine, job, tmp_path / "work")
    assert_as_expected(outcome, job, expected)
    parquet = sorted((tmp_path / "run" / "parquet").rglob("*.parquet"))
    assert sum(pq.read_metadata(path).num_rows for path in parquet) == expected.rows
    largest = max(
        metadata.row_group(number).num_rows
        for metadata in map(pq.read_metadata, parquet)
        for number in range(metadata.num_row_groups)
    )
    assert largest <= job.row_group_rows


@pytest.mark.parametrize("engine", ENGINES)
def test_stages_are_accounted_for(tmp_path: Path, engine: str) -> None:
    path = clicks(tmp_path, "day_0", 500)
    job = order([path], tmp_path / "run", part_bytes=65536, threshold=2, workers=2)
    outcome = outcome_of(engine, job, tmp_path / "work")
    assert outcome.failure is None, outcome.raw["stderr.txt"]
    size = path.stat().st_size
    stages = outcome.details["stages"]
    assert tuple(stage["name"] for stage in stages) == STAGES
    assert [span.kind for span in outcome.spans] == list(STAGES)
    assert outcome.details["input_bytes"] == outcome.totals["ingest"].bytes == size
    assert outcome.totals["ingest"].operations == -(-size // 65536)
    assert outcome.totals["vocabulary"].operations == 26
    assert outcome.window_start_ns == stages[0]["start_ns"]
    assert outcome.window_end_ns == stages[-1]["end_ns"]
    for stage, later in pairwise(stages):
        assert stage["end_ns"] <= later["start_ns"]
    for stage, span in zip(stages, outcome.spans, strict=True):
        assert stage["rows"] == 500
        assert stage["input_bytes"] == span.bytes > 0
        assert stage["output_bytes"] > 0
        assert stage["peak_memory_bytes"] > 1 << 20
        assert stage["cpu_ns"] >= 0
        assert (stage["passes"], stage["resumed_parts"]) == (1, 0)
    output = sum(p.stat().st_size for p in (tmp_path / "run" / "binary").rglob("*") if p.is_file())
    assert outcome.details["output_bytes"] == output
    assert outcome.details["output"]["rows"] == 500
    assert sum(sample.operations for sample in outcome.samples) == sum(
        total.operations for total in outcome.totals.values()
    )
    assert outcome.cpu is not None
    assert outcome.engine.name == engine


@pytest.mark.parametrize("engine", ENGINES)
def test_malformed_lines_are_refused_where_the_order_says_so(tmp_path: Path, engine: str) -> None:
    paths = messy(tmp_path / "raw")
    job = order(paths, tmp_path / "run", malformed="refuse")
    expected = expected_of(job)
    outcome = outcome_of(engine, job, tmp_path / "work")
    assert outcome.status == "failed"
    assert outcome.failure is not None
    first = expected.samples[0]
    count = sum(expected.by_reason.values())
    assert str(count) in outcome.failure.message
    assert f"{first['file']}, line {first['line']}: {first['reason']}" in outcome.failure.message
    assert outcome.failure.fix == 'correct the file, or set malformed = "skip"'
    assert outcome.details["malformed"]["samples"] == expected.samples
    (ingest,) = outcome.details["stages"]
    assert ingest["input_bytes"] == sum(path.stat().st_size for path in paths)
    assert not (tmp_path / "run" / "binary").exists()


@pytest.mark.parametrize("engine", ENGINES)
def test_inputs_without_rows_fail_the_run(tmp_path: Path, engine: str) -> None:
    path = tmp_path / "nothing"
    path.write_bytes(b"\n")
    outcome = outcome_of(engine, order([path], tmp_path / "run"), tmp_path / "work")
    assert outcome.status == "failed"
    assert outcome.failure is not None
    assert "no valid rows" in outcome.failure.message
    assert str(path) in outcome.failure.message


@pytest.mark.parametrize("engine", ENGINES)
def test_a_missing_input_fails_the_run(tmp_path: Path, engine: str) -> None:
    path = tmp_path / "gone"
    outcome = outcome_of(engine, order([path], tmp_path / "run"), tmp_path / "work")
    assert outcome.status == "failed"
    assert outcome.failure is not None
    assert str(path) in outcome.failure.message


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("left", ["ingest", "vocabulary", "encode", "all"])
def test_a_run_goes_on_where_it_was_left(tmp_path: Path, engine: str, left: str) -> None:
    job = order([clicks(tmp_path, "day_0", 800)], tmp_path / "run", part_bytes=1 << 15)
    first = outcome_of(engine, job, tmp_path / "first")
    assert first.failure is None, first.raw["stderr.txt"]
    run = tmp_path / "run"
    last = sorted((run / "parquet").rglob("*.json"))[-1]
    if left != "all":
        (run / "binary").rename(run / "binary.partial")
    if left in ("ingest", "vocabulary"):
        for path in (run / "vocabulary").glob("C1*"):
            path.unlink()
    if left == "ingest":
        last.unlink()
        last.with_suffix(".parquet.partial").write_bytes(b"half")
    again = job.model_copy(update={"resume": True, "workers": 2})
    outcome = outcome_of(engine, again, tmp_path / "second")
    assert_as_expected(outcome, again, expected_of(job))
    resumed = [stage["resumed_parts"] for stage in outcome.details["stages"]]
    parts = outcome.details["stages"][0]["parts"]
    assert resumed[0] == (parts - 1 if left == "ingest" else parts)
    assert outcome.details["resumed_parts"] == sum(resumed) > 0
    assert outcome.details["input_bytes"] == Path(job.inputs[0]).stat().st_size


@pytest.mark.parametrize("engine", ENGINES)
def test_other_parameters_do_not_go_on(tmp_path: Path, engine: str) -> None:
    job = order([clicks(tmp_path, "day_0", 50)], tmp_path / "run")
    assert outcome_of(engine, job, tmp_path / "first").failure is None
    other = job.model_copy(update={"resume": True, "threshold": 3})
    outcome = outcome_of(engine, other, tmp_path / "second")
    assert outcome.failure is not None
    assert "run.json" in outcome.failure.message
    anew = other.model_copy(update={"resume": False})
    assert_as_expected(outcome_of(engine, anew, tmp_path / "third"), anew, expected_of(anew))


@pytest.mark.parametrize("engine", ENGINES)
def test_a_cancelled_run_ends_and_its_processes_with_it(tmp_path: Path, engine: str) -> None:
    path = clicks(tmp_path, "day_0", 3000)
    job = order([path] * 200, tmp_path / "run", workers=2, cold=False)
    work = tmp_path / "work"
    work.mkdir()
    going = get_engine(engine).start(job, work)
    while not list((tmp_path / "run").glob("parquet/*/*.json")):
        assert going.wait(0.05) is None
    assert going.snapshot().phase == "measure"
    going.cancel()
    outcome = going.wait(60)
    assert outcome is not None
    assert outcome.status == "cancelled"
    assert outcome.failure is None


def test_a_worker_that_is_killed_fails_the_run(tmp_path: Path) -> None:
    path = clicks(tmp_path, "day_0", 3000)
    job = order([path] * 200, tmp_path / "run", workers=2, cold=False)
    work = tmp_path / "work"
    work.mkdir()
    going: Any = get_engine("pandas").start(job, work)
    while not list((tmp_path / "run").glob("parquet/*/*.json")) or not going.trace.relatives:
        assert going.wait(0.05) is None
        sleep_s(0.05)
    os.kill(next(iter(going.trace.relatives)), signal.SIGKILL)
    outcome = going.wait(60)
    assert outcome is not None
    assert outcome.status == "failed"
    assert outcome.failure is not None
    assert "memory" in outcome.failure.fix


@pytest.mark.parametrize("engine", ENGINES)
def test_sidecars_say_what_a_part_held(tmp_path: Path, engine: str) -> None:
    path = clicks(tmp_path, "day_0", 100, wrong=0.2)
    job = order([path], tmp_path / "run", part_bytes=1 << 30)
    outcome = outcome_of(engine, job, tmp_path / "work")
    assert outcome.failure is None, outcome.raw["stderr.txt"]
    sidecar = tmp_path / "run" / "parquet" / "000-day_0" / "part-00000.json"
    document = json.loads(sidecar.read_text())
    expected = expected_of(job)
    assert (document["rows"], document["lines"]) == (expected.rows, 100)
    assert document["malformed"] == expected.by_reason
    plain = [{k: v for k, v in sample.items() if k != "file"} for sample in expected.samples]
    assert document["samples"] == [{**sample, "line": sample["line"] - 1} for sample in plain]
