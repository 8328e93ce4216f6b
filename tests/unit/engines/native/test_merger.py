"""Sums over clients, on the controller's clock."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from storlab import _native
from storlab.model.result import OperationTotals, Sample
from storlab.workloads.block.job import BlockJob

SECOND = 1_000_000_000
MS = 1_000_000
Row = tuple[Any, ...]


def histogram(*values: int) -> bytes:
    made = _native.Histogram()
    for value in values:
        made.record(value)
    return made.to_v2()


def client(start_ns: int, seconds: int, *latencies: int) -> tuple[int, int, list[Row]]:
    rows: list[Row] = [
        (
            number,
            start_ns + number * SECOND,
            start_ns + (number + 1) * SECOND,
            operation,
            len(latencies),
            4096 * len(latencies),
            histogram(*latencies),
            None,
            5 if operation == "read" else 0,
            None,
            0,
        )
        for number in range(seconds)
        for operation in ("read", "write")
    ]
    return start_ns, start_ns + seconds * SECOND, rows


def test_clients_are_summed_on_the_controllers_clock() -> None:
    merger = _native.Merger(SECOND)
    merger.add(
        [
            ("a", 5 * SECOND, *client(105 * SECOND, 3, 1000, 2000)),
            ("b", -7 * SECOND, *client(93 * SECOND + 4 * MS, 3, 3000)),
        ]
    )
    text, rows = merger.finish()
    merged = json.loads(text)
    assert merged["window_start_ns"] == 100 * SECOND + 4 * MS
    assert merged["window_end_ns"] == 103 * SECOND
    assert merged["kept_share"] == pytest.approx(1 - 0.004 / 3)
    assert (merged["clients"], merged["left_out"]) == (2, 0)
    samples = [Sample(*row) for row in rows]
    assert [(s.interval, s.operation) for s in samples] == [
        (number, operation) for number in range(3) for operation in ("read", "write")
    ]
    assert samples[0].start_ns == merged["window_start_ns"]
    assert samples[-1].end_ns == merged["window_end_ns"]
    assert all(s.operations == 3 and s.bytes == 3 * 4096 for s in samples)
    assert [s.worker_cpu_ns for s in samples] == [10, 0] * 3
    assert samples[0].latency == histogram(1000, 2000, 3000)
    totals = OperationTotals.model_validate(merged["totals"]["read"])
    assert totals.operations == 9
    assert totals.latency is not None
    assert totals.latency.count == 9


def test_a_run_of_the_engine_is_its_own_sum(tmp_path: Path) -> None:
    job = BlockJob.model_validate(
        {
            "members": [{"path": "null:", "name": "null", "kind": "null", "size": 1 << 20}],
            "direct": False,
            "jobs": 1,
            "queue_depth": 1,
            "mix": {"read": 70, "write": 30},
            "block_sizes": [{"bytes": 4096}],
            "offsets": {"kind": "uniform"},
            "window_ns": 50_000_000,
            "interval_ns": 20_000_000,
        }
    )
    run = _native.Run(job.kind, job.model_dump_json())
    assert run.wait(60)
    text, rows = run.outcome()
    outcome = json.loads(text)
    for totals in outcome["totals"].values():  # random, and missing in rows
        totals |= {"unfinished_operations": 0, "unfinished_longest_ns": 0}
    window = outcome["window_start_ns"], outcome["window_end_ns"]
    merger = _native.Merger(job.interval_ns)
    merger.add([("alone", 0, *window, rows)])
    text, merged_rows = merger.finish()
    merged = json.loads(text)
    assert merged_rows == rows
    assert merged["totals"] == outcome["totals"]
    assert (merged["window_start_ns"], merged["window_end_ns"]) == window


def test_what_cannot_be_added_is_refused() -> None:
    merger = _native.Merger(SECOND)
    start_ns, end_ns, rows = client(100 * SECOND, 1, 1000)
    merger.add([("a", 0, start_ns, end_ns, rows)])
    with pytest.raises(ValueError, match="added before"):
        merger.add([("a", 0, start_ns, end_ns, rows)])
    with pytest.raises(ValueError, match="ends before it begins"):
        merger.add([("b", 0, end_ns, start_ns, rows)])
    broken: list[Row] = [(*rows[0][:6], b"none", *rows[0][7:])]
    with pytest.raises(ValueError, match="HdrHistogram"):
        merger.add([("c", 0, start_ns, end_ns, broken)])
    with pytest.raises(ValueError, match="interval"):
        _native.Merger(0)
