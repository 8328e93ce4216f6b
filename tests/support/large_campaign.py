"""Result directory with many synthetic runs, written by the real store.

Two targets in closed loop with reads and writes. Rates and latencies obey Little's law; totals,
metrics and samples of a run agree.
"""

from __future__ import annotations

import json
import math
import random
import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import Any

from storlab._native import Histogram
from storlab.contracts.registry import study_class
from storlab.model.point import Plan, PlannedRun, Point
from storlab.model.result import (
    Concurrency,
    CpuUse,
    EngineInfo,
    LatencySummary,
    Metric,
    OperationTotals,
    RunRecord,
    Sample,
)
from storlab.model.samples import summarise_latency
from storlab.results.store import ResultStore

INTERVALS = 10
INTERVAL_NS = 100_000_000
WINDOW_NS = INTERVALS * INTERVAL_NS
TARGETS = {"Disk": 1.0, "Memory": 2.7}
BLOCK_SIZES = ("4KiB", "16KiB", "64KiB", "256KiB", "1MiB")
JOBS = (1, 2, 4, 8, 16)
STUDY = """
[study]
name = {name}
repeats = {repeats}
ramp = "100ms"
runtime = "1s"
interval = "100ms"
baseline = {disk}
{header}
[[target]]
name = {disk}
{more}
path = "/var/tmp/storlab/disk.dat"
size = "1GiB"
[[target]]
name = "Memory"
path = "/dev/shm/storlab/memory.dat"
size = "1GiB"
direct = false
[[workload]]
kind = "block"
access = "random"
read_percent = {mixes}
block_size = {sizes}
jobs = {jobs}
queue_depth = {depths}
"""


def large_campaign(
    directory: Path,
    *,
    runs: int,
    repeats: int,
    draw: random.Random,
    names: tuple[str, str] = ("many runs", "Disk"),
    header: str = "",
    more: str = "",
    change: Callable[[RunRecord], RunRecord] = lambda record: record,
) -> ResultStore:
    """Create the directory: ``runs`` runs, ``repeats`` per point, two targets, a sweep of four.

    ``names`` are those of the study and its first target; ``header`` and ``more`` are extra lines
    of their tables; ``change`` edits each record before it is stored.
    """
    points = math.ceil(runs / repeats / len(TARGETS))
    depths = list(range(1, math.ceil(points / (len(BLOCK_SIZES) * len(JOBS) * 4)) + 1))
    text = study_text(
        repeats=repeats, mixes=[30, 50, 70, 90], sizes=list(BLOCK_SIZES), jobs=list(JOBS),
        depths=depths, names=names, header=header, more=more,
    )  # fmt: skip
    study = study_class().model_validate(tomllib.loads(text))
    (spec,) = study.workload
    swept = list(spec.values())[:points]
    targets = {names[1]: "Disk", "Memory": "Memory"}
    made = [
        Point(
            target=target, workload=spec.label, workload_index=0, kind=spec.kind, engine="native",
            params=params,
        )
        for params in swept
        for target in targets
    ]  # fmt: skip
    order = [(point, repeat) for repeat in range(1, repeats + 1) for point in made]
    plan = Plan(
        study_name=study.study.name,
        study_sha256="0" * 64,
        points={point.point_id: point for point in made},
        runs=[
            PlannedRun(order=place, repeat=repeat, point_id=point.point_id)
            for place, (point, repeat) in enumerate(order)
        ],
        estimated_ns=len(order) * WINDOW_NS,
        bytes_written=0,
    )
    store = ResultStore.create(directory, text, study, plan, {})
    shape = [draw.lognormvariate(-0.125, 0.5) for _ in range(200)]
    for planned, (point, _) in zip(plan.runs, order, strict=True):
        factor = TARGETS[targets[point.target]]
        record, samples = _run(point, planned, factor, shape, draw)
        store.write_run(change(record), samples, {})
    return store


def study_text(
    *,
    names: tuple[str, str] = ("many runs", "Disk"),
    header: str = "",
    more: str = "",
    **swept: Any,
) -> str:
    study, disk = map(_quoted, names)
    return STUDY.format(name=study, disk=disk, header=header, more=more, **swept)


def _quoted(text: str) -> str:
    """Return a TOML basic string, which has the same escapes as JSON."""
    return json.dumps(text).replace("\x7f", "\\u007f")


def _run(
    point: Point, planned: PlannedRun, factor: float, shape: list[float], draw: random.Random
) -> tuple[RunRecord, list[Sample]]:
    params = point.params
    block, outstanding = int(params["block_size"]), params["queue_depth"] * params["jobs"]
    rate_mb_s = factor * 1200 * (1 - math.exp(-outstanding / 9))
    iops = rate_mb_s * 1e6 / block * draw.gauss(1, 0.02)
    mean_ns = outstanding / iops * 1e9
    samples, totals, metrics = [], {}, []
    whole = Histogram()
    for operation, share in (
        ("read", params["read_percent"] / 100), ("write", 1 - params["read_percent"] / 100)
    ):  # fmt: skip
        merged, encoded = Histogram(), _histogram(mean_ns, shape, draw)
        count = Histogram.from_v2(encoded).count
        for interval in range(INTERVALS):
            start = 10**9 + interval * INTERVAL_NS
            done = max(count, round(iops * share * INTERVAL_NS / 1e9))
            samples.append(
                Sample(interval, start, start + INTERVAL_NS, operation, done, done * block, encoded)
            )
            merged.add(Histogram.from_v2(encoded))
        of_operation = [s for s in samples if s.operation == operation]
        whole.add(merged)
        summary = summarise_latency(merged.to_v2())
        totals[operation] = OperationTotals(
            operations=sum(s.operations for s in of_operation),
            bytes=sum(s.bytes for s in of_operation),
            latency=summary,
        )
        metrics += _metrics(totals[operation], summary, operation)
    every = OperationTotals(
        operations=sum(t.operations for t in totals.values()),
        bytes=sum(t.bytes for t in totals.values()),
    )
    metrics += _metrics(every, summarise_latency(whole.to_v2()), "all")
    metrics += [
        Metric(name="cpu_us_per_io", value=21.5, unit="us"),
        Metric(name="cpu_percent", value=64.0, unit="%"),
        Metric(name="concurrency_effective", value=float(outstanding), unit="1"),
    ]
    record = RunRecord(
        run_id=planned.run_id, point_id=point.point_id, repeat=planned.repeat,
        target=point.target, workload=point.workload, kind=point.kind, params=point.params,
        status="finished", engine=EngineInfo(name="native", version="0", backend="uring"),
        started_at="2026-11-20T10:00:00+00:00", window_start_ns=10**9,
        window_end_ns=10**9 + WINDOW_NS, totals=totals, metrics=metrics,
        concurrency=Concurrency(configured=outstanding, implied=float(outstanding)),
        cpu=CpuUse(user_ns=300_000_000, system_ns=400_000_000, cores=2),
    )  # fmt: skip
    return record, samples


def _histogram(mean_ns: float, shape: list[float], draw: random.Random) -> bytes:
    histogram = Histogram()
    scale = mean_ns * draw.gauss(1, 0.01)
    for part in shape:
        histogram.record(max(1, int(scale * part)))
    return histogram.to_v2()


def _metrics(totals: OperationTotals, latency: LatencySummary, operation: str) -> list[Metric]:
    seconds = WINDOW_NS / 1e9
    values = {
        "throughput_mb_s": (totals.bytes / 1e6 / seconds, "MB/s"),
        "iops": (totals.operations / seconds, "1/s"),
        "latency_mean_ns": (latency.mean_ns, "ns"),
        "latency_p50_ns": (latency.p50_ns, "ns"),
        "latency_p90_ns": (latency.p90_ns, "ns"),
        "latency_p99_ns": (latency.p99_ns, "ns"),
        "latency_p999_ns": (latency.p999_ns, "ns"),
        "latency_max_ns": (latency.max_ns, "ns"),
    }
    return [
        Metric(name=name, value=value, unit=unit, operation=operation)
        for name, (value, unit) in values.items()
    ]
