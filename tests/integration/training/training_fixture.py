"""Training campaign with synthetic but consistent runs, in the engine's format.

Each step waits if storage delivers fewer MB/s than the accelerators need.
"""

from __future__ import annotations

import json
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
from storlab.analysis.capacity import Case, Rule, evaluate_searches
from storlab.model.point import Point
from storlab.model.result import CpuUse, RunOutcome, Span
from storlab.model.study import StudyBase
from storlab.results.store import ResultStore
from storlab.workloads.training.params import TrainingParams
from storlab.workloads.training.rules import settings_of

WORKLOAD = """
kind = "training"
name = "unet3d"
profile = "unet3d-h100"
accelerators = {accelerators}
epochs = 3
{more}
"""


@dataclass(frozen=True)
class Behaviour:
    """Performance and power of a drive."""

    read_mb_s: float
    noise: float
    idle_w: float
    busy_w: float


BEHAVIOURS = {NEW: Behaviour(11_500.0, 0.01, 5.0, 17.0), OLD: Behaviour(6900.0, 0.015, 5.0, 16.0)}


def build_training_store(
    directory: Path,
    *,
    repeats: int = 3,
    accelerators: str = "[1, 2, 3, 4]",
    header: str = "",
    more: str = "",
    power: bool = True,
    cached: float = 0.0,
    capacity: bool = False,
    seed: int = 9,
) -> ResultStore:
    """Create the directory and its runs.

    ``cached`` is the share of later epochs served from memory; ``capacity`` also writes the result
    of a capacity search over the same runs.
    """
    text = study_text(
        "Training of 3D U-Net from two SSDs",
        WORKLOAD.format(accelerators=accelerators, more=more),
        repeats=repeats,
        header=header,
        power=power,
    )

    def make(study: StudyBase, point: Point, draw: random.Random) -> RunOutcome:
        return training_outcome(study, point, BEHAVIOURS[point.target], cached, draw)

    store = fill_store(directory, text, make, seed, BEHAVIOURS if power else None)
    if capacity:
        write_search(store)
    return store


def write_search(store: ResultStore) -> None:
    """Write ``capacity.json`` as the search itself does."""
    firsts: dict[str, Point] = {}
    for point in store.plan.points.values():
        alone = point.model_copy(update={"params": {**point.params, "accelerators": 1}})
        firsts.setdefault(point.target, alone)
    cases = [Case(point, 4, "the data set has no more batches") for point in firsts.values()]
    found = evaluate_searches(cases, store.records(), Rule(90.0, 3)).as_dict()
    path = store.directory / "capacity.json"
    path.write_text(json.dumps(found), encoding="utf-8")


def training_outcome(
    study: StudyBase, point: Point, own: Behaviour, cached: float, draw: random.Random
) -> RunOutcome:
    """Return one run as the engine reports it."""
    settings = settings_of(TrainingParams.of(point.params))
    number = settings.accelerators
    rate = own.read_mb_s * draw.gauss(1, own.noise)
    now, spans, epochs, rows = START_NS, [], [], []
    for epoch in range(settings.epochs):
        record, ios = _epoch(epoch, now, settings, rate, draw)
        end = record["end_ns"]
        share = 1.0 if epoch == 0 else 1 - cached
        epochs.append({**record, "device_read_bytes": round(record["bytes"] * share * 1.001)})
        spans.append(Span(kind="epoch", name=f"epoch {epoch + 1}", start_ns=now, end_ns=end,
                          bytes=record["bytes"]))  # fmt: skip
        rows += ios
        now = end + SECOND_NS // 10
    moved = sum(epoch["bytes"] for epoch in epochs)
    return finished(
        study,
        rows,
        now,
        spans,
        {
            "epochs": epochs,
            "steps": settings.steps,
            "device_counters": True,
            "accelerators": number,
            "host_memory_bytes": 256_000_000_000,
        },
        CpuUse(user_ns=moved // 40, system_ns=moved // 60, cores=16),
    )


def _epoch(
    epoch: int, start_ns: int, settings: Any, rate_mb_s: float, draw: random.Random
) -> tuple[dict[str, Any], list[tuple[int, str, int, int]]]:
    """Return an epoch: each step waits for missing data, and all for the slowest."""
    number, batch = settings.accelerators, settings.batch
    compute = settings.computation_ns
    accelerators = [
        {"accelerator": index, "steps": 0, "start_ns": start_ns, "compute_ns": 0,
         "wait_ns": 0, "barrier_ns": 0, "bytes": 0}
        for index in range(number)
    ]  # fmt: skip
    rows: list[tuple[int, str, int, int]] = []
    now = start_ns
    for step in range(settings.steps):
        sizes = [
            [max(10**7, round(draw.gauss(146_600_628, 48_900_000))) for _ in range(batch)]
            for _ in range(number)
        ]
        served = round(sum(map(sum, sizes)) / 1e6 / rate_mb_s * SECOND_NS)
        lack = served if step == 0 else max(served - compute, 0)
        waits = [round(lack * draw.uniform(0.9, 1.0)) + 900 for _ in range(number)]
        computed = [compute + round(abs(draw.gauss(0, 50_000))) for _ in range(number)]
        end = now + max(w + c for w, c in zip(waits, computed, strict=True))
        for accelerator, wait, took, files in zip(
            accelerators, waits, computed, sizes, strict=True
        ):
            accelerator["steps"] += 1
            accelerator["wait_ns"] += wait
            accelerator["compute_ns"] += took
            accelerator["barrier_ns"] += end - now - wait - took
            accelerator["bytes"] += sum(files)
            accelerator["end_ns"] = end
            if step == 0:
                accelerator |= {
                    "first_end_ns": end,
                    "first_compute_ns": took,
                    "first_wait_ns": wait,
                }
            rows.append((now + wait, "step", 0, wait))
            for size in files:
                took_ns = round(size / 1e6 / (rate_mb_s / number / 4) * SECOND_NS)
                rows.append((end, "read", size, round(took_ns * draw.uniform(0.8, 1.2))))
        now = end
    moved = sum(accelerator["bytes"] for accelerator in accelerators)
    whole = {
        "number": epoch + 1,
        "start_ns": start_ns,
        "end_ns": now,
        "bytes": moved,
        "samples": settings.steps * batch * number,
        "accelerators": accelerators,
    }
    return whole, rows
