"""Shared parts of fixed work fixtures: a store with a plan, its runs, and a power meter."""

from __future__ import annotations

import random
import tomllib
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Protocol

from integration.object.object_fixture import plan_of, points_of
from storlab._native import Histogram
from storlab.contracts.registry import study_class
from storlab.lab.run.records import completed_record
from storlab.model.point import Plan, Point
from storlab.model.power import Reading, SensorInfo
from storlab.model.result import CpuUse, EngineInfo, OperationTotals, RunOutcome, Sample, Span
from storlab.model.samples import summarise_latency
from storlab.model.study import StudyBase
from storlab.power.metering import MeteredRun
from storlab.power.spans import span_power
from storlab.power.summary import SensorRun, Spans, boundary_power, summarise
from storlab.results.store import ResultStore

SECOND_NS = 1_000_000_000
START_NS = 100 * SECOND_NS
STARTED = "2026-11-20T10:00:00+00:00"
ENVIRONMENT = {
    "host": {"name": "fixture", "cpu": "Example CPU at 2.6 GHz", "cores": 16},
    "targets": {},
    "versions": {"storlab": "0.1.0"},
}


NEW, OLD = "Micron 6550 ION", "Solidigm D5-P5336"
PUBLISHED = "micron-6550-ion-ai-workloads"
HEADER = """
[study]
name = "{name}"
description = "Test fixture: the numbers are made up."
repeats = {repeats}
interval = "1s"
baseline = "{baseline}"
{header}
"""
TARGET = """
[[target]]
name = "{name}"
directory = "{directory}"
capacity = "61.44TB"
drives = 1
"""
METER = '[[target.meters]]\nkind = "nvme"\ndevice = "/dev/nvme0"\nboundary = "device"\n'
Row = tuple[int, str, int, int]
"""End on the clock, operation, bytes, and latency in ns."""
Make = Callable[[StudyBase, Point, random.Random], RunOutcome]


def study_text(
    name: str,
    workload: str,
    *,
    repeats: int,
    header: str = "",
    power: bool = True,
    baseline: str = OLD,
    directories: Mapping[str, str] | None = None,
) -> str:
    """Return a study of one workload on two SSDs, or on the targets of ``directories``."""
    places = directories or {NEW: "/mnt/new", OLD: "/mnt/old"}
    targets = [
        TARGET.format(name=target, directory=place) + (METER if power else "")
        for target, place in places.items()
    ]
    head = HEADER.format(name=name, repeats=repeats, baseline=baseline, header=header)
    return "".join([head, *targets, "\n[[workload]]\n", workload])


class Drawing(Protocol):
    """Power of a drive in W, idle and busy."""

    @property
    def idle_w(self) -> float: ...

    @property
    def busy_w(self) -> float: ...


def fill_store(
    directory: Path,
    text: str,
    make: Make,
    seed: int,
    drives: Mapping[str, Drawing] | None = None,
) -> ResultStore:
    """Create the directory with its plan and all runs, with a meter for each of ``drives``."""
    study = study_class().model_validate(tomllib.loads(text))
    plan: Plan = plan_of(study, list(points_of(study)))
    store = ResultStore.create(directory, text, study, plan, ENVIRONMENT)
    draw = random.Random(seed)
    for run in plan.runs:
        point = plan.points[run.point_id]
        outcome = make(study, point, draw)
        power: MeteredRun | None = None
        if drives is not None:
            drive = drives[point.target]
            power = metered(point.target, drive.idle_w, drive.busy_w, outcome, draw)
        record = completed_record(run, point, study, STARTED, outcome, power)
        store.write_run(record, outcome.samples, {}, [] if power is None else power.readings)
    return store


def finished(
    study: StudyBase,
    rows: list[Row],
    end_ns: int,
    spans: list[Span],
    details: dict[str, Any],
    cpu: CpuUse,
    engine: EngineInfo | None = None,
) -> RunOutcome:
    """Return a run of these operations and spans, starting at START_NS."""
    samples = times(rows, study.study.interval)
    return RunOutcome(
        status="finished",
        engine=engine or EngineInfo(name="native", version="0.1.0", backend="io_uring"),
        window_start_ns=START_NS,
        window_end_ns=end_ns,
        samples=samples,
        totals=totals_of(samples),
        cpu=cpu,
        details=details,
        spans=spans,
    )


def times(rows: list[Row], interval_ns: int) -> list[Sample]:
    """Return samples of single operations: (end on the clock, operation, bytes, latency in ns)."""
    cells: dict[tuple[int, str], tuple[Histogram, int, int]] = {}
    for end_ns, operation, size, took_ns in rows:
        place = ((end_ns - START_NS) // interval_ns, operation)
        histogram, count, moved = cells.setdefault(place, (Histogram(), 0, 0))
        histogram.record(max(took_ns, 1))
        cells[place] = (histogram, count + 1, moved + size)
    return [
        Sample(
            interval=interval,
            start_ns=START_NS + interval * interval_ns,
            end_ns=START_NS + (interval + 1) * interval_ns,
            operation=operation,
            operations=count,
            bytes=moved,
            latency=histogram.to_v2(),
            worker_cpu_ns=interval_ns // 20,
        )
        for (interval, operation), (histogram, count, moved) in sorted(cells.items())
    ]


def totals_of(samples: list[Sample]) -> dict[str, OperationTotals]:
    """Return the sums of the samples by operation."""
    totals = {}
    for operation in dict.fromkeys(sample.operation for sample in samples):
        of_operation = [sample for sample in samples if sample.operation == operation]
        merged = Histogram()
        for sample in of_operation:
            merged.add(Histogram.from_v2(sample.latency))
        totals[operation] = OperationTotals(
            operations=sum(sample.operations for sample in of_operation),
            bytes=sum(sample.bytes for sample in of_operation),
            latency=summarise_latency(merged.to_v2()),
        )
    return totals


def metered(
    target: str, idle_w: float, busy_w: float, outcome: RunOutcome, draw: random.Random
) -> MeteredRun:
    """Add a device meter read ten times a second, with higher power during spans."""
    info = SensorInfo(
        sensor=f"nvme:{target}",
        kind="nvme",
        description="power of the drive",
        boundary="device",
        supply="dc",
        sampling="instantaneous",
        unit="W",
        gain_accuracy=0.02,
        quantum=0.01,
    )
    window = (outcome.window_start_ns, outcome.window_end_ns)
    step = SECOND_NS // 10
    readings = []
    for time_ns in range(START_NS - 4 * SECOND_NS, window[1] + 4 * SECOND_NS, step):
        busy = any(span.start_ns <= time_ns < span.end_ns for span in outcome.spans)
        watts = (busy_w if busy else idle_w) * draw.gauss(1, 0.01)
        readings.append(Reading(info.sensor, time_ns, watts))
    spans = Spans(
        window,
        (START_NS - 4 * SECOND_NS, START_NS - 2 * SECOND_NS),
        (window[1] + SECOND_NS, window[1] + 3 * SECOND_NS),
    )
    run = SensorRun(info, readings, step)
    summary, line = summarise(run, spans)
    lines = {} if line is None else {info.sensor: line}
    totals = boundary_power([summary], lines, window)
    of_spans = span_power([run], [summary], lines, [(s.start_ns, s.end_ns) for s in outcome.spans])
    return MeteredRun([summary], totals, readings, [], [info.boundary], of_spans)
