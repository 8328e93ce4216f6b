"""Parser of fio's JSON and JSON+ output (fio 3.x, checked against 3.33 and 3.42).

- fio prints messages, then status documents (if asked to), then the final document.
- ``bw`` is in KiB/s, ``bw_bytes`` in bytes/s.
- Histogram bins of JSON+ are keyed by the middle of their bucket, in ns.
- ``lat_ns`` lasts from submission to completion. ``clat_ns`` starts when the submitting call
  returns, so with io_uring it misses part of the latency.
- ``N`` and ``io_bytes`` count completed I/Os; ``total_ios`` counts issued ones.
- With ``group_reporting``, ``job_runtime`` is a sum over threads, of which ``usr_cpu`` is a
  percentage.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from storlab._native import Histogram
from storlab.base.units import NS_PER_MS
from storlab.model.result import LatencySummary, Operation, OperationTotals

OPERATIONS: tuple[Operation, ...] = ("read", "write", "trim", "sync")
_SUMMARY_PERCENTS = {"p50_ns": 50.0, "p90_ns": 90.0, "p99_ns": 99.0, "p999_ns": 99.9}
_SUMMARY_PERCENTS["p9999_ns"] = 99.99


class FioFormatError(ValueError):
    """Error: a text is not fio's JSON; ``field`` names what is missing or wrong."""

    def __init__(self, field_name: str, what: str) -> None:
        self.field = field_name
        self.what = what
        super().__init__(f"{field_name}: {what}")


@dataclass(frozen=True, slots=True)
class FioOutput:
    """Output of fio split into messages and JSON documents, the latter parsed and as texts."""

    notes: list[str]
    documents: list[dict[str, Any]]
    texts: list[str]


@dataclass(slots=True)
class Latency:
    """Latencies of one kind of operation, as reported by fio.

    Mean and deviation are exact. The distribution is in ``bins`` (middle of a bucket in ns ->
    count) or in ``percentiles``.
    """

    source: Literal["lat", "clat"]
    count: int
    mean_ns: float
    min_ns: int
    max_ns: int
    stdev_ns: float
    percentiles: dict[float, int] = field(default_factory=dict)
    bins: dict[int, int] = field(default_factory=dict)


@dataclass(slots=True)
class Direction:
    """Results of one kind of operation; ``operations`` are completed, ``issued`` are started."""

    operations: int
    issued: int
    bytes: int
    runtime_ms: int
    latency: Latency | None


@dataclass(slots=True)
class Figures:
    """Results of one fio job, or of several jobs merged."""

    directions: dict[Operation, Direction]
    user_ns: float
    system_ns: float
    job_runtime_ms: int  # sum over threads
    error: int
    job_start_ms: int | None  # UNIX time of the window's start; fio 3.34 and later

    @property
    def runtime_ms(self) -> int:
        """Length of the measure window including the drain after it, in ms."""
        return max((d.runtime_ms for d in self.directions.values()), default=0)

    @property
    def measuring(self) -> bool:
        """Whether the ramp was over: fio records latencies only after it."""
        return any(d.latency is not None for d in self.directions.values())


def split_output(text: str) -> FioOutput:
    """Split fio's output into messages and JSON documents, which start with ``{`` in column 1.

    Raises:
        FioFormatError: There is no document, or a document is incomplete.
    """
    notes: list[str] = []
    documents: list[dict[str, Any]] = []
    texts: list[str] = []
    decoder = json.JSONDecoder()
    position = 0
    while position < len(text):
        if text[position].isspace():
            position += 1
        elif text[position] == "{":
            try:
                document, end = decoder.raw_decode(text, position)
            except json.JSONDecodeError as error:
                raise FioFormatError("JSON", f"is damaged or cut short: {error}") from error
            documents.append(document)
            texts.append(text[position:end] + "\n")
            position = end
        else:
            line, _, _ = text[position:].partition("\n")
            notes.append(line.strip())
            position += len(line)
    if not documents:
        raise FioFormatError("JSON", "is missing: no line starts with '{'")
    return FioOutput(notes, documents, texts)


def read_document(document: Mapping[str, Any]) -> list[Figures]:
    """Parse all jobs of a fio document. Raises FioFormatError, which names the wrong field."""
    version(document)
    jobs = document.get("jobs")
    if not isinstance(jobs, list) or not jobs:
        raise FioFormatError("jobs", "is missing or empty")
    return [read_job(job, f"jobs[{index}]") for index, job in enumerate(jobs)]


def version(document: Mapping[str, Any]) -> str:
    """Return the version of fio that wrote a document: ``3.33`` for ``fio-3.33``.

    Raises:
        FioFormatError: The version is missing or before 3.0.
    """
    text = document.get("fio version")
    if not isinstance(text, str):
        raise FioFormatError("fio version", "is missing: this is not fio's JSON output")
    number = text.removeprefix("fio-")
    if number.split(".")[0] in ("1", "2"):
        raise FioFormatError(
            "fio version", f"is {number}, but storlab reads only 3.0 and later: units differ"
        )
    return number


def read_job(job: Any, where: str = "jobs[0]") -> Figures:
    """Parse one job of a fio document. Raises FioFormatError, which names the wrong field."""
    if not isinstance(job, dict):
        raise FioFormatError(where, "must be a JSON object")
    if "mixed" in job and "read" not in job:
        raise FioFormatError(
            f"{where}.mixed",
            "does not separate reads from writes: run fio with unified_rw_reporting=0 or =both",
        )
    directions = {}
    for operation in OPERATIONS:
        if operation in ("read", "write") or job.get(operation):
            direction = _direction(job.get(operation), f"{where}.{operation}")
            if direction.operations or direction.issued:
                directions[operation] = direction
    job_runtime = int(_number(job, "job_runtime", where, 0))
    cpu_scale = job_runtime * NS_PER_MS / 100
    start = job.get("job_start")
    return Figures(
        directions=directions,
        user_ns=_number(job, "usr_cpu", where) * cpu_scale,
        system_ns=_number(job, "sys_cpu", where) * cpu_scale,
        job_runtime_ms=job_runtime,
        error=int(_number(job, "error", where, 0)),
        job_start_ms=start if isinstance(start, int) and start > 0 else None,
    )


def _direction(section: Any, where: str) -> Direction:
    if not isinstance(section, dict):
        raise FioFormatError(where, "is missing: this is not fio's JSON output")
    issued = int(_number(section, "total_ios", where))
    latency = _latency(section, where)
    return Direction(
        operations=latency.count if latency is not None else issued,
        issued=issued,
        bytes=int(_number(section, "io_bytes", where, 0)),
        runtime_ms=int(_number(section, "runtime", where, 0)),
        latency=latency,
    )


def _latency(section: Mapping[str, Any], where: str) -> Latency | None:
    """Parse the section ``lat_ns``, or ``clat_ns`` if only that has bins or percentiles."""
    tables: dict[str, Latency] = {}
    for source in ("lat", "clat"):
        table = section.get(f"{source}_ns")
        if isinstance(table, dict) and _number(table, "N", f"{where}.{source}_ns", 0) > 0:
            tables[source] = _latency_table(table, source, f"{where}.{source}_ns")
    for wanted in ("bins", "percentiles"):
        for latency in tables.values():
            if getattr(latency, wanted):
                return latency
    return next(iter(tables.values()), None)


def _latency_table(table: Mapping[str, Any], source: Any, where: str) -> Latency:
    def pairs(name: str) -> list[tuple[str, Any]]:
        value = table.get(name) or {}
        if not isinstance(value, dict):
            raise FioFormatError(f"{where}.{name}", "must be a JSON object")
        return list(value.items())

    try:
        return Latency(
            source=source,
            count=int(_number(table, "N", where)),
            mean_ns=_number(table, "mean", where),
            min_ns=int(_number(table, "min", where, 0)),
            max_ns=int(_number(table, "max", where)),
            stdev_ns=_number(table, "stddev", where, 0),
            percentiles={round(float(k), 6): int(v) for k, v in pairs("percentile")},
            bins={int(k): int(v) for k, v in pairs("bins")},
        )
    except (TypeError, ValueError) as error:
        if isinstance(error, FioFormatError):
            raise
        raise FioFormatError(where, f"has a value that is not a number: {error}") from error


def _number(table: Mapping[str, Any], name: str, where: str, default: float | None = None) -> float:
    value = table.get(name, default)
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not math.isfinite(value):
        raise FioFormatError(f"{where}.{name}", f"must be a finite number, but is {value!r}")
    return value


def merge(parts: Sequence[Figures]) -> Figures:
    """Merge the results of jobs that ran at the same time: add counts and merge histograms."""
    if len(parts) == 1:
        return parts[0]
    merged: dict[Operation, Direction] = {}
    for operation in OPERATIONS:
        present = [p.directions[operation] for p in parts if operation in p.directions]
        if present:
            merged[operation] = Direction(
                operations=sum(d.operations for d in present),
                issued=sum(d.issued for d in present),
                bytes=sum(d.bytes for d in present),
                runtime_ms=max(d.runtime_ms for d in present),
                latency=_merge_latency([d.latency for d in present if d.latency]),
            )
    return Figures(
        directions=merged,
        user_ns=sum(p.user_ns for p in parts),
        system_ns=sum(p.system_ns for p in parts),
        job_runtime_ms=sum(p.job_runtime_ms for p in parts),
        error=next((p.error for p in parts if p.error), 0),
        job_start_ms=min((p.job_start_ms for p in parts if p.job_start_ms), default=None),
    )


def _merge_latency(parts: Sequence[Latency]) -> Latency | None:
    if len(parts) <= 1:
        return parts[0] if parts else None
    count = sum(p.count for p in parts)
    mean = sum(p.mean_ns * p.count for p in parts) / count
    squares = sum((p.stdev_ns**2 + (p.mean_ns - mean) ** 2) * p.count for p in parts)
    bins: dict[int, int] = {}
    if all(p.bins for p in parts):
        for part in parts:
            for middle, n in part.bins.items():
                bins[middle] = bins.get(middle, 0) + n
    return Latency(
        source="lat" if all(p.source == "lat" for p in parts) else "clat",
        count=count,
        mean_ns=mean,
        min_ns=min(p.min_ns for p in parts),
        max_ns=max(p.max_ns for p in parts),
        stdev_ns=math.sqrt(squares / count),
        bins=bins,  # given percentiles cannot be merged and are dropped
    )


def histogram(bins: Mapping[int, int]) -> Histogram:
    """Convert fio's histogram bins (middle of the bucket in ns -> count) to a histogram."""
    result = Histogram()
    for middle, count in bins.items():
        if count > 0:
            result.record(max(middle, 0), count)
    return result


def summary(latency: Latency) -> LatencySummary | None:
    """Summarise fio's latencies; return None unless all of p50 to p99.99 are available.

    Percentiles are computed from the bins if there are any, else taken from fio. Count, mean,
    extremes and deviation are fio's, which are exact.
    """
    if latency.bins:
        merged = histogram(latency.bins)
        # Clip percentiles: the first and last bucket extend beyond the exact minimum and maximum.
        low, high = latency.min_ns, latency.max_ns
        values = {
            name: max(low, min(high, merged.percentile(percent)))
            for name, percent in _SUMMARY_PERCENTS.items()
        }
    else:
        given = latency.percentiles
        if any(percent not in given for percent in _SUMMARY_PERCENTS.values()):
            return None
        values = {name: given[percent] for name, percent in _SUMMARY_PERCENTS.items()}
    return LatencySummary(
        count=latency.count,
        mean_ns=latency.mean_ns,
        min_ns=latency.min_ns,
        max_ns=latency.max_ns,
        stdev_ns=latency.stdev_ns,
        **values,
    )


def totals(figures: Figures) -> dict[Operation, OperationTotals]:
    """Convert fio's results of the measure window to the totals of a run by operation."""
    return {
        operation: OperationTotals(
            operations=direction.operations,
            bytes=direction.bytes,
            latency=summary(direction.latency) if direction.latency is not None else None,
        )
        for operation, direction in figures.directions.items()
    }


def window_share(job_runtime_ms: int, threads_window_ms: int) -> float:
    """Return which part of fio's CPU time belongs to the measure window.

    It is less than 1 only if the CPU time includes the ramp: ``job_runtime_ms``, fio's run time
    summed over threads, is then longer than the sum of all threads' windows.
    """
    if threads_window_ms and job_runtime_ms > 1.05 * threads_window_ms:
        return threads_window_ms / job_runtime_ms
    return 1.0
