"""A mean latency without histogram becomes a metric, and nothing else."""

from __future__ import annotations

import pytest

from storlab.model.result import EngineInfo, LatencySummary, OperationTotals, RunOutcome
from storlab.workloads.common import metrics as common

DATA = ("read", "write")


def outcome(**totals: OperationTotals) -> RunOutcome:
    return RunOutcome(
        status="finished",
        engine=EngineInfo(name="gdsio", version="1.12"),
        window_start_ns=0,
        window_end_ns=1_000_000_000,
        samples=[],
        totals=dict(totals),
        cpu=None,
    )


def told(operations: int, mean_ns: float | None) -> OperationTotals:
    return OperationTotals(operations=operations, bytes=operations, latency_mean_ns=mean_ns)


def test_of_one_operation_it_is_that_of_all() -> None:
    found = common.time_metrics(outcome(read=told(1000, 2e6)), DATA)
    assert {(m.name, m.operation, m.value) for m in found} == {
        ("latency_mean_ns", "read", 2e6),
        ("latency_mean_ns", "all", 2e6),
    }


def test_of_two_operations_there_is_none_of_all() -> None:
    found = common.time_metrics(outcome(read=told(1000, 2e6), write=told(500, 4e6)), DATA)
    assert [(m.name, m.operation) for m in found] == [
        ("latency_mean_ns", "read"),
        ("latency_mean_ns", "write"),
    ]


def test_it_says_how_many_were_in_flight() -> None:
    both = outcome(read=told(1000, 2e6), write=told(500, 4e6))
    assert common.implied_outstanding(both, DATA) == pytest.approx(4)
    assert common.implied_outstanding(outcome(read=told(1000, None)), DATA) is None
    assert common.time_metrics(outcome(read=told(1000, None)), DATA) == []


def test_a_mean_from_submission_on_takes_precedence_over_that_of_a_summary() -> None:
    alone = outcome(read=told(1000, 2e6))
    assert common.time_metrics(alone, DATA, "intended") == []
    percentiles = dict.fromkeys(("p50_ns", "p90_ns", "p99_ns", "p999_ns", "p9999_ns"), 3)
    summary = LatencySummary(count=1, mean_ns=3.0, min_ns=3, max_ns=3, **percentiles)
    more = told(1, 2e6).model_copy(update={"latency": summary})
    assert common.mean_latency_ns(more) == 2e6
    names = {m.name for m in common.time_metrics(outcome(read=more), DATA)}
    assert "latency_p99_ns" in names
