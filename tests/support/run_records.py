"""Run records with synthetic numbers."""

from __future__ import annotations

from storlab.model.point import PlannedRun
from storlab.model.result import EngineInfo, Failure, Flag, Metric, RunRecord, Snapshot

BINS = [[30, 1], [32, 90], [41, 9]]
SNAPSHOT = Snapshot("measure", 500, 1000, 12_345.0, 250e6, 1_500_000, 87.4, latency_bins=BINS)


def run_record(run: PlannedRun, target: str, failure: Failure | None = None) -> RunRecord:
    return RunRecord(
        run_id=run.run_id,
        point_id=run.point_id,
        repeat=run.repeat,
        target=target,
        workload="w",
        kind="block",
        params={},
        status="failed" if failure else "finished",
        failure=failure,
        engine=EngineInfo(name="native", version="0"),
        started_at="now",
        window_start_ns=0,
        window_end_ns=1,
        totals={},
        metrics=[
            Metric(name="throughput_mb_s", value=1234.5, unit="MB/s"),
            Metric(name="iops", value=56.0, unit="1/s"),
            Metric(name="latency_p99_ns", value=2_000_000, unit="ns"),
        ],
        flags=[Flag(kind="client-bound", message="m")],
    )
