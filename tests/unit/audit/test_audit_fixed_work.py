"""The audit's recomputation of fixed work: times from the spans of a run."""

from __future__ import annotations

from typing import Any

from storlab.audit.fixed_work import completion_time_s
from storlab.model.result import EngineInfo, RunRecord, Span

S = 1_000_000_000


def record(resumed: tuple[str, ...] = (), kind: str = "preprocess") -> RunRecord:
    names = ("ingest", "vocabulary", "encode")
    stages = [{"name": name, "resumed_parts": int(name in resumed)} for name in names]
    about: dict[str, Any] = {"run_id": "r", "point_id": "p", "repeat": 1, "target": "t"}
    return RunRecord(
        **about,
        workload="w",
        kind=kind,
        params={},
        status="finished",
        engine=EngineInfo(name="native", version="0"),
        started_at="2026-11-20T10:00:00+00:00",
        window_start_ns=0,
        window_end_ns=20 * S,
        totals={},
        details={"stages": stages},
        spans=[
            Span(kind=name, name=name, start_ns=start * S, end_ns=end * S, bytes=1)
            for name, start, end in zip(names, (1, 5, 8), (4, 7, 11), strict=True)
        ],
    )


def test_a_completion_time_is_that_of_its_spans() -> None:
    assert completion_time_s("ingest", record()) == 3
    assert completion_time_s("all", record()) == 10  # including gaps
    assert completion_time_s("epoch", record()) is None


def test_what_an_earlier_process_began_has_none() -> None:
    resumed = record(resumed=("ingest",))
    assert completion_time_s("ingest", resumed) is None
    assert completion_time_s("all", resumed) is None
    assert completion_time_s("encode", resumed) == 3
