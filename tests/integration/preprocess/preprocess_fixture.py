"""Preprocessing campaign with synthetic but consistent runs, in the engine's format.

A stage takes its CPU work divided by the workers, or the device's time for its bytes, whichever is
longer.
"""

from __future__ import annotations

import hashlib
import json
import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from integration.brief.fixed_fixture import (
    NEW,
    OLD,
    SECOND_NS,
    START_NS,
    fill_store,
    finished,
    study_text,
)
from storlab.model.point import Point
from storlab.model.result import CpuUse, EngineInfo, RunOutcome, Span
from storlab.model.study import StudyBase
from storlab.results.store import ResultStore
from storlab.workloads.preprocess.job import STAGES

WORKLOAD = """
kind = "preprocess"
name = "Criteo to split binary"
rows = {rows}
workers = {workers}
part_size = "{part_size}"
memory = "16GiB"
{more}
"""
RAW_ROW_BYTES, PARQUET_ROW_BYTES, BINARY_ROW_BYTES = 245, 75, 105
CORES = 32
CPU_NS_PER_ROW = {"ingest": 420, "vocabulary": 190, "encode": 390}
COSTS = {"native": 1.0, "pandas": 4.0, "polars": 3.5}
"""CPU and memory of each implementation relative to native."""
Change = Callable[[Point, dict[str, Any]], None]
"""Function that edits the details of a run before it is stored."""


@dataclass(frozen=True)
class Behaviour:
    """Performance of a directory and power of its device; without a device nothing is counted."""

    read_mb_s: float
    write_mb_s: float
    noise: float = 0.008
    has_device: bool = True
    idle_w: float = 5.0
    busy_w: float = 18.0


SSDS = {NEW: Behaviour(11_500.0, 5_000.0), OLD: Behaviour(6_900.0, 2_050.0, busy_w=21.0)}
DISK, MEMORY = "disk directory", "memory directory"
DIRECTORIES = {
    DISK: Behaviour(2_400.0, 900.0),
    MEMORY: Behaviour(60_000.0, 30_000.0, has_device=False),
}


def build_preprocess_store(
    directory: Path,
    *,
    repeats: int = 3,
    workers: str = "[1, 4, 8, 16, 24]",
    rows: str = "400_000_000",
    part_size: str = "512MiB",
    header: str = "",
    more: str = "",
    power: bool = True,
    places: Mapping[str, Behaviour] = SSDS,
    change: Change | None = None,
    seed: int = 3,
) -> ResultStore:
    """Create the directory and its runs; ``places`` are the targets, the last the baseline."""
    text = study_text(
        "DLRM preprocessing on two SSDs",
        WORKLOAD.format(rows=rows, workers=workers, part_size=part_size, more=more),
        repeats=repeats,
        header=header,
        power=power,
        baseline=list(places)[-1],
        directories={name: f"/mnt/{number}" for number, name in enumerate(places)},
    )

    def make(study: StudyBase, point: Point, draw: random.Random) -> RunOutcome:
        return preprocess_outcome(study, point, places[point.target], draw, change)

    return fill_store(directory, text, make, seed, places if power else None)


def preprocess_outcome(
    study: StudyBase,
    point: Point,
    own: Behaviour,
    draw: random.Random,
    change: Change | None = None,
) -> RunOutcome:
    """Return one run as the engine reports it."""
    params = point.params
    rows = params["rows"]
    sizes = {
        "ingest": (rows * RAW_ROW_BYTES, rows * PARQUET_ROW_BYTES),
        "vocabulary": (rows * PARQUET_ROW_BYTES, 26 * 8 * 1_000_000),
        "encode": (rows * PARQUET_ROW_BYTES, rows * BINARY_ROW_BYTES),
    }
    parts = max(params["files"], -(-rows * RAW_ROW_BYTES // params["part_size"]))
    now, stages, spans, marks = START_NS, [], [], []
    for name in STAGES:
        cost = COSTS[point.engine]
        record = _stage(name, now, rows, sizes[name], params["workers"], parts, own, cost, draw)
        end = record["end_ns"]
        stages.append(record)
        spans.append(
            Span(kind=name, name=name, start_ns=now, end_ns=end, bytes=record["input_bytes"])
        )
        step = (end - now) // parts
        marks += [
            (now + step * (part + 1), name, record["input_bytes"] // parts, step)
            for part in range(parts)
        ]
        now = end + SECOND_NS // 20
    details = _details(params, stages, sizes)
    if change is not None:
        change(point, details)
    cpu_ns = sum(stage["cpu_ns"] for stage in stages)
    return finished(
        study,
        marks,
        stages[-1]["end_ns"],
        spans,
        details,
        CpuUse(user_ns=cpu_ns * 9 // 10, system_ns=cpu_ns // 10, cores=CORES),
        EngineInfo(name=point.engine, version="0.1.0"),
    )


def _stage(
    name: str,
    start_ns: int,
    rows: int,
    sizes: tuple[int, int],
    workers: int,
    parts: int,
    own: Behaviour,
    cost: float,
    draw: random.Random,
) -> dict[str, Any]:
    read, written = sizes
    cpu_ns = round(rows * CPU_NS_PER_ROW[name] * cost * (1 + 0.002 * workers))
    rounds = -(-parts // workers) * workers / parts  # parts do not divide evenly
    device_s = read / own.read_mb_s / 1e6 + written / own.write_mb_s / 1e6
    took_s = max(cpu_ns / SECOND_NS / min(workers, CORES) * rounds, device_s)
    took_s *= draw.gauss(1, own.noise)
    return {
        "name": name,
        "start_ns": start_ns,
        "end_ns": start_ns + round(took_s * SECOND_NS),
        "rows": rows,
        "input_bytes": read,
        "output_bytes": written,
        "cpu_ns": cpu_ns,
        "peak_memory_bytes": round(cost * (300_000_000 + 90_000_000 * workers)),
        "device_read_bytes": round(read * 1.001) if own.has_device else None,
        "device_written_bytes": round(written * 1.003) if own.has_device else None,
        "parts": parts,
        "resumed_parts": 0,
        "passes": 1,
    }


def _details(
    params: dict[str, Any], stages: list[dict[str, Any]], sizes: dict[str, tuple[int, int]]
) -> dict[str, Any]:
    rows = params["rows"]
    seen = [params[n] for n in ("rows", "files", "data_seed", "threshold", "modulo", "numerical")]
    names = ["label", *(f"num_{n}" for n in range(13)), *(f"cat_{n}" for n in range(26))]
    return {
        "stages": stages,
        "rows": rows,
        "lines": rows,
        "input_bytes": sizes["ingest"][0],
        "output_bytes": sizes["encode"][1],
        "parquet_bytes": sizes["ingest"][1],
        "malformed": {"count": 0, "by_reason": {}, "samples": []},
        "resumed_parts": 0,
        "device_counters": stages[0]["device_read_bytes"] is not None,
        "memory_limit_bytes": params["memory"],
        "peak_memory_bytes": max(stage["peak_memory_bytes"] for stage in stages),
        "output": {
            "rows": rows,
            "cardinalities": [10_000 + n for n in range(26)],
            "dtypes": {"numerical": params["numerical"]},
            "columns": {name: digest(seen, name) for name in names},
            "rows_digest": digest(seen, "rows"),
            "dictionary_digest": digest(seen, "dictionary"),
            "bytes": sizes["encode"][1],
        },
    }


def digest(*what: Any) -> str:
    """Return 16 hexadecimal digits that stand for a digest of the output."""
    return hashlib.sha256(json.dumps(what).encode()).hexdigest()[:16]
