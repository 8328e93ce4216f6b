"""Campaign of a cluster with synthetic but consistent runs, merged by the lab's own code.

Every client has an outcome with histograms on its own clock. The lab's code merges them into an
outcome, flags, metrics and a record. Rates and latencies obey Little's law.
"""

from __future__ import annotations

import math
import random
import tomllib
from pathlib import Path
from typing import Any

from integration.object.object_fixture import plan_of, points_of
from storlab._native import Histogram
from storlab.cluster.offsets import ClockOffset
from storlab.cluster.task import ClientPlace
from storlab.contracts.registry import study_class
from storlab.lab.run.records import completed_record
from storlab.lab.site.client_report import ClientReport, NicBytes
from storlab.lab.site.merge import Client, merge
from storlab.model.point import Point
from storlab.model.result import CpuUse, EngineInfo, OperationTotals, RunOutcome, Sample
from storlab.model.samples import summarise_latency
from storlab.results.store import ResultStore

SECOND_NS = 1_000_000_000
INTERVALS = 3
WINDOW_NS = INTERVALS * SECOND_NS
CAPACITY, PERFORMANCE = "Capacity class", "Performance class"
SLOW = "c03"  # a straggler on one of the targets
STUDY = """
[study]
name = "Two classes of SSDs behind one file system"
description = "Test fixture: the numbers are made up."
repeats = {repeats}
ramp = "1s"
runtime = "3s"
interval = "1s"
baseline = "Capacity class"
[cluster]
hosts = ["c[01-06]"]
mount = "/mnt/shared"
data_nics = ["ens1"]
clients = {clients}
[[target]]
name = "Capacity class"
directory = "/mnt/shared/capacity"
size = "1GiB"
capacity = "1475TB"
usable = "973TB"
drives = 48
price = 310000
cost = {{ servers = 120000, network = 40000 }}
server = {{ "CPU cores" = 24, memory = "256 GB" }}
network = {{ "storage server" = "1x 200 Gb/s" }}
[[target]]
name = "Performance class"
directory = "/mnt/shared/performance"
size = "1GiB"
capacity = "461TB"
usable = "304TB"
drives = 60
price = 190000
cost = {{ servers = 260000, network = 80000 }}
server = {{ "CPU cores" = 96, memory = "768 GB" }}
network = {{ "storage server" = "2x 200 Gb/s" }}
[[workload]]
kind = "block"
name = "small random I/O"
access = "random"
block_size = "4KiB"
read_percent = [100, 70]
queue_depth = {depths}
jobs = 32
[[workload]]
kind = "block"
name = "large sequential I/O"
access = "sequential"
block_size = "1MiB"
read_percent = 100
queue_depth = {depths}
jobs = 32
"""
MOST_IOPS = {CAPACITY: 5.2e6, PERFORMANCE: 6.6e6}
MOST_LINK_BYTES_S = 30e9  # per client
MOST_BYTES_S = {CAPACITY: 112e9, PERFORMANCE: 227e9}


def cluster_campaign(
    directory: Path,
    *,
    clients: str = "6",
    depths: str = "[1, 4, 16]",
    repeats: int = 2,
    stop_after: int | None = None,
    seed: int = 14,
) -> ResultStore:
    """Create the result directory and its runs.

    ``clients`` and ``depths`` are TOML; the campaign ends after ``stop_after`` runs.
    """
    text = STUDY.format(repeats=repeats, clients=clients, depths=depths)
    study = study_class().model_validate(tomllib.loads(text))
    counts = clients.strip("[]").split(",")
    points = [
        point.model_copy(update={"clients": int(count)})
        for point in points_of(study)
        for count in counts
    ]
    plan = plan_of(study, points)
    store = ResultStore.create(directory, text, study, plan, {"host": {"name": "lab"}})
    draw = random.Random(seed)
    for planned in plan.runs[:stop_after]:
        point = plan.points[planned.point_id]
        outcome = cluster_outcome(point, draw)
        record = completed_record(planned, point, study, "2026-11-22T10:00:00+00:00", outcome)
        store.write_run(record, outcome.samples, {})
    return store


def cluster_outcome(point: Point, draw: random.Random) -> RunOutcome:
    """Return the merged outcome of one run of all clients."""
    count = point.clients or 1
    shares = [draw.gauss(1, 0.02) for _ in range(count)]
    if point.target == CAPACITY and count > 2:
        shares[2] = draw.gauss(0.62, 0.01)
    made = [
        _client(point, number, share / sum(shares), draw) for number, share in enumerate(shares, 1)
    ]
    return merge(made, SECOND_NS, WINDOW_NS, point.kind)


def _client(point: Point, number: int, share: float, draw: random.Random) -> Client:
    offset = number * 7_000_000_000 + draw.randrange(1_000_000)
    late = draw.randrange(200_000, 900_000)
    start = 100 * SECOND_NS + offset + draw.randrange(40_000)
    outcome = _outcome(point, share, start, late, draw)
    moved = sum(totals.bytes for totals in outcome.totals.values())
    read = outcome.totals["read"].bytes
    sent = int((moved - read) * 1.03 + moved * 0.004)
    nics = NicBytes(int(read * 1.03), sent, WINDOW_NS)
    report = ClientReport(
        outcome=outcome, armed_ns=80_000_000, nic_bytes=nics, nic_speeds=[400_000_000_000]
    )
    name = f"c{number:02}"
    before = ClockOffset(offset, draw.randrange(20_000, 60_000))
    after = ClockOffset(offset + draw.randrange(-9_000, 9_000), before.round_trip_ns)
    return Client(ClientPlace(name=name, host=name, rank=number), report, before, after)


def _outcome(
    point: Point, share: float, start_ns: int, late_ns: int, draw: random.Random
) -> RunOutcome:
    params, count = point.params, point.clients or 1
    block, reads = int(params["block_size"]), params["read_percent"] / 100
    outstanding = params["queue_depth"] * params["jobs"] * count
    bytes_s = min(MOST_BYTES_S[point.target], MOST_LINK_BYTES_S * count)
    most = min(MOST_IOPS[point.target], bytes_s / block)
    iops = most * (1 - math.exp(-outstanding / 700)) / (1 + 0.8 * (1 - reads))
    client_iops = iops * share * draw.gauss(1, 0.01)
    mean_ns = params["queue_depth"] * params["jobs"] / client_iops * 1e9
    samples, totals = [], {}
    for operation, part in (("read", reads), ("write", 1 - reads)):
        if not part:
            continue
        whole, rows = Histogram(), []
        for interval in range(INTERVALS):
            histogram = Histogram()
            for _ in range(40):
                histogram.record(max(1, int(mean_ns * draw.lognormvariate(-0.08, 0.4))))
            whole.add(histogram)
            begin = start_ns + interval * SECOND_NS
            done = round(client_iops * part)
            rows.append(
                Sample(
                    interval, begin, begin + SECOND_NS, operation, done, done * block,  # type: ignore[arg-type]
                    histogram.to_v2(), worker_cpu_ns=SECOND_NS,
                )
            )  # fmt: skip
        totals[operation] = OperationTotals(
            operations=sum(row.operations for row in rows),
            bytes=sum(row.bytes for row in rows),
            latency=summarise_latency(whole.to_v2()),
        )
        samples += rows
    return RunOutcome(
        status="finished",
        engine=EngineInfo(name="native", version="0.1.0", backend="uring"),
        window_start_ns=start_ns,
        window_end_ns=start_ns + WINDOW_NS,
        samples=samples,
        totals=totals,  # type: ignore[arg-type]
        cpu=_cpu(),
        first_io_late_ns=late_ns,
        last_worker_late_ns=late_ns + 300_000,
    )


def _cpu() -> CpuUse:
    known: dict[str, Any] = {"machine_busy_percent": 14.0, "machine_cores": 64}
    return CpuUse(user_ns=9 * SECOND_NS, system_ns=12 * SECOND_NS, cores=64, **known)
