"""Result directory with synthetic but plausible runs, for tests of comparison and brief.

Two targets in closed loop: a disk that saturates early, and memory that is limited by the client's
CPU. Rates and latencies obey Little's law; every run is stored through the real store.
"""

from __future__ import annotations

import math
import random
import tomllib
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

from storlab._native import Histogram
from storlab.contracts.registry import study_class
from storlab.model.point import Plan, PlannedRun, Point
from storlab.model.result import (
    Concurrency,
    CpuUse,
    EngineInfo,
    Failure,
    Flag,
    LatencySummary,
    Metric,
    Operation,
    OperationTotals,
    RunRecord,
    Sample,
)
from storlab.results.store import ResultStore

BEGAN = datetime(2026, 11, 20, 10, tzinfo=UTC)
WINDOW_NS = 1_200_000_000
INTERVAL_NS = 100_000_000
STUDY = """
[study]
name = "Disk and memory of one machine"
description = "Test fixture: the numbers are made up."
repeats = {repeats}
ramp = "300ms"
runtime = "1200ms"
interval = "100ms"
baseline = "Memory"

[[target]]
name = "Disk"
path = "/var/tmp/storlab/disk.dat"
size = "1GiB"
capacity = "245.76TB"
drives = 1
rack_units = 0.25

[[target]]
name = "Memory"
path = "/dev/shm/storlab/memory.dat"
size = "512MiB"
direct = false

[[workload]]
kind = "block"
name = "{workload}"
access = "random"
block_size = ["256KiB", "4MiB"]
read_percent = {mixes}
queue_depth = 16
jobs = [1, 2, 4, 8]
use_case = [{use_cases}]
"""
USE_CASES = {
    30: (("Logging, moderate ingest", "256KiB"), ("Large-file ingest", "4MiB")),
    50: (("General-purpose server", "256KiB"), ("Media processing", "4MiB")),
    70: (("Analytics, reporting", "256KiB"), ("Streaming, restoring backups", "4MiB")),
    90: (("Content delivery, caching", "256KiB"), ("Content delivery, caching", "4MiB")),
}
ENVIRONMENT = {
    "host": {
        "name": "fixture",
        "cpu": "Example CPU at 2.6 GHz",
        "cores": 2,
        "memory_bytes": 8 << 30,
    },
    "kernel": {"release": "6.1.0", "io_uring": True},
    "targets": {
        "Disk": {"file_system": "ext4", "model": "Example NVMe 1", "scheduler": "none"},
        "Memory": {"file_system": "tmpfs"},
    },
    "versions": {"storlab": "0.1.0", "python": "3.11"},
}


@dataclass(frozen=True)
class Behaviour:
    """Performance of one target: throughput limit in MB/s by block size, and noise."""

    limit_mb_s: dict[int, float]
    knee_outstanding: float
    noise: float
    tail: float  # sigma of the log-normal latency

    def at(self, factor: float) -> Behaviour:
        """Return the target with its throughput multiplied by a factor."""
        limits = {size: factor * rate for size, rate in self.limit_mb_s.items()}
        return replace(self, limit_mb_s=limits)


BEHAVIOURS = {
    "Disk": Behaviour({262144: 1180.0, 4194304: 1420.0}, 9.0, 0.03, 0.55),
    "Memory": Behaviour({262144: 3900.0, 4194304: 4600.0}, 20.0, 0.02, 0.25),
}


def build_store(
    directory: Path,
    *,
    repeats: int = 3,
    mixes: tuple[int, ...] = (30, 50, 70, 90),
    fail: int = 0,
    stop_after: int | None = None,
    seed: int = 5,
    names: tuple[str, str] = ("Disk", "Memory"),
    workload: str = "block",
    states: Sequence[float] = (),
    alone: bool = False,
) -> ResultStore:
    """Create the directory and its runs.

    Args:
        directory: Result directory.
        fail: Number of runs that fail.
        stop_after: Runs after which the campaign ends.
        names: Names of the two targets, the disk's first.
        workload: Name of the workload.
        alone: Whether the disk is the only target.
        states: Factors of the disk's rate by repeat, as with burst credits that run out.
    """
    cases = ",".join(
        f'{{ name = "{name}", match = {{ read_percent = {mix}, block_size = "{size}" }} }}'
        for mix in mixes
        for name, size in USE_CASES.get(mix, ())
    )
    text = STUDY.format(repeats=repeats, mixes=list(mixes), use_cases=cases, workload=workload)
    if alone:
        study_table, disk, _, work = text.split("\n[[")
        study_table = study_table.replace('baseline = "Memory"\n', "")
        text = "\n[[".join([study_table, disk, work])
    behaviours = {}
    for plain, name in zip(("Disk", "Memory"), names, strict=True):
        text = text.replace(f'"{plain}"', f'"{name}"')
        behaviours[name] = BEHAVIOURS[plain]
    study = study_class().model_validate(tomllib.loads(text))
    points = [
        Point(
            target=target.name,
            workload=spec.label,
            workload_index=index,
            kind=spec.kind,
            engine="native",
            params=params,
        )
        for index, spec in enumerate(study.workload)
        for params in spec.values()
        for target in study.target
    ]
    runs = [(point, repeat) for repeat in range(1, repeats + 1) for point in points]
    plan = Plan(
        study_name=study.study.name,
        study_sha256="0" * 64,
        points={point.point_id: point for point in points},
        runs=[
            PlannedRun(order=i, repeat=repeat, point_id=point.point_id)
            for i, (point, repeat) in enumerate(runs)
        ],
        estimated_ns=len(runs) * 1_900_000_000,
        bytes_written=0,
    )
    store = ResultStore.create(directory, text, study, plan, dict(ENVIRONMENT))
    draw = random.Random(seed)
    for number, (planned, (point, _)) in enumerate(zip(plan.runs, runs, strict=True)):
        if stop_after is not None and number >= stop_after:
            break
        if number < fail:
            record, samples = failed_run(point, planned)
        else:
            like = behaviours[point.target]
            if states and like is BEHAVIOURS["Disk"]:
                like = like.at(states[planned.repeat - 1])
            record, samples = finished_run(point, planned, draw, like)
        store.write_run(record, samples, {})
    return store


def failed_run(point: Point, planned: PlannedRun) -> tuple[RunRecord, list[Sample]]:
    """Return a run that failed because of a bad sector."""
    failure = Failure(
        message="read failed: EIO (Input/output error) at offset 4194304",
        fix="look at the kernel log",
        errno=5,
        errno_name="EIO",
        operation="read",
        offset=4194304,
        path="/var/tmp/storlab/disk.dat",
    )
    record = _record(point, planned, status="failed", failure=failure, totals={})
    return record, []


def finished_run(
    point: Point, planned: PlannedRun, draw: random.Random, like: Behaviour | None = None
) -> tuple[RunRecord, list[Sample]]:
    """Return a finished run on a target that behaves as its name says, or like another."""
    behaviour = like or BEHAVIOURS[point.target]
    params = point.params
    block = int(params["block_size"])
    outstanding = params["queue_depth"] * params["jobs"]
    saturation = 1 - math.exp(-outstanding / behaviour.knee_outstanding)
    write_cost = 1 + (100 - params["read_percent"]) / 250
    rate_mb_s = behaviour.limit_mb_s[block] * saturation / write_cost
    rate_mb_s *= draw.gauss(1, behaviour.noise)
    iops = rate_mb_s * 1e6 / block
    # memory at 8 jobs is client-bound: fewer operations outstanding than requested
    is_bound = behaviour is BEHAVIOURS["Memory"] and params["jobs"] == 8
    effective = outstanding * (0.8 if is_bound else 0.99)
    samples = _samples(point, draw, iops, effective / iops * 1e9, behaviour.tail)
    return _summarise(point, planned, samples, effective, outstanding), samples


def _samples(
    point: Point, draw: random.Random, iops: float, mean_ns: float, tail: float
) -> list[Sample]:
    block, read = int(point.params["block_size"]), point.params["read_percent"] / 100
    rows = []
    for interval in range(WINDOW_NS // INTERVAL_NS):
        for operation, share, slower in (("read", read, 1.0), ("write", 1 - read, 1.25)):
            count = round(iops * share * INTERVAL_NS / 1e9 * draw.gauss(1, 0.04))
            histogram = Histogram()
            centre = math.log(mean_ns * slower / (read + 1.25 * (1 - read))) - tail**2 / 2
            for _ in range(count):
                histogram.record(max(1, int(draw.lognormvariate(centre, tail))))
            rows.append(
                Sample(
                    interval,
                    1_000_000_000 + interval * INTERVAL_NS,
                    1_000_000_000 + (interval + 1) * INTERVAL_NS,
                    operation,  # type: ignore[arg-type]
                    count,
                    count * block,
                    histogram.to_v2(),
                    None,
                    2_000_000,
                )
            )
    return rows


def _summarise(
    point: Point, planned: PlannedRun, samples: list[Sample], effective: float, outstanding: int
) -> RunRecord:
    totals: dict[Operation, OperationTotals] = {}
    metrics: list[Metric] = []
    everything = Histogram()
    for operation in ("read", "write"):
        merged = Histogram()
        of_operation = [s for s in samples if s.operation == operation]
        for sample in of_operation:
            merged.add(Histogram.from_v2(sample.latency))
        everything.add(merged)
        moved = sum(s.bytes for s in of_operation)
        totals[operation] = OperationTotals(
            operations=merged.count, bytes=moved, latency=_latency(merged) if merged.count else None
        )
        metrics += _rates(merged.count, moved, operation) + _latencies(merged, operation)
    total = sum(t.bytes for t in totals.values())
    metrics += _rates(everything.count, total, "all") + _latencies(everything, "all")
    metrics.append(Metric(name="cpu_us_per_io", value=21.5, unit="us"))
    metrics.append(Metric(name="cpu_percent", value=64.0, unit="%"))
    metrics.append(Metric(name="concurrency_effective", value=effective, unit="1"))
    flags = []
    if effective < 0.9 * outstanding:
        flags = [
            Flag(
                kind="concurrency-mismatch",
                message=f"{outstanding} outstanding were configured, "
                f"and Little's law implies {effective:.1f}",
            ),
            Flag(kind="client-bound", message="the workers used 97 % of their cores"),
        ]
    return _record(
        point,
        planned,
        totals=totals,
        metrics=metrics,
        flags=flags,
        concurrency=Concurrency(configured=outstanding, implied=effective),
        cpu=CpuUse(user_ns=300_000_000, system_ns=400_000_000, cores=2),
    )


def _rates(operations: int, moved: int, operation: str) -> list[Metric]:
    seconds = WINDOW_NS / 1e9
    return [
        Metric(
            name="throughput_mb_s", value=moved / 1e6 / seconds, unit="MB/s", operation=operation
        ),  # type: ignore[arg-type]
        Metric(name="iops", value=operations / seconds, unit="1/s", operation=operation),  # type: ignore[arg-type]
    ]


def _latencies(histogram: Histogram, operation: str) -> list[Metric]:
    if not histogram.count:
        return []
    values = {"mean": histogram.mean_ns, "max": histogram.max_ns}
    values |= {
        f"p{name}": histogram.percentile(p)
        for name, p in (("50", 50.0), ("90", 90.0), ("99", 99.0), ("999", 99.9))
    }
    return [
        Metric(name=f"latency_{name}_ns", value=value, unit="ns", operation=operation)  # type: ignore[arg-type]
        for name, value in values.items()
    ]


def _latency(h: Histogram) -> LatencySummary:
    return LatencySummary(
        count=h.count,
        mean_ns=h.mean_ns,
        min_ns=h.min_ns,
        p50_ns=h.percentile(50),
        p90_ns=h.percentile(90),
        p99_ns=h.percentile(99),
        p999_ns=h.percentile(99.9),
        p9999_ns=h.percentile(99.99),
        max_ns=h.max_ns,
        stdev_ns=h.stdev_ns,
    )


def _record(point: Point, planned: PlannedRun, **more: object) -> RunRecord:
    fields: dict[str, object] = {
        "run_id": planned.run_id,
        "point_id": point.point_id,
        "repeat": planned.repeat,
        "target": point.target,
        "workload": point.workload,
        "kind": point.kind,
        "params": point.params,
        "status": "finished",
        "engine": EngineInfo(name="native", version="0.1.0", backend="uring"),
        "started_at": (BEGAN + timedelta(seconds=2 * planned.order)).isoformat(),
        "window_start_ns": 1_000_000_000,
        "window_end_ns": 1_000_000_000 + WINDOW_NS,
        "totals": {},
        **more,
    }
    return RunRecord.model_validate(fields)
