"""Object campaign with synthetic but consistent runs, stored like a real one.

Every run is an outcome with histograms, from which the lab's own code makes metrics, flags, power
and record. Rates and latencies obey Little's law; the HDDs refuse some of the PUTs.
"""

from __future__ import annotations

import math
import random
import tomllib
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from integration.brief.brief_fixture import finished_run
from storlab._native import Histogram
from storlab.contracts.registry import study_class
from storlab.lab.run.records import completed_record
from storlab.model.point import Plan, PlannedRun, Point
from storlab.model.power import Boundary, Reading, SensorInfo
from storlab.model.result import CpuUse, EngineInfo, OperationTotals, RunOutcome, RunRecord, Sample
from storlab.model.samples import summarise_latency
from storlab.model.study import StudyBase
from storlab.power.metering import MeteredRun
from storlab.power.summary import SensorRun, Spans, boundary_power, summarise
from storlab.results.store import ResultStore
from storlab.workloads.object.sizes import mean_size

SSD, HDD = "1x SSD", "16x HDD"
WARP = "micron-6600-ion-vs-16-hdd-minio-warp"
SECOND_NS = 1_000_000_000
START_NS = 100 * SECOND_NS
WINDOW_S = 6
OPERATIONS = ("get", "put")
STUDY = """
[study]
name = "One SSD against 16 HDDs as object storage"
description = "Test fixture: the numbers are made up."
repeats = {repeats}
ramp = "1s"
runtime = "{window}s"
baseline = "16x HDD"
{header}

[[target]]
name = "1x SSD"
s3 = "{ssd}"
capacity = "245.76TB"
drives = 1
rack_units = 0.25

[[target]]
name = "16x HDD"
s3 = "https://hdd.example:9000/bench"
capacity = "256TB"
drives = 16
rack_units = 2

[[workload]]
kind = "object"
name = "mixed GET and PUT"
targets = ["1x SSD", "16x HDD"]
get_percent = {mixes}
object_size = {sizes}
concurrency = {concurrency}
use_case = [{use_cases}]
{more}
"""
BLOCK = """
[[target]]
name = "Disk"
path = "/var/tmp/storlab/disk.dat"
size = "1GiB"
capacity = "10TB"

[[target]]
name = "Memory"
path = "/dev/shm/storlab/memory.dat"
size = "512MiB"
direct = false

[[workload]]
kind = "block"
targets = ["Disk", "Memory"]
block_size = "256KiB"
read_percent = [30, 70]
queue_depth = 16
jobs = [1, 4]
use_case = [{ name = "Logging", match = { read_percent = 30 } }]
"""
"""Text that makes the study one of two families."""
USE_CASES = {
    30: "Backup, ingest",
    50: "General-purpose store",
    70: "Analytics, data lake",
    90: "Content delivery",
}


@dataclass(frozen=True)
class Behaviour:
    """Performance of a store with 4 MiB objects, and its power at the wall."""

    limit_mb_s: float
    put_cost: float  # latency of a PUT relative to a GET
    tail: float  # sigma of the log-normal latency
    first_byte: float  # share of a GET's latency before its first byte
    noise: float
    refused: float  # share of PUTs answered with an error
    idle_w: float
    j_mb: float


BEHAVIOURS = {
    SSD: Behaviour(3600.0, 1.9, 0.35, 0.3, 0.015, 0.0, 9.0, 0.0042),
    HDD: Behaviour(410.0, 2.6, 0.7, 0.72, 0.05, 0.08, 96.0, 0.11),
}
BOUNDARIES: dict[str, Boundary] = {SSD: "wall", HDD: "wall"}


def build_object_store(
    directory: Path,
    *,
    repeats: int = 3,
    mixes: tuple[int, ...] = (30, 50, 70, 90),
    sizes: str = '"4MiB"',
    concurrency: str = "16",
    header: str = "",
    more: str = "",
    ssd: str = "https://ssd.example:9000/bench",
    power: bool = True,
    refuse: bool = True,
    seed: int = 11,
) -> ResultStore:
    """Create the directory and its runs.

    ``more`` is TOML after the object workload; without ``refuse`` no request fails.
    """
    cases = ",".join(
        f'{{ name = "{USE_CASES[mix]}", match = {{ get_percent = {mix} }} }}' for mix in mixes
    )
    text = STUDY.format(
        repeats=repeats, window=WINDOW_S, header=header, ssd=ssd, mixes=list(mixes), sizes=sizes,
        concurrency=concurrency, use_cases=cases, more=more,
    )  # fmt: skip
    study = study_class().model_validate(tomllib.loads(text))
    points = list(points_of(study))
    plan = plan_of(study, points)
    store = ResultStore.create(directory, text, study, plan, ENVIRONMENT)
    draw = random.Random(seed)
    for planned in plan.runs:
        point = plan.points[planned.point_id]
        if point.kind == "object":
            record, samples, readings = object_run(
                study, point, planned, draw, power=power, refuse=refuse
            )
            store.write_run(record, samples, {}, readings)
        else:
            store.write_run(*finished_run(point, planned, draw), {})
    return store


ENVIRONMENT = {
    "host": {"name": "fixture", "cpu": "Example CPU at 2.6 GHz", "cores": 16},
    "targets": {SSD: {"server": "Example store 1.0"}, HDD: {"server": "Example store 1.0"}},
    "versions": {"storlab": "0.1.0"},
}


def points_of(study: StudyBase) -> Iterator[Point]:
    """Return every point of a workload's targets."""
    for index, spec in enumerate(study.workload):
        for params in spec.values():
            for target in study.target:
                if spec.targets is None or target.name in spec.targets:
                    yield Point(
                        target=target.name,
                        workload=spec.label,
                        workload_index=index,
                        kind=spec.kind,
                        engine=spec.engine_of(params) or "native",
                        params=params,
                    )


def plan_of(study: StudyBase, points: list[Point]) -> Plan:
    """Return the plan, with repeats spread over the campaign."""
    order = [(p, repeat) for repeat in range(1, study.study.repeats + 1) for p in points]
    return Plan(
        study_name=study.study.name,
        study_sha256="0" * 64,
        points={point.point_id: point for point in points},
        runs=[
            PlannedRun(order=number, repeat=repeat, point_id=point.point_id)
            for number, (point, repeat) in enumerate(order)
        ],
        estimated_ns=len(order) * 8 * SECOND_NS,
        bytes_written=0,
    )


def object_run(
    study: StudyBase,
    point: Point,
    planned: PlannedRun,
    draw: random.Random,
    *,
    power: bool,
    refuse: bool,
) -> tuple[RunRecord, list[Sample], list[Reading]]:
    """Return one run as the lab would store it."""
    own = BEHAVIOURS[point.target]
    own = own if refuse else replace(own, refused=0.0)
    samples, errors = _samples(point, own, draw)
    outcome = RunOutcome(
        status="finished",
        engine=EngineInfo(name="native", version="0.1.0", backend="hyper"),
        window_start_ns=START_NS,
        window_end_ns=START_NS + WINDOW_S * SECOND_NS,
        samples=samples,
        totals=_totals(samples, errors),
        cpu=CpuUse(user_ns=4 * SECOND_NS, system_ns=3 * SECOND_NS, cores=16),
    )
    if study.target_named(point.target).is_embedded:
        outcome.server_cpu = CpuUse(user_ns=6 * SECOND_NS, system_ns=5 * SECOND_NS, cores=16)
    metered = _metered(point.target, own, outcome, draw) if power else None
    started = "2026-11-20T10:00:00+00:00"
    record = completed_record(planned, point, study, started, outcome, metered)
    return record, samples, [] if metered is None else metered.readings


def _samples(
    point: Point, own: Behaviour, draw: random.Random
) -> tuple[list[Sample], dict[str, Counter[str]]]:
    params = point.params
    size, share = round(mean_size(params["object_size"])), params["get_percent"] / 100
    outstanding = params["concurrency"]
    saturation = 1 - math.exp(-outstanding / 7.0)
    small = min(1.0, (size / 4_194_304) ** 0.25)
    mean_cost = share + own.put_cost * (1 - share)
    rate_mb_s = own.limit_mb_s * saturation * small / mean_cost**0.6 * draw.gauss(1, own.noise)
    requests_s = rate_mb_s * 1e6 / size
    mean_ns = 0.98 * outstanding / requests_s * 1e9
    errors: dict[str, Counter[str]] = {op: Counter() for op in OPERATIONS}
    rows = []
    for interval in range(WINDOW_S):
        for operation, part, cost in (("get", share, 1.0), ("put", 1 - share, own.put_cost)):
            asked = round(requests_s * part * draw.gauss(1, 0.03))
            failed = round(asked * own.refused) if operation == "put" else 0
            errors[operation]["SlowDown (503)"] += failed - failed // 2
            errors[operation]["time-out"] += failed // 2
            rows.append(
                _sample(interval, operation, asked - failed, failed, size,
                        mean_ns * cost / mean_cost, own, draw)
            )  # fmt: skip
    return rows, errors


def _sample(
    interval: int,
    operation: str,
    count: int,
    failed: int,
    size: int,
    mean_ns: float,
    own: Behaviour,
    draw: random.Random,
) -> Sample:
    latency, first = Histogram(), Histogram()
    centre = math.log(mean_ns) - own.tail**2 / 2
    for _ in range(count):
        whole = draw.lognormvariate(centre, own.tail)
        latency.record(max(int(whole), 1))
        first.record(max(int(whole * own.first_byte * draw.uniform(0.9, 1.1)), 1))
    start = START_NS + interval * SECOND_NS
    return Sample(
        interval=interval,
        start_ns=start,
        end_ns=start + SECOND_NS,
        operation=operation,
        operations=count,
        bytes=count * size,
        latency=latency.to_v2(),
        worker_cpu_ns=400_000_000,
        ttfb=first.to_v2() if operation == "get" else None,
        errors=failed,
    )


def _totals(samples: list[Sample], errors: dict[str, Counter[str]]) -> dict[str, OperationTotals]:
    totals = {}
    for operation in OPERATIONS:
        of_operation = [sample for sample in samples if sample.operation == operation]
        totals[operation] = OperationTotals(
            operations=sum(sample.operations for sample in of_operation),
            bytes=sum(sample.bytes for sample in of_operation),
            latency=summarise_latency(merged([sample.latency for sample in of_operation])),
            ttfb=summarise_latency(merged([sample.ttfb for sample in of_operation if sample.ttfb]))
            if operation == "get"
            else None,
            errors={kind: count for kind, count in errors[operation].items() if count},
        )
    return totals


def merged(histograms: list[bytes]) -> bytes:
    total = Histogram()
    for each in histograms:
        total.add(Histogram.from_v2(each))
    return total.to_v2()


def _metered(target: str, own: Behaviour, outcome: RunOutcome, draw: random.Random) -> MeteredRun:
    """Add a wall meter read once a second, from 3 s before the window until after it."""
    info = SensorInfo(
        sensor=f"pdu:{target}",
        kind="snmp",
        description="outlet",
        boundary=BOUNDARIES[target],
        supply="ac",
        sampling="instantaneous",
        unit="W",
        gain_accuracy=0.01,
        quantum=0.1,
    )
    moved = sum(total.bytes for total in outcome.totals.values()) / 1e6 / WINDOW_S
    readings = []
    for second in range(-4, WINDOW_S + 4):
        busy = own.idle_w + (own.j_mb * moved if -1 <= second <= WINDOW_S else 0.0)
        watts = busy * draw.gauss(1, 0.01)
        readings.append(Reading(info.sensor, START_NS + second * SECOND_NS, watts))
    window = (outcome.window_start_ns, outcome.window_end_ns)
    spans = Spans(
        window,
        (START_NS - 4 * SECOND_NS, START_NS - 2 * SECOND_NS),
        (window[1] + SECOND_NS, window[1] + 3 * SECOND_NS),
    )
    summary, line = summarise(SensorRun(info, readings, SECOND_NS), spans)
    lines = {} if line is None else {info.sensor: line}
    totals = boundary_power([summary], lines, window)
    return MeteredRun([summary], totals, readings, [], [info.boundary])
