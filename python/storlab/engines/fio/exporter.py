"""Exporter of results as fio-compatible JSON+, for tools that read fio's output.

Histogram bins are keyed by the middle of their bucket in ns, as in fio, but have the widths of
HdrHistogram's buckets. Facts that fio's format cannot hold are stored in each job under
``storlab``, from which ``storlab import`` restores them.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from datetime import datetime
from typing import Any

from storlab import __version__
from storlab._native import Histogram
from storlab.base.errors import UsageError
from storlab.base.units import NS_PER_MS, NS_PER_S
from storlab.contracts.registry import FAMILIES
from storlab.engines.fio.disk_util import EVIDENCE
from storlab.engines.fio.importer import OWN_KEY, OwnFacts
from storlab.engines.fio.job import IO_ENGINES
from storlab.model.result import LatencySummary, OperationTotals, RunRecord
from storlab.results.store import ResultStore
from storlab.workloads.block.params import BlockParams

_PERCENTS = {"p50_ns": 50.0, "p90_ns": 90.0, "p99_ns": 99.0, "p999_ns": 99.9, "p9999_ns": 99.99}
_MORE_PERCENTS = (1, 5, 10, 20, 30, 40, 60, 70, 80, 95, 99.5, 99.95)
_DURATIONS = ("drain_timeout",)  # parameters to which a study adds a unit
_FACTS = ("capacity", "drives", "rack_units", "price", "currency")
_PARQUET = "use --format parquet, and with --output a name that ends in .parquet"


class FioJsonExport:
    """Exporter of a result directory to one fio JSON file.

    Each run becomes one job in a reporting group of its own, in the order of the plan.
    """

    name = "fio-json"
    suffix = ".json"

    def content(self, store: ResultStore, samples: bool) -> bytes:
        """Return the content of the exported file.

        Raises UsageError if ``samples`` is true, because fio's JSON has no time series.
        """
        if samples:
            raise UsageError("--samples", "fio's JSON has no time series", _PARQUET)
        text = json.dumps(document(store), indent=2, ensure_ascii=False, allow_nan=False)
        return (text + "\n").encode()


def document(store: ResultStore) -> dict[str, Any]:
    """Convert the block runs of a result directory to fio's JSON document; leave out other runs.

    Raises:
        UsageError: There are runs, but none of them is block I/O, or one has groups of jobs.
    """
    every = store.records()
    records = [record for record in every if record.kind == "block"]
    if every and not records:
        raise UsageError(
            "--format",
            "fio's JSON can hold only block I/O, but the results have no such run",
            _PARQUET,
        )
    if any(record.groups for record in records):
        raise UsageError(
            "--format",
            "fio's JSON cannot hold runs with groups of jobs ([[workload.group]])",
            _PARQUET,
        )
    return {
        "fio version": f"storlab-{__version__}",
        "timestamp": 0,
        "global options": {},
        "jobs": [_job(store, record, index) for index, record in enumerate(records)],
    }


def _job(store: ResultStore, record: RunRecord, index: int) -> dict[str, Any]:
    window_ns = max(0, record.window_end_ns - record.window_start_ns)
    jobs = BlockParams.of(record.params).jobs
    runtime_ms = max(1, round(window_ns / NS_PER_MS)) if window_ns else 0
    started = datetime.fromisoformat(record.started_at)
    job: dict[str, Any] = {
        "jobname": record.run_id,
        "groupid": index,
        "job_start": round(started.timestamp() * 1000),
        "error": (record.failure.errno or 1) if record.failure else 0,
        "job options": _options(store, record),
        OWN_KEY: _own_facts(store, record).model_dump(mode="json"),
    }
    histograms = _histograms(store, record)
    for kind in ("read", "write", "trim"):
        totals = record.totals.get(kind) or OperationTotals(operations=0, bytes=0)
        job[kind] = _direction(totals, histograms.get(kind), runtime_ms, window_ns)
        if totals.latency is None and record.metric("latency_mean_ns", kind) is not None:
            job[kind]["lat_ns"] = _given_latency(record, kind, totals.operations)
    flushes = record.totals.get("sync") or OperationTotals(operations=0, bytes=0)
    job["sync"] = {
        "total_ios": flushes.operations,
        "lat_ns": _latency(flushes.latency, histograms.get("sync")),
    }
    job["job_runtime"] = runtime_ms * jobs
    job.update(_cpu(record, runtime_ms * jobs))
    return job


def _cpu(record: RunRecord, job_runtime_ms: int) -> dict[str, float]:
    if record.cpu is None or not job_runtime_ms:
        return {"usr_cpu": 0.0, "sys_cpu": 0.0}
    scale = 100 / (job_runtime_ms * NS_PER_MS)
    return {"usr_cpu": record.cpu.user_ns * scale, "sys_cpu": record.cpu.system_ns * scale}


def _direction(
    totals: OperationTotals, histogram: Histogram | None, runtime_ms: int, window_ns: int
) -> dict[str, Any]:
    seconds = window_ns / NS_PER_S
    done = totals.operations
    bandwidth = totals.bytes / seconds if seconds else 0.0
    return {
        "io_bytes": totals.bytes,
        "io_kbytes": totals.bytes // 1024,
        "bw_bytes": int(bandwidth),
        "bw": int(bandwidth / 1024),
        "iops": done / seconds if seconds else 0.0,
        "runtime": runtime_ms if done else 0,
        "total_ios": done,
        "short_ios": 0,
        "drop_ios": 0,
        "lat_ns": _latency(totals.latency, histogram),
    }


def _latency(summary: LatencySummary | None, histogram: Histogram | None) -> dict[str, Any]:
    if summary is None or summary.count == 0:
        return {"min": 0, "max": 0, "mean": 0.0, "stddev": 0.0, "N": 0}
    table: dict[str, Any] = {
        "min": summary.min_ns,
        "max": summary.max_ns,
        "mean": summary.mean_ns,
        "stddev": summary.stdev_ns,
        "N": summary.count,
    }
    percentiles = {percent: getattr(summary, name) for name, percent in _PERCENTS.items()}
    if histogram is not None and histogram.count:
        percentiles |= {percent: histogram.percentile(percent) for percent in _MORE_PERCENTS}
        table["bins"] = dict(_bins(histogram))
    table["percentile"] = {
        f"{percent:.6f}": percentiles[percent] for percent in sorted(percentiles)
    }
    return table


def _given_latency(record: RunRecord, kind: str, count: int) -> dict[str, Any]:
    """Return fio's latency section for an imported run, which has metrics but no histogram."""
    names = {"p50": 50.0, "p90": 90.0, "p99": 99.0, "p999": 99.9}
    given = {p: record.metric(f"latency_{name}_ns", kind) for name, p in names.items()}
    return {
        "N": count,
        "mean": record.metric("latency_mean_ns", kind),
        "max": round(record.metric("latency_max_ns", kind) or 0),
        "percentile": {f"{p:.6f}": round(v) for p, v in given.items() if v is not None},
    }


def _bins(histogram: Histogram) -> Iterable[tuple[str, int]]:
    for lowest, highest, count in histogram.buckets():
        yield str((lowest + highest) // 2), count


def _histograms(store: ResultStore, record: RunRecord) -> dict[str, Histogram]:
    merged: dict[str, Histogram] = {}
    table = store.samples(record.run_id).select(["operation", "latency_hist"])
    for row in table.to_pylist():
        merged.setdefault(row["operation"], Histogram()).add(Histogram.from_v2(row["latency_hist"]))
    return merged


def _options(store: ResultStore, record: RunRecord) -> dict[str, str]:
    """Return the fio options that correspond to a run's parameters."""
    params, target = BlockParams.of(record.params), store.study.target_named(record.target)
    read = params.read_percent
    mixed = 0 < read < 100
    kind = "rw" if mixed else "read" if read else "write"
    if params.trim_percent == 100:
        kind = "trim"
    size, backend = params.block_size, record.engine.backend or "uring"
    options = {
        "rw": f"rand{kind}" if params.access == "random" else kind,
        "iodepth": str(params.queue_depth),
        "numjobs": str(params.jobs),
        "direct": str(int(target.direct)),
        "ioengine": IO_ENGINES.get(backend, backend),
        "filename": ":".join(place.replace(":", "\\:") for place in target.locations),
        "runtime": f"{store.study.study.runtime // 1000}us",
        "ramp_time": f"{store.study.study.ramp // 1000}us",
    }
    if mixed:
        options["rwmixread"] = f"{read:g}"
    if isinstance(size, int):
        options["bs"] = str(size)
    if params.offsets == "uniform" and params.access == "random":
        options["norandommap"] = "1"
    elif params.offsets == "zipf":
        options["random_distribution"] = f"zipf:{params.zipf_theta}"
    return options


def _own_facts(store: ResultStore, record: RunRecord) -> OwnFacts:
    target = store.study.target_named(record.target)
    point = store.plan.points[record.point_id]
    return OwnFacts(
        run_id=record.run_id,
        target=record.target,
        locations=target.locations,
        direct=target.direct,
        workload=record.workload,
        kind=record.kind,
        engine=point.engine,
        engine_info=record.engine,
        fields=_fields(record),
        params=_beside(record),
        provenance=record.provenance,
        status=record.status,
        failure=record.failure,
        started_at=record.started_at,
        window_start_ns=record.window_start_ns,
        window_end_ns=record.window_end_ns,
        ramp_ns=store.study.study.ramp,
        runtime_ns=store.study.study.runtime,
        cores=record.cpu.cores if record.cpu else None,
        facts=target.model_dump(include=set(_FACTS), exclude_defaults=True),
        evidence={name: record.details[name] for name in EVIDENCE if name in record.details},
        late_operations={
            kind: totals.late_operations
            for kind, totals in record.totals.items()
            if totals.late_operations
        },
        unfinished_operations={
            kind: (totals.unfinished_operations, totals.unfinished_longest_ns)
            for kind, totals in record.totals.items()
            if totals.unfinished_operations
        },
        clients=record.clients,
        notes=record.notes,
    )


def _fields(record: RunRecord) -> dict[str, Any]:
    """Return the run's parameters that differ from the defaults, as fields of a study."""
    default = _default(record)
    given = {k: v for k, v in record.params.items() if k in default and v != default[k]}
    if given.get("access") == "sequential":
        given.pop("offsets", None)
    return {k: f"{v}ns" if k in _DURATIONS else v for k, v in given.items()}


def _beside(record: RunRecord) -> dict[str, Any]:
    """Return the run's parameters that are not fields of a study, such as facts of importers."""
    default = _default(record)
    return {k: v for k, v in record.params.items() if k not in default}


def _default(record: RunRecord) -> dict[str, Any]:
    values: dict[str, Any] = FAMILIES[record.kind].spec(kind=record.kind).values()[0]
    return values
