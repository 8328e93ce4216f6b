"""Parser of fio's JSON and JSON+ output (fio 2.0 and later, checked against 3.33 and 3.42).

- fio prints messages, then status documents (if asked to), then the final document.
- ``bw`` is in KiB/s, ``bw_bytes`` in bytes/s.
- Histogram bins of JSON+ are keyed by the middle of their bucket, in ns.
- ``lat_ns`` lasts from submission to completion. ``clat_ns`` starts when the submitting call
  returns, so with io_uring it misses part of the latency.
- ``N`` (fio 3.18 and later) and ``io_bytes`` count completed I/Os; ``total_ios`` counts issued
  ones.
- With ``group_reporting``, ``job_runtime`` (fio 3.8 and later) is a sum over threads, of which
  ``usr_cpu`` is a percentage.
- fio before 2.99 prints latencies in whole us as ``lat`` and ``clat``, before 2.21 ``io_bytes`` in
  KiB, and before 2.1.14 no ``total_ios``.
- A client of fio's servers prints ``client_stats`` instead of ``jobs``; its last entry, "All
  clients", adds up the others.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from storlab._native import Histogram
from storlab.base.errors import FormatError
from storlab.base.units import NS_PER_MS
from storlab.engines.fio import importer_options as fio_options
from storlab.model.result import LatencySummary, Operation, OperationTotals

OPERATIONS: tuple[Operation, ...] = ("read", "write", "trim", "sync")
_SUMMARY_PERCENTS = {"p50_ns": 50.0, "p90_ns": 90.0, "p99_ns": 99.0, "p999_ns": 99.9}
_SUMMARY_PERCENTS["p9999_ns"] = 99.99
_TOO_LARGE = 2.0**63
LATEST_MS = 10**14  # year 5138; later time stamps are invalid
_MACROS = "FIO_"  # prefix of constants among the bins of fio 2.2.12 to 2.19
ALL_CLIENTS = "All clients"  # jobname of the sum of all clients
Clock = Literal["lat", "clat"]
"""Start of a latency: submission (lat), or return of the submitting call (clat)."""


_WHOLE_OUTPUT = "give the complete output of fio --output-format=json+ (or json)"


class FioFormatError(FormatError):
    """Error: a text is not fio's JSON; ``field`` names what is missing or wrong."""

    def __init__(self, field_name: str, what: str, fix: str = _WHOLE_OUTPUT) -> None:
        super().__init__(field_name, what)
        self.fix = fix


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

    source: Clock  # of mean, minimum, maximum and deviation
    count: int
    mean_ns: float
    min_ns: int
    max_ns: int
    stdev_ns: float
    percentiles: dict[float, int] = field(default_factory=dict)
    bins: dict[int, int] = field(default_factory=dict)
    percentiles_source: Clock | None = None  # of percentiles and bins, if it is not ``source``
    total_mean_ns: float | None = None  # mean from submission on, if ``source`` is clat
    upper_bounds: bool = False  # percentiles are upper bounds, computed from those of several jobs

    @property
    def in_flight_ns(self) -> float:
        """Mean time in ns from submission to completion, from which concurrency is computed."""
        return self.mean_ns if self.total_mean_ns is None else self.total_mean_ns


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
    name, entries = jobs_of(document)
    return [
        read_job(_of_one_kind(document, job), f"{name}[{index}]")
        for index, job in enumerate(entries)
    ]


def _of_one_kind(document: Mapping[str, Any], job: Any) -> Any:
    """Return a job with the results of unified_rw_reporting=1 under its only kind of operation.

    With that option, fio calls the results ``mixed``. A job of several kinds of operation is
    returned unchanged.
    """
    if not isinstance(job, dict) or "mixed" not in job or "read" in job:
        return job
    kinds = fio_options.kinds_of(fio_options.merged(document, job))
    if len(kinds) != 1:
        return job
    empty = {"total_ios": 0, "runtime": 0}
    return {**job, "read": empty, "write": empty, **dict.fromkeys(kinds, job["mixed"])}


def jobs_of(document: Mapping[str, Any]) -> tuple[str, list[Any]]:
    """Return the list of a document's jobs with its name: ``jobs``, or ``client_stats``.

    The entry in which fio adds up all clients is left out: it is not a job.

    Raises:
        FioFormatError: The list is missing or empty.
    """
    name = "client_stats" if "client_stats" in document else "jobs"
    entries = document.get(name)
    if not isinstance(entries, list) or not entries:
        raise FioFormatError(name, "is missing or empty")
    if name == "jobs":
        return name, entries
    return name, [entry for entry in entries if not is_sum_of_clients(entry)] or entries


def is_sum_of_clients(entry: Any) -> bool:
    """Return whether an entry of ``client_stats`` is fio's sum of all clients."""
    return isinstance(entry, dict) and entry.get("jobname") == ALL_CLIENTS


def version(document: Mapping[str, Any]) -> str:
    """Return the version of fio that wrote a document: ``3.33`` for ``fio-3.33``.

    Raises:
        FioFormatError: The version is missing.
    """
    text = document.get("fio version")
    if not isinstance(text, str):
        raise FioFormatError("fio version", "is missing: this is not fio's JSON output")
    return text.removeprefix("fio-").removeprefix("fio ")


def read_job(job: Any, where: str = "jobs[0]") -> Figures:
    """Parse one job of a fio document. Raises FioFormatError, which names the wrong field."""
    if not isinstance(job, dict):
        raise FioFormatError(where, "must be a JSON object")
    if "mixed" in job and "read" not in job:
        raise FioFormatError(
            f"{where}.mixed",
            "does not separate reads from writes",
            "run fio with unified_rw_reporting=0 or unified_rw_reporting=both",
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
        user_ns=_number(job, "usr_cpu", where, 0) * cpu_scale,
        system_ns=_number(job, "sys_cpu", where, 0) * cpu_scale,
        job_runtime_ms=job_runtime,
        error=int(_number(job, "error", where, 0)),
        job_start_ms=start if isinstance(start, int) and 0 < start < LATEST_MS else None,
    )


def _direction(section: Any, where: str) -> Direction:
    if not isinstance(section, dict):
        raise FioFormatError(where, "is missing: this is not fio's JSON output")
    runtime_ms = int(_number(section, "runtime", where, 0))
    in_kib = is_in_us(section) and "io_kbytes" not in section
    if "total_ios" in section or not in_kib:
        issued = int(_number(section, "total_ios", where))
    else:
        issued = round(_number(section, "iops", where) * runtime_ms / 1000)
    latency = _latency(section, where, issued)
    return Direction(
        operations=latency.count if latency is not None else issued,
        issued=issued,
        bytes=int(_number(section, "io_bytes", where, 0)) * (1024 if in_kib else 1),
        runtime_ms=runtime_ms,
        latency=latency,
    )


def is_in_us(section: Mapping[str, Any]) -> bool:
    """Return whether a section of a job is from fio before 2.99, with latencies in whole us."""
    return "lat" in section or "clat" in section


def _latency(section: Mapping[str, Any], where: str, issued: int) -> Latency | None:
    """Parse a section's latencies; return None if they are missing or all zero."""
    tables: dict[Clock, Latency] = {}
    unit, scale = ("", 1000) if is_in_us(section) else ("_ns", 1)
    clocks: tuple[Clock, ...] = ("lat", "clat")
    for source in clocks:
        table = section.get(f"{source}{unit}")
        if isinstance(table, dict):
            latency = _latency_table(table, source, f"{where}.{source}{unit}", issued, scale)
            if latency.count > 0 and (latency.max_ns or latency.mean_ns or latency.bins):
                tables[source] = latency
    submission = section.get(f"slat{unit}")
    late = tables.get("clat")
    if late and "lat" not in tables and isinstance(submission, dict) and summary(late):
        # With disable_lat=1, fio still times both parts of the total latency.
        before_ns = _number(submission, "mean", f"{where}.slat{unit}", 0) * scale
        tables["clat"] = replace(late, total_mean_ns=late.mean_ns + before_ns)
    return of_two_clocks(tables.get("lat"), tables.get("clat"))


def of_two_clocks(lat: Latency | None, clat: Latency | None) -> Latency | None:
    """Combine the latencies from submission on (lat) with those that start after it (clat).

    If only clat has a histogram, all values are those of clat, and the mean of lat is kept as
    ``total_mean_ns``. Otherwise all values are those of lat, except that percentiles are those of
    clat if lat has none, and then also the minimum if that of lat exceeds a percentile.
    """
    if lat is None or clat is None:
        return lat or clat
    if lat.bins:
        return lat
    if clat.bins:
        return replace(clat, total_mean_ns=lat.mean_ns)
    if lat.percentiles or not clat.percentiles:
        return lat
    lowest = min(clat.percentiles.values())
    return replace(
        lat,
        percentiles=clat.percentiles,
        percentiles_source="clat",
        # A minimum above the median, as with I/O that completes in the submitting call, would
        # contradict the percentiles.
        min_ns=lat.min_ns if lat.min_ns <= lowest else clat.min_ns,
    )


def _latency_table(
    table: Mapping[str, Any], source: Clock, where: str, issued: int, scale: int
) -> Latency:
    def pairs(name: str) -> list[tuple[float, int]]:
        value = table.get(name) or {}
        if not isinstance(value, dict):
            raise FioFormatError(f"{where}.{name}", "must be a JSON object")
        return [(float(k), int(v)) for k, v in value.items() if not k.startswith(_MACROS)]

    bins = table.get("bins")
    by_index = isinstance(bins, dict) and any(name.startswith(_MACROS) for name in bins)
    try:
        return Latency(
            source=source,
            count=int(_number(table, "N", where, issued)),
            mean_ns=_number(table, "mean", where) * scale,
            min_ns=int(_number(table, "min", where, 0)) * scale,
            max_ns=int(_number(table, "max", where)) * scale,
            stdev_ns=_number(table, "stddev", where, 0) * scale,
            # fio fills the list of percentiles up with "0.00".
            percentiles={round(k, 6): v * scale for k, v in pairs("percentile") if k > 0},
            bins={
                (_bucket_middle(int(k)) if by_index else int(k)) * scale: v
                for k, v in pairs("bins")
                if v
            },
        )
    except (TypeError, ValueError) as error:
        if isinstance(error, FioFormatError):
            raise
        raise FioFormatError(where, f"has a value that is not a number: {error}") from error


def _bucket_middle(index: int) -> int:
    """Convert the index of a histogram bucket, the key in fio 2.2.12 to 2.19, to its middle.

    Values below 128 have a bucket each; above, 64 buckets share each power of two.
    """
    if index < 128:
        return index
    shift = (index >> 6) - 1
    return int((64 << shift) + (index % 64 + 0.5) * (1 << shift))


def _number(table: Mapping[str, Any], name: str, where: str, default: float | None = None) -> float:
    value = table.get(name, default)
    if (
        isinstance(value, bool)
        or not isinstance(value, (int, float))
        or not 0 <= value < _TOO_LARGE
    ):
        raise FioFormatError(f"{where}.{name}", f"must be a number of 0 or more, but is {value!r}")
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
    percentiles = {} if bins else _bounds_of_percentiles(parts)
    totals = sum(p.in_flight_ns * p.count for p in parts)
    of_percentiles = [p.percentiles_source or p.source for p in parts]
    source: Clock = "lat" if all(p.source == "lat" for p in parts) else "clat"
    return Latency(
        source=source,
        count=count,
        mean_ns=mean,
        min_ns=min(p.min_ns for p in parts),
        max_ns=max(p.max_ns for p in parts),
        stdev_ns=math.sqrt(squares / count),
        percentiles=percentiles,
        bins=bins,
        percentiles_source="clat" if source == "lat" and "clat" in of_percentiles else None,
        total_mean_ns=totals / count if any(p.total_mean_ns is not None for p in parts) else None,
        upper_bounds=bool(percentiles),
    )


def _bounds_of_percentiles(parts: Sequence[Latency]) -> dict[float, int]:
    """Return upper bounds of the percentiles of all parts' latencies together.

    For a time t, each part's percentiles give a lower bound of the share of its latencies up to t.
    The bound of percentile p is the smallest t for which the mean of these shares, weighted by
    counts, reaches p percent. It is at most the largest of the parts' own percentiles p.
    """
    count = sum(p.count for p in parts)
    wanted = sorted(set.intersection(*(set(p.percentiles) for p in parts)))
    steps = sorted((v, at, i) for i, p in enumerate(parts) for at, v in p.percentiles.items())
    reached = [0.0] * len(parts)
    share = 0.0  # in percent, of all latencies
    bounds: dict[float, int] = {}
    for value, percent, index in steps:
        share += max(0.0, percent - reached[index]) * parts[index].count / count
        reached[index] = max(percent, reached[index])
        while len(bounds) < len(wanted) and share >= wanted[len(bounds)] - 1e-9:
            bounds[wanted[len(bounds)]] = value
    return bounds


def with_sum_of_clients(document: Mapping[str, Any], merged: Figures) -> Figures:
    """Return merged results with the percentiles of fio's entry "All clients", if it has any.

    Percentiles of single clients cannot be merged, but in fio 3.39 and later those of this entry
    cover all clients. Its mean is not used, because in fio 3.7 it lacks the first job.
    """
    entry = next(filter(is_sum_of_clients, document.get("client_stats") or ()), None)
    if entry is None:
        return merged
    whole = read_job(_of_one_kind(document, entry), f"client_stats ({ALL_CLIENTS})")
    directions = dict(merged.directions)
    for operation, direction in merged.directions.items():
        own, found = direction.latency, whole.directions.get(operation)
        if own is None or own.bins or found is None or found.latency is None:
            continue
        if found.operations == direction.operations and (of_all := found.latency).percentiles:
            clock = of_all.percentiles_source or of_all.source
            latency = replace(
                own,
                percentiles=of_all.percentiles,
                percentiles_source=None if clock == own.source else clock,
                upper_bounds=False,
            )
            directions[operation] = replace(direction, latency=latency)
    return replace(merged, directions=directions)


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
        values = {name: merged.percentile(at) for name, at in _SUMMARY_PERCENTS.items()}
    else:
        given = latency.percentiles
        if any(percent not in given for percent in _SUMMARY_PERCENTS.values()):
            return None
        values = {name: given[percent] for name, percent in _SUMMARY_PERCENTS.items()}
    # Clip percentiles: the first and last bucket extend beyond the exact minimum and maximum.
    low, high = latency.min_ns, latency.max_ns
    return LatencySummary(
        count=latency.count,
        mean_ns=latency.mean_ns,
        min_ns=latency.min_ns,
        max_ns=latency.max_ns,
        stdev_ns=latency.stdev_ns,
        **{name: max(low, min(high, value)) for name, value in values.items()},
    )


def totals(figures: Figures) -> dict[Operation, OperationTotals]:
    """Convert fio's results of the measure window to the totals of a run by operation."""
    return {
        operation: _operation_totals(direction)
        for operation, direction in figures.directions.items()
    }


def _operation_totals(direction: Direction) -> OperationTotals:
    latency = direction.latency
    summarised = summary(latency) if latency is not None else None
    apart = latency is not None and (summarised is None or latency.total_mean_ns is not None)
    return OperationTotals(
        operations=direction.operations,
        bytes=direction.bytes,
        latency=summarised,
        latency_mean_ns=latency.in_flight_ns if latency is not None and apart else None,
    )


def window_share(job_runtime_ms: int, threads_window_ms: int) -> float:
    """Return which part of fio's CPU time belongs to the measure window.

    It is less than 1 only if the CPU time includes the ramp: ``job_runtime_ms``, fio's run time
    summed over threads, is then longer than the sum of all threads' windows.
    """
    if threads_window_ms and job_runtime_ms > 1.05 * threads_window_ms:
        return threads_window_ms / job_runtime_ms
    return 1.0
