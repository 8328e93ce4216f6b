"""Export of object runs to other programs' formats."""

from __future__ import annotations

from pathlib import Path

import pytest

from storlab._native import Histogram
from storlab.base.errors import UsageError
from storlab.contracts.registry import FAMILIES
from storlab.exchange.exporters import get_format
from storlab.exchange.exporters.tidy import metrics_table, samples_table
from storlab.lab.plan.plan import make_plan
from storlab.lab.study.file import load_study
from storlab.model.result import (
    EngineInfo,
    OperationTotals,
    RunOutcome,
    RunRecord,
    Sample,
)
from storlab.results.store import ResultStore

STUDY = """
[study]
name = "objects"
repeats = 1
[[target]]
name = "store"
s3 = "https://store.example/bucket"
[[workload]]
kind = "object"
get_percent = 50
object_size = ["1MiB", { uniform = ["1KiB", "1MiB"] }]
"""


@pytest.fixture
def store(tmp_path: Path) -> ResultStore:
    path = tmp_path / "study.toml"
    path.write_text(STUDY)
    loaded = load_study(path)
    plan = make_plan(loaded)
    made = ResultStore.create(tmp_path / "result", STUDY, loaded.study, plan, {})
    histogram = Histogram()
    histogram.record(5_000_000)
    for run in plan.runs:
        point = plan.points[run.point_id]
        latency = histogram.to_v2()
        samples = [
            Sample(0, 0, 10**9, "get", 1, 1 << 20, latency, ttfb=latency, errors=2),
            Sample(0, 0, 10**9, "put", 1, 1 << 20, latency),
        ]
        outcome = RunOutcome(
            status="finished",
            engine=EngineInfo(name="native", version="0"),
            window_start_ns=0,
            window_end_ns=10**9,
            samples=samples,
            totals={
                "get": OperationTotals(operations=1, bytes=1 << 20, errors={"time-out": 2}),
                "put": OperationTotals(operations=1, bytes=1 << 20),
            },
            cpu=None,
        )
        record = RunRecord(
            run_id=run.run_id,
            point_id=run.point_id,
            repeat=run.repeat,
            target=point.target,
            workload=point.workload,
            kind=point.kind,
            params=point.params,
            status=outcome.status,
            engine=outcome.engine,
            started_at="2026-01-01T00:00:00+00:00",
            window_start_ns=0,
            window_end_ns=10**9,
            totals=outcome.totals,
            metrics=FAMILIES["object"].metrics(point, outcome),
        )
        made.write_run(record, samples, {})
    return made


def test_tables_have_errors_first_bytes_and_every_form_of_size(store: ResultStore) -> None:
    rows = metrics_table(store).to_pylist()
    assert {row["param_object_size"] for row in rows} == {
        "1048576",
        '{"uniform": ["1KiB", "1MiB"]}',
    }
    errors = [r["value"] for r in rows if (r["metric"], r["operation"]) == ("errors", "get")]
    assert errors == [2, 2]
    assert {r["operation"] for r in rows if r["metric"] == "ttfb_p99_ns"} == {"get"}
    assert samples_table(store).num_rows == 4
    for name in ("csv", "parquet"):
        for samples in (False, True):
            assert get_format(name).content(store, samples)


def test_fios_format_has_no_place_for_them_and_says_so(store: ResultStore) -> None:
    with pytest.raises(UsageError, match="only block I/O"):
        get_format("fio-json").content(store, samples=False)
