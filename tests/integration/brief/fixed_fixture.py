"""What the fixtures of fixed work share: a store with a plan, its runs, and a power meter."""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path

from integration.brief.object_fixture import plan_of, points_of
from storlab._native import Histogram
from storlab.lab.metering import MeteredRun
from storlab.lab.power_summary import SensorRun, Spans, boundary_power, summarise
from storlab.lab.span_power import span_power
from storlab.lab.store import ResultStore
from storlab.model.point import Plan, PlannedRun, Point
from storlab.model.power import Reading, SensorInfo
from storlab.model.result import OperationTotals, RunOutcome, Sample
from storlab.model.samples import summarise_latency
from storlab.model.study import StudyBase

SECOND_NS = 1_000_000_000
START_NS = 100 * SECOND_NS
STARTED = "2026-11-20T10:00:00+00:00"
ENVIRONMENT = {
    "host": {"name": "fixture", "cpu": "Example CPU at 2.6 GHz", "cores": 16},
    "targets": {},
    "versions": {"storlab": "0.1.0"},
}


def create(
    directory: Path, text: str, study: StudyBase
) -> tuple[ResultStore, Iterator[tuple[PlannedRun, Point]]]:
    """The directory with its plan, and what is to be run in it."""
    plan: Plan = plan_of(study, list(points_of(study)))
    store = ResultStore.create(directory, text, study, plan, ENVIRONMENT)
    return store, ((run, plan.points[run.point_id]) for run in plan.runs)


def times(rows: list[tuple[int, str, int, int]], interval_ns: int) -> list[Sample]:
    """Samples of single operations: (end on the clock, operation, bytes, ns that it took)."""
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
    """The sums of the samples, by operation."""
    totals = {}
    for operation in dict.fromkeys(sample.operation for sample in samples):
        mine = [sample for sample in samples if sample.operation == operation]
        merged = Histogram()
        for sample in mine:
            merged.add(Histogram.from_v2(sample.latency))
        totals[operation] = OperationTotals(
            operations=sum(sample.operations for sample in mine),
            bytes=sum(sample.bytes for sample in mine),
            latency=summarise_latency(merged.to_v2()),
        )
    return totals


def metered(
    target: str, idle_w: float, busy_w: float, outcome: RunOutcome, draw: random.Random
) -> MeteredRun:
    """A meter in the device, read ten times a second; it draws more while a span lasts."""
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
