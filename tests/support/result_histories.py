"""Many small result directories: one through the real store, the others as edited copies.

Two targets with two points each, in closed loop. Each directory has its own noise and its runs a
little more. Throughput is multiplied by the test's factor, and latencies are divided by it.
"""

from __future__ import annotations

import base64
import copy
import hashlib
import json
import random
import tomllib
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from storlab._native import Histogram
from storlab.contracts.registry import study_class
from storlab.model.point import Plan, PlannedRun, Point
from storlab.model.result import (
    Concurrency,
    EngineInfo,
    Metric,
    OperationTotals,
    RunRecord,
    Sample,
)
from storlab.model.samples import summarise_latency
from storlab.results.store import ResultStore, to_json

WINDOW_NS = 1_000_000_000
BLOCK_SIZE = 4096
BEGIN = datetime(2025, 1, 6, 3, 0, tzinfo=UTC)
SHAPE = (0.6, 0.8, 0.9, 1.0, 1.0, 1.0, 1.1, 1.2, 1.5, 3.0)
STUDY = """
[study]
name = {name}
repeats = {repeats}
ramp = "100ms"
runtime = "1s"
{targets}
[[workload]]
kind = "block"
access = "random"
block_size = "4KiB"
read_percent = 70
jobs = [1, 4]
queue_depth = 8
"""
TARGET = """
[[target]]
name = {name}
path = "/var/tmp/storlab/{number}.dat"
size = "1GiB"
"""


class ResultHistory:
    """Maker of directories below ``root``, one per day from ``BEGIN``."""

    def __init__(
        self,
        root: Path,
        *,
        targets: tuple[str, ...] = ("Disk", "Memory"),
        study: str = "nightly",
        repeats: int = 3,
        noise: float = 0.01,
        seed: int = 1,
    ) -> None:
        self.root = root
        self._targets, self._noise = targets, noise
        self._draw = random.Random(seed)
        self._store = self._first(study, repeats)
        self._files = {
            name: (self._store.directory / name).read_bytes()
            for name in ("study.toml", "plan.json")
        }
        self._runs = {
            run.run_id: json.loads((self._store.run_dir(run.run_id) / "run.json").read_bytes())
            for run in self._store.plan.runs
        }
        planned = self._store.plan.runs[0].run_id
        self._samples = (self._store.run_dir(planned) / "samples.parquet").read_bytes()

    def make(
        self,
        number: int,
        factors: Mapping[str, float] | None = None,
        *,
        kernel: str = "Linux 6.8",
        firmware: str = "FW1",
        name: str = "",
    ) -> Path:
        """Create the directory of one day; ``factors`` scale the throughput of targets."""
        directory = self.root / (name or f"night-{number:04d}")
        start = (BEGIN + timedelta(days=number)).isoformat()
        environment = {
            "schema_version": 1,
            "recorded_at": start,
            "host": "fixture",
            "kernel": kernel,
            "cpu": {"model": "Example CPU", "cores": 2},
            "versions": {"storlab": "0.0"},
            "engines": {"native": {"name": "native", "version": "0"}},
            "targets": {
                target: {"kind": "file", "drives": [{"model": "Example", "firmware": firmware}]}
                for target in self._targets
            },
        }
        self._head(directory, environment, start)
        own = {target: self._draw.gauss(1, self._noise) for target in self._targets}
        for run_id, template in self._runs.items():
            target = template["target"]
            factor = own[target] * (factors or {}).get(target, 1.0) * self._draw.gauss(1, 0.003)
            self._write_run(directory / "runs" / run_id, template, factor, start)
        return directory

    def _head(self, directory: Path, environment: dict[str, Any], start: str) -> None:
        (directory / "runs").mkdir(parents=True)
        files = {**self._files, "environment.json": to_json(environment)}
        sums = {
            name: hashlib.sha256(files[name]).hexdigest()
            for name in ("study.toml", "environment.json")
        }
        files["result.json"] = to_json(
            {"schema_version": 1, "storlab_version": "0.0", "created_at": start, "sha256": sums}
        )
        for name, content in files.items():
            (directory / name).write_bytes(content)

    def _write_run(self, place: Path, template: dict[str, Any], factor: float, start: str) -> None:
        record = copy.deepcopy(template)
        record["started_at"] = start
        for totals in record["totals"].values():
            totals["operations"] = round(totals["operations"] * factor)
            totals["bytes"] = totals["operations"] * BLOCK_SIZE
        for metric in record["metrics"]:
            done = sum(
                totals["operations"]
                for operation, totals in record["totals"].items()
                if metric["operation"] in ("all", operation)
            )  # in a window of one second
            values = {"iops": done, "throughput_mb_s": done * BLOCK_SIZE / 1e6}
            metric["value"] = values.get(metric["name"], metric["value"] / factor)
        histogram = base64.b64encode(_histogram(1 / factor)).decode()
        record["histograms"] = {"latency": {"read": histogram, "write": histogram}}
        content = to_json(record)
        files = {"run.json": content, "samples.parquet": self._samples}
        sums = "".join(f"{hashlib.sha256(c).hexdigest()}  {n}\n" for n, c in files.items())
        place.mkdir()
        for name, written in {**files, "SHA256SUMS": sums.encode()}.items():
            (place / name).write_bytes(written)

    def _first(self, name: str, repeats: int) -> ResultStore:
        quoted = (json.dumps(target) for target in self._targets)
        tables = (TARGET.format(name=n, number=i) for i, n in enumerate(quoted))
        text = STUDY.format(name=json.dumps(name), repeats=repeats, targets="".join(tables))
        study = study_class().model_validate(tomllib.loads(text))
        (spec,) = study.workload
        points = [
            Point(
                target=target, workload=spec.label, workload_index=0, kind=spec.kind,
                engine="native", params=params,
            )
            for params in spec.values()
            for target in self._targets
        ]  # fmt: skip
        order = [(point, repeat) for repeat in range(1, repeats + 1) for point in points]
        plan = Plan(
            study_name=name,
            study_sha256="0" * 64,
            points={point.point_id: point for point in points},
            runs=[
                PlannedRun(order=place, repeat=repeat, point_id=point.point_id)
                for place, (point, repeat) in enumerate(order)
            ],
            estimated_ns=len(order) * WINDOW_NS,
            bytes_written=0,
        )
        store = ResultStore.create(self.root.with_name(f".{self.root.name}"), text, study, plan, {})
        for planned, (point, _) in zip(plan.runs, order, strict=True):
            store.write_run(*_run(point, planned), {})
        return store


def _histogram(scale: float) -> bytes:
    histogram = Histogram()
    for part in SHAPE:
        histogram.record(round(100_000 * part * scale))
    return histogram.to_v2()


def _run(point: Point, planned: PlannedRun) -> tuple[RunRecord, list[Sample]]:
    encoded = _histogram(1.0)
    summary = summarise_latency(encoded)
    jobs = int(point.params["jobs"])
    samples, totals, metrics = [], {}, []
    for operation, share in (("read", 0.7), ("write", 0.3)):
        done = round(80_000 * jobs * share)
        samples.append(Sample(0, 10**9, 2 * 10**9, operation, done, done * BLOCK_SIZE, encoded))
        totals[operation] = OperationTotals(
            operations=done, bytes=done * BLOCK_SIZE, latency=summary
        )
        metrics += [
            Metric(
                name="throughput_mb_s",
                value=done * BLOCK_SIZE / 1e6,
                unit="MB/s",
                operation=operation,
            ),
            Metric(name="iops", value=done, unit="1/s", operation=operation),
            Metric(name="latency_mean_ns", value=summary.mean_ns, unit="ns", operation=operation),
            Metric(name="latency_p99_ns", value=summary.p99_ns, unit="ns", operation=operation),
        ]
    metrics += [
        Metric(name="throughput_mb_s", value=80_000 * jobs * BLOCK_SIZE / 1e6, unit="MB/s"),
        Metric(name="iops", value=80_000 * jobs, unit="1/s"),
    ]
    record = RunRecord(
        run_id=planned.run_id, point_id=point.point_id, repeat=planned.repeat,
        target=point.target, workload=point.workload, kind=point.kind, params=point.params,
        status="finished", engine=EngineInfo(name="native", version="0", backend="uring"),
        started_at=BEGIN.isoformat(), window_start_ns=10**9, window_end_ns=2 * 10**9,
        totals=totals, metrics=metrics,
        concurrency=Concurrency(configured=8 * jobs, implied=8.0 * jobs),
    )  # fmt: skip
    return record, samples
