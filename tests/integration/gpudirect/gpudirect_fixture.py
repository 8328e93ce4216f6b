"""GPUDirect campaign with synthetic but plausible runs, in the engine's format."""

from __future__ import annotations

import math
import random
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from integration.brief.fixed_fixture import SECOND_NS, START_NS, fill_store, totals_of
from storlab._native import Histogram
from storlab.model.point import Point
from storlab.model.result import CpuUse, EngineInfo, RunOutcome, Sample
from storlab.model.study import StudyBase
from storlab.results.store import ResultStore
from storlab.workloads.gpudirect.params import GpuDirectParams
from storlab.workloads.gpudirect.rules import depth_of

NEW, OLD = "Micron 6550 ION", "competitor 61.44TB SSD"
PUBLISHED = "micron-6550-ion-gpudirect-storage"
WINDOW_NS = 4 * SECOND_NS
RAMP_NS = SECOND_NS
# The lab's device counters cover slightly more than the window.
AROUND_NS = WINDOW_NS + SECOND_NS // 10
STUDY = """
[study]
name = "One SSD feeding one GPU"
description = "Test fixture: the numbers are made up."
repeats = 3
ramp = "1s"
runtime = "4s"
baseline = "{old}"
published = ["{published}"]

[[target]]
name = "{new}"
directory = "/mnt/new"
size = "4GiB"
capacity = "61.44TB"
drives = 1
power_state = 1
meters = [{{ kind = "nvme", device = "/dev/nvme0", boundary = "device" }}]

[[target]]
name = "{old}"
directory = "/mnt/old"
size = "4GiB"
capacity = "61.44TB"
drives = 1
meters = [{{ kind = "nvme", device = "/dev/nvme1", boundary = "device" }}]

[[workload]]
kind = "gpudirect"
name = "GPUDirect"
path = {paths}
block_size = {sizes}
workers = {workers}
"""
ALL_PATHS = '["direct", "bounce", "bounce-overlapped", "host"]'
COST_US = {"direct": 9.0, "bounce": 16.0, "bounce-overlapped": 17.0, "host": 6.0}
COPY_NS = {"direct": 4_000, "bounce": 22_000, "bounce-overlapped": 24_000, "host": 0}


@dataclass(frozen=True)
class Behaviour:
    """A drive: IOPS of small blocks, MB/s of large ones, latency of one I/O, and power."""

    iops: float
    mb_s: float
    latency_ns: float
    idle_w: float
    busy_w: float


BEHAVIOURS = {
    NEW: Behaviour(1_500_000, 12_500, 92_000, 15.5, 15.5),
    OLD: Behaviour(900_000, 9_800, 118_000, 19.0, 19.0),
}


def build_gpudirect_store(
    directory: Path,
    *,
    paths: str = ALL_PATHS,
    sizes: str = '["4KiB", "1MiB"]',
    workers: str = "[1, 16, 64, 256]",
    posix: dict[str, float] | None = None,
    counted: bool = True,
    seed: int = 5,
) -> ResultStore:
    """Create the directory and its runs; ``posix`` is each target's share that is not direct."""
    text = STUDY.format(
        new=NEW, old=OLD, published=PUBLISHED, paths=paths, sizes=sizes, workers=workers
    )

    def make(study: StudyBase, point: Point, draw: random.Random) -> RunOutcome:
        share = (posix or {}).get(point.target, 0.0)
        return outcome(point, BEHAVIOURS[point.target], share, draw, counted=counted)

    return fill_store(directory, text, make, seed, BEHAVIOURS)


def outcome(
    point: Point, own: Behaviour, posix: float, draw: random.Random, *, counted: bool
) -> RunOutcome:
    """Return one run as the engine reports it: ``workers`` queue at a drive with a limit."""
    params = GpuDirectParams.of(point.params)
    outstanding = params.workers * depth_of(params)
    alone_ns = own.latency_ns + params.block_size / own.mb_s * 1e3 + COPY_NS[params.path]
    limit = min(own.iops, own.mb_s * 1e6 / params.block_size) * draw.gauss(1, 0.015)
    past = 0.04 * max(0.0, math.log2(outstanding / 64))  # too many workers cost a little
    iops = limit * (1 - past) * (1 - math.exp(-outstanding * 1e9 / alone_ns / limit))
    samples = _samples(params, iops, outstanding * 1e9 / iops, draw)
    moved = sum(sample.bytes for sample in samples)
    cpu_ns = iops * WINDOW_NS / 1e9 * COST_US[params.path] * 1e3 * draw.gauss(1, 0.02)
    return RunOutcome(
        status="finished",
        engine=EngineInfo(name="native", version="0.1.0", backend="gpudirect"),
        window_start_ns=START_NS,
        window_end_ns=START_NS + WINDOW_NS,
        samples=samples,
        totals=totals_of(samples),
        cpu=CpuUse(user_ns=round(cpu_ns / 4), system_ns=round(cpu_ns * 3 / 4), cores=96),
        details=_details(params, moved, posix, counted=counted),
    )


def _samples(
    params: GpuDirectParams, iops: float, mean_ns: float, draw: random.Random
) -> list[Sample]:
    rows = []
    for interval in range(WINDOW_NS // SECOND_NS):
        histogram = _histogram(iops * draw.gauss(1, 0.01), mean_ns, draw)
        rows.append(
            Sample(
                interval=interval,
                start_ns=START_NS + interval * SECOND_NS,
                end_ns=START_NS + (interval + 1) * SECOND_NS,
                operation="read",
                operations=histogram.count,
                bytes=histogram.count * params.block_size,
                latency=histogram.to_v2(),
                worker_cpu_ns=SECOND_NS // 20,
            )
        )
    return rows


def _histogram(count: float, mean_ns: float, draw: random.Random) -> Histogram:
    """Return about ``count`` operations: some hundred drawn ones, doubled as often as needed."""
    doublings = max(0, math.ceil(math.log2(count / 300)))
    histogram = Histogram()
    for _ in range(round(count / 2**doublings)):
        histogram.record(max(1, int(draw.lognormvariate(math.log(mean_ns) - 0.08, 0.4))))
    for _ in range(doublings):
        histogram.add(Histogram.from_v2(histogram.to_v2()))
    return histogram


def _device(read: int, over_ns: int) -> dict[str, Any]:
    return {"read_bytes": read, "written_bytes": 0, "over_ns": over_ns, "devices": ["d"]}


def _details(params: GpuDirectParams, moved: int, posix: float, *, counted: bool) -> dict[str, Any]:
    direct = params.path == "direct"
    cufile = {"path": "/opt/libcufile.so.0", "version": "1.18.0", "compat_allowed": True}
    gpu = {
        "number": 0,
        "name": "Example GPU",
        "pci": "0000:81:00.0",
        "compute": "9.0",
        "memory_bytes": 94 << 30,
        "free_bytes": 93 << 30,
    }
    compared = {"files": params.workers, "bytes": params.workers << 26, "ns": 10**9, "wrong": 0}
    moved, around = (moved * span // WINDOW_NS for span in (WINDOW_NS + RAMP_NS, AROUND_NS))
    slow = round(moved * posix)
    return {
        "gpus": [] if params.path == "host" else [gpu],
        "libraries": {
            "cuda": None if params.path == "host" else {"path": "libcuda.so.1", "version": "12.8"},
            "cufile": cufile if direct else None,
        },
        "route": {
            "asked": params.path,
            "bytes": moved,
            "p2p_bytes": moved - slow if direct and counted else 0,
            "nvfs_bytes": 0,
            "posix_bytes": slow if direct and counted else 0,
            "by": "cufile" if direct and counted else "none",
            "gpus": [],
        },
        "registration": {
            "buffers": params.workers,
            "bytes": params.workers * params.block_size,
            "ns": params.workers * 400_000,
            "handles": params.workers,
            "handles_ns": params.workers * 90_000,
        }
        if direct
        else None,
        "first_pass": None if params.path == "host" else compared,
        "read_back": None,
        "load_device": _device(moved, WINDOW_NS + RAMP_NS),
        "device": _device(around, AROUND_NS),
    }
