"""Checkpoint campaign with synthetic but consistent runs, in the engine's format."""

from __future__ import annotations

import random
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
from storlab.model.result import CpuUse, RunOutcome, Span
from storlab.model.study import StudyBase
from storlab.results.store import ResultStore
from storlab.workloads.checkpoint.params import CheckpointParams
from storlab.workloads.checkpoint.rules import point_files, ranks_of

WORKLOAD = """
kind = "checkpoint"
name = "Llama 3 405B checkpoint"
profile = {profile}
scale = {scale}
writes = {writes}
restores = {restores}
{more}
"""


@dataclass(frozen=True)
class Behaviour:
    """Performance and power of a drive under checkpoints."""

    write_mb_s: float
    read_mb_s: float
    flush_s: float  # after the last byte
    noise: float
    skew: float  # extra time of the last rank, as a share
    idle_w: float
    busy_w: float
    cached: float  # share of a restore that comes from memory


BEHAVIOURS = {
    NEW: Behaviour(5000.0, 11_000.0, 0.05, 0.01, 0.03, 5.0, 19.0, 0.0),
    OLD: Behaviour(2050.0, 6900.0, 0.12, 0.015, 0.08, 5.0, 23.5, 0.0),
}


def build_checkpoint_store(
    directory: Path,
    *,
    repeats: int = 3,
    scale: str = "0.1",
    profile: str = '"llama3-405b-8gpu-415gb"',
    writes: int = 4,
    restores: int = 2,
    header: str = "",
    more: str = 'mtbf = "24h"',
    power: bool = True,
    cached: float = 0.0,
    baseline: str = OLD,
    seed: int = 5,
) -> ResultStore:
    """Create the directory and its runs; ``cached`` is the restores' share from memory."""
    text = study_text(
        "Checkpoints on two SSDs",
        WORKLOAD.format(profile=profile, scale=scale, writes=writes, restores=restores, more=more),
        repeats=repeats,
        header=header,
        power=power,
        baseline=baseline,
    )

    def make(study: StudyBase, point: Point, draw: random.Random) -> RunOutcome:
        own = BEHAVIOURS[point.target]
        return checkpoint_outcome(study, point, own, cached or own.cached, draw)

    return fill_store(directory, text, make, seed, BEHAVIOURS if power else None)


def checkpoint_outcome(
    study: StudyBase, point: Point, own: Behaviour, cached: float, draw: random.Random
) -> RunOutcome:
    """Return one run as the engine reports it."""
    params = CheckpointParams.of(point.params)
    profile, files = point_files(params)
    ranks = ranks_of(profile, params)
    sizes = [sum(f.bytes for f in files if f.rank == rank) for rank in range(ranks)]
    depth = min(1.0, (params.io_depth / 8) ** 0.3)
    now, spans, rows = START_NS, [], []
    details: dict[str, Any] = {"writes": [], "restores": [], "device_counters": True}
    for number in range(1, params.writes + 1):
        rate = own.write_mb_s * depth * draw.gauss(1, own.noise)
        entry, ios = _piece(number, now, sizes, rate, own, draw, flush_s=own.flush_s)
        end = max(rank["end_ns"] for rank in entry["ranks"])
        details["writes"].append(
            {
                **entry,
                "written_ns": max(rank["moved_ns"] for rank in entry["ranks"]),
                "durable_ns": end,
                "device_written_bytes": round(sum(sizes) * 1.002),
            }
        )
        spans.append(Span(kind="write", name=f"checkpoint {number}", start_ns=now, end_ns=end,
                          bytes=sum(sizes)))  # fmt: skip
        rows += [(at, "write", size, took) for at, size, took in ios]
        rows += [(rank["end_ns"], "sync", 0, rank["end_ns"] - rank["moved_ns"])
                 for rank in entry["ranks"]]  # fmt: skip
        now = end + SECOND_NS // 2
    for _ in range(params.restores):
        rate = own.read_mb_s * depth * draw.gauss(1, own.noise)
        entry, ios = _piece(params.writes, now, sizes, rate, own, draw)
        end = max(rank["end_ns"] for rank in entry["ranks"])
        details["restores"].append(
            {
                **entry,
                "end_ns": end,
                "resident_before_bytes": round(cached * sum(sizes)),
                "device_read_bytes": round((1 - cached) * sum(sizes)),
                "verified": params.verify,
            }
        )
        spans.append(Span(kind="restore", name=f"checkpoint {params.writes}", start_ns=now,
                          end_ns=end, bytes=sum(sizes)))  # fmt: skip
        rows += [(at, "read", size, took) for at, size, took in ios]
        now = end + SECOND_NS // 5
    return finished(
        study,
        rows,
        now,
        spans,
        details,
        CpuUse(user_ns=SECOND_NS, system_ns=2 * SECOND_NS, cores=8),
    )


def _piece(
    number: int,
    start_ns: int,
    sizes: list[int],
    rate_mb_s: float,
    own: Behaviour,
    draw: random.Random,
    flush_s: float = 0.0,
) -> tuple[dict[str, Any], list[tuple[int, int, int]]]:
    """Return a checkpoint or restore: its ranks, and some of its I/Os as (end, bytes, ns)."""
    ranks, ios = [], []
    share = rate_mb_s / len(sizes)
    for rank, size in enumerate(sizes):
        slower = 1 + own.skew * rank / max(len(sizes) - 1, 1) + abs(draw.gauss(0, 0.003))
        took = size / 1e6 / share * slower
        moved = start_ns + round(took * SECOND_NS)
        done = moved + round(flush_s * draw.uniform(0.8, 1.2) * SECOND_NS)
        ranks.append(
            {"rank": rank, "bytes": size, "start_ns": start_ns, "moved_ns": moved, "end_ns": done}
        )
        parts = 40
        each = round(took * SECOND_NS / parts)
        for part in range(parts):
            piece = size // parts + (size % parts if part == 0 else 0)
            ios.append((start_ns + (part + 1) * each, piece, round(each * draw.uniform(0.5, 1.4))))
    return {"number": number, "start_ns": start_ns, "bytes": sum(sizes), "ranks": ranks}, ios
