"""Parser of warp's own summary in JSON, and comparison of it with storlab's results.

In the JSON of warp 1.1 to 1.6 (older JSON has rates, and latencies of the whole run):

- Latencies are aggregated per 10 s. warp prints the mean of these aggregates, even of percentiles.
- ``total_bytes`` and throughput count failed requests at full size, except failed uploads of the
  ``put`` and ``versioned`` benchmarks, whose size is 0.
- A segment is called single-sized or not by the first 10 s of its client. ``obj_size`` is the size
  of the segment's first request, so it is 0 if that was a failed upload.
- The first and last two seconds are excluded from throughput but not from latencies.
- The "TTFB" of a PUT starts at the end of its body.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from storlab.base.units import MB, NS_PER_MS, NS_PER_S, format_latency, significant
from storlab.engines.warp.records import NAMES, Ints, Records, WarpFormatError
from storlab.model.result import Operation
from storlab.workloads.object.job import OBJECT_OPERATIONS

PREPARED = "the uploads with which warp prepared the run are not counted"
_SIZED_BY_RESULT = ("put", "versioned")  # benchmarks that record how much of an upload arrived
# Beginning of the JSON that warp printed before 1.1, and still prints for analyze --full --json.
_OLD = re.compile(r'\{\s*(?:"mixed_server_stats"|"type"\s*:\s*"(?:single|mixed)")')
_NOTED_DIFFERENCE = 0.10  # smallest relative difference of percentiles that is noted


@dataclass(frozen=True, slots=True)
class RequestStatistics:
    """Latency statistics of requests of one size that ended in the same period, in ns.

    The period is 10 s, except in output of warp before 1.1, where it is the whole run.
    """

    requests: int
    mean_ns: float
    p50_ns: float
    p90_ns: float
    p99_ns: float
    min_ns: float
    max_ns: float
    stdev_ns: float
    is_averaged: bool = False  # whether percentiles are means over periods, as warp prints them
    ttfb_mean_ns: float | None = None
    ttfb_p50_ns: float | None = None
    ttfb_p90_ns: float | None = None
    ttfb_p99_ns: float | None = None
    ttfb_max_ns: float | None = None


@dataclass(frozen=True, slots=True)
class OperationSummary:
    """warp's aggregate of one kind of operation.

    ``bytes`` includes failed requests, unless ``failed_have_no_bytes``.
    """

    operation: Operation
    requests: int
    errors: int
    objects: int
    bytes: int
    concurrency: int
    start_ns: int  # UNIX time
    end_ns: int
    throughput_bytes_s: float | None
    first_errors: tuple[str, ...]
    hosts: tuple[str, ...]
    size: int | None  # of each request, or None if sizes differ
    # Statistics of each 10 s (before 1.1, of the run). Empty if sizes differ, because warp then
    # keeps rates by size range instead.
    pieces: tuple[RequestStatistics, ...]
    timed: int  # requests whose mean latency the file has
    mean_ns: float | None  # their mean latency
    failed_have_no_bytes: bool = False

    @property
    def succeeded(self) -> int:
        """Number of requests that did not fail."""
        return max(0, self.requests - self.errors)

    @property
    def has_percentiles(self) -> bool:
        """Whether the file has percentiles of all requests, not only of periods of 10 s."""
        return len(self.pieces) == 1 and not self.pieces[0].is_averaged

    @property
    def bytes_moved(self) -> int | None:
        """Bytes of successful requests; None if requests failed and their sizes are unknown."""
        if not self.errors or self.failed_have_no_bytes:
            return self.bytes
        return None if self.size is None else min(self.bytes, self.size * self.succeeded)


@dataclass(frozen=True, slots=True)
class Summary:
    """Content of warp's JSON summary: version, flags and aggregates by operation."""

    version: str
    flags: Mapping[str, str]  # of the command line; key "" is the benchmark's name
    operations: dict[Operation, OperationSummary]
    unknown: tuple[str, ...]
    notes: tuple[str, ...] = ()
    has_rates: bool = False  # whether counts follow from rates that exclude beginning and end


def looks_like(text: str) -> bool:
    """Return whether a text begins like warp's JSON summary."""
    head = text.lstrip()[:2000]
    return head.startswith("{") and (
        ('"commandline"' in head and '"total"' in head) or _OLD.match(head) is not None
    )


def read_summary(text: str) -> Summary:
    """Parse warp's JSON summary. Raises WarpFormatError, which names the wrong field."""
    try:
        document = json.loads(text)
    except ValueError as error:
        raise WarpFormatError("file", f"is not JSON: {error}") from error
    if isinstance(document, dict) and "by_op_type" not in document and "operations" in document:
        return _old_summary(document)
    by_kind = document.get("by_op_type") if isinstance(document, dict) else None
    if not isinstance(by_kind, dict):
        raise WarpFormatError("by_op_type", "is missing")
    given = flags(str(document.get("commandline") or ""))
    sized_by_result = given.get("") in _SIZED_BY_RESULT
    operations = [
        _operation(kind, of_kind, failed_have_no_bytes=sized_by_result and kind in ("PUT", "POST"))
        for kind, of_kind in by_kind.items()
        if kind in NAMES
    ]
    order = sorted(operations, key=lambda of_kind: OBJECT_OPERATIONS.index(of_kind.operation))
    return Summary(
        version=str(document.get("warp_version") or ""),
        flags=given,
        operations={of_kind.operation: of_kind for of_kind in order},
        unknown=tuple(sorted(set(by_kind) - set(NAMES))),
    )


def _operation(
    kind: str, document: dict[str, Any], *, failed_have_no_bytes: bool
) -> OperationSummary:
    where = f"by_op_type.{kind}"
    try:
        objects, requests = int(document["total_objects"]), int(document["total_requests"])
        errors, total = int(document["total_errors"]), int(document["total_bytes"])
        many = kind == "DELETE" and objects > requests
        rows = [
            segment
            for segments in (document.get("requests_by_client") or {}).values()
            for segment in segments
        ]
        singles = _kept(rows, "single_sized_requests")
        ranges = [
            size_range
            for multi in _kept(rows, "multi_sized_requests")
            for size_range in multi.get("by_size") or ()
        ]
        pieces = tuple(_piece(single) for single in singles)
        means = [(piece.requests, piece.mean_ns) for piece in pieces]
        means += [_mean(size_range) for size_range in ranges]
        timed = sum(count for count, _ in means)
        return OperationSummary(
            operation="multi_delete" if many else NAMES[kind],
            requests=requests,
            errors=errors,
            objects=objects,
            bytes=total,
            concurrency=int(document["concurrency"]),
            start_ns=time_ns(document["start_time"], f"{where}.start_time"),
            end_ns=time_ns(document["end_time"], f"{where}.end_time"),
            throughput_bytes_s=_throughput(document.get("throughput") or {}),
            first_errors=tuple(document.get("first_errors") or ()),
            hosts=tuple(document.get("hosts") or ()),
            size=_size(singles, ranges, total, (requests, requests - errors)),
            pieces=() if ranges else pieces,
            timed=timed,
            mean_ns=sum(count * mean for count, mean in means) / timed if timed else None,
            failed_have_no_bytes=failed_have_no_bytes,
        )
    except (KeyError, TypeError, AttributeError) as error:
        raise WarpFormatError(where, f"{error} is missing or has a wrong type") from error


def _kept(rows: Iterable[dict[str, Any]], name: str) -> list[dict[str, Any]]:
    """Return the statistics with this name, except those that warp skipped for lack of data."""
    given = [row[name] for row in rows if row.get(name)]
    return [statistics for statistics in given if not statistics.get("skipped")]


def _size(
    singles: Iterable[dict[str, Any]],
    ranges: Iterable[dict[str, Any]],
    total: int,
    counts: tuple[int, int],
) -> int | None:
    """Return the size in bytes of each request, or None if sizes differ or are unknown.

    Args:
        singles: Statistics of segments in which, according to warp, all requests have one size.
        ranges: Statistics of the other segments, by range of sizes. After a failed first upload,
            whose size is 0, warp uses them even if all requests have one size.
        total: Bytes of all requests.
        counts: Number of requests with and without failed ones.
    """
    if total == 0:
        return 0
    sizes = {int(single["obj_size"]) for single in singles} - {0}
    averages = {int(size_range["avg_obj_size"]) for size_range in ranges} - {0}
    candidates = sizes | averages
    if len(candidates) != 1:
        return None
    size = candidates.pop()
    return size if not averages or total in [size * count for count in counts] else None


def _mean(size_range: dict[str, Any]) -> tuple[int, float]:
    """Return the number of requests in a range of sizes and their mean latency in ns."""
    entries = max(1, int(size_range.get("merged_entries") or 1))
    mean_ms = size_range.get("avg_duration_millis") or 0
    return int(size_range["requests"]) if mean_ms else 0, mean_ms / entries * NS_PER_MS


@dataclass(frozen=True, slots=True)
class Rate:
    """Rates and latencies of one kind of operation, from warp's older JSON or printed text."""

    kind: str  # name of the operation in warp
    objects_s: float
    bytes_s: float
    length_ns: int  # time over which warp computed the rates
    concurrency: int = 0
    errors: int = 0
    has_failed: bool = False  # whether the rates include failed requests
    objects_per_request: int = 1
    size: int | None = None
    piece: RequestStatistics | None = None
    timed: int = 0
    mean_ns: float | None = None
    hosts: tuple[str, ...] = ()
    first_errors: tuple[str, ...] = ()


def summary_of_rates(
    rates: Sequence[Rate],
    start_ns: int,
    *,
    flags: Mapping[str, str],
    notes: Sequence[str] = (),
) -> Summary:
    """Convert rates to a summary with counts.

    warp computes the rates of different operations over slightly different times. Counts are rates
    times the longest of these, so that dividing them by the window gives the printed rates again.

    Args:
        rates: Rates of each kind of operation.
        start_ns: Start of the run, as UNIX time.
        flags: Flags of the command line, if known.
        notes: Notes on the run.
    """
    known = [rate for rate in rates if rate.kind in NAMES]
    window_ns = max((rate.length_ns for rate in known), default=0)
    operations: dict[Operation, OperationSummary] = {}
    for rate in known:
        objects = round(rate.objects_s * window_ns / NS_PER_S)
        requests = -(-objects // max(1, rate.objects_per_request))
        many = rate.kind == "DELETE" and rate.objects_per_request > 1
        operation = "multi_delete" if many else NAMES[rate.kind]
        operations[operation] = OperationSummary(
            operation=operation,
            requests=requests if rate.has_failed else requests + rate.errors,
            errors=rate.errors,
            objects=objects,
            bytes=round(rate.bytes_s * window_ns / NS_PER_S),
            concurrency=rate.concurrency,
            start_ns=start_ns,
            end_ns=start_ns + window_ns,
            throughput_bytes_s=rate.bytes_s or None,
            first_errors=rate.first_errors,
            hosts=rate.hosts,
            size=rate.size,
            pieces=() if rate.piece is None else (rate.piece,),
            timed=rate.timed or (requests if rate.mean_ns is not None else 0),
            mean_ns=rate.mean_ns,
            failed_have_no_bytes=not rate.has_failed or rate.size is None,
        )
    order = sorted(operations.values(), key=lambda of: OBJECT_OPERATIONS.index(of.operation))
    return Summary(
        version="",
        flags=flags,
        operations={of_kind.operation: of_kind for of_kind in order},
        unknown=tuple(sorted({rate.kind for rate in rates} - set(NAMES))),
        notes=tuple(notes),
        has_rates=True,
    )


def _old_summary(document: dict[str, Any]) -> Summary:
    """Parse the JSON that warp printed before 1.1, which has rates by operation."""
    rates = []
    notes = []
    starts = []
    try:
        for of_kind in document["operations"]:
            kind = str(of_kind["type"])
            if of_kind.get("skipped"):
                notes.append(f"warp reports no results of {kind}: there were too few requests")
                continue
            rates.append(_old_rate(kind, of_kind))
            starts.append(time_ns(of_kind["start_time"], f"operations.{kind}.start_time"))
    except (KeyError, TypeError, AttributeError) as error:
        raise WarpFormatError("operations", f"{error} is missing or has a wrong type") from error
    if not document.get("mixed") and len({rate.kind for rate in rates}) > 1:
        uploads = [rate for rate in rates if rate.kind == "PUT"]
        rates = [rate for rate in rates if rate.kind != "PUT"]
        notes += [PREPARED] if uploads else []
    return summary_of_rates(rates, min(starts, default=0), flags={}, notes=notes)


def _old_rate(kind: str, document: dict[str, Any]) -> Rate:
    throughput = document["throughput"]
    length_ms = float(throughput["measure_duration_millis"])
    single = document.get("single_sized_requests") or {}
    ranges = (document.get("multi_sized_requests") or {}).get("by_size") or ()
    piece = _piece(single) if single and not single.get("skipped") else None
    means = [(piece.requests, piece.mean_ns)] if piece else [_mean(one) for one in ranges]
    timed = sum(count for count, _ in means)
    per_request = int(document.get("objects_per_operation") or 1)
    objects = float(throughput.get("objects") or 0) or throughput["ops"] * per_request
    return Rate(
        kind=kind,
        objects_s=1000 * objects / length_ms if length_ms else 0.0,
        bytes_s=_throughput(throughput) or 0.0,
        length_ns=round(length_ms * NS_PER_MS),
        concurrency=int(document.get("concurrency") or 0),
        errors=int(document.get("errors") or 0),
        objects_per_request=per_request,
        size=int(single.get("obj_size") or 0) if piece else None,
        piece=piece,
        timed=timed,
        mean_ns=sum(count * mean for count, mean in means) / timed if timed else None,
        hosts=tuple(document.get("host_names") or ()),
        first_errors=tuple(document.get("first_errors") or ()),
    )


def _throughput(document: dict[str, Any]) -> float | None:
    length_ms = float(document.get("measure_duration_millis") or 0)
    return 1000 * float(document["bytes"]) / length_ms if length_ms > 0 else None


def _piece(single: dict[str, Any]) -> RequestStatistics:
    first = single.get("first_byte") or {}
    entries = max(1, int(single.get("merged_entries") or 1))
    times = {
        "mean_ns": single["dur_avg_millis"] / entries,
        "p50_ns": single["dur_median_millis"] / entries,
        "p90_ns": single["dur_90_millis"] / entries,
        "p99_ns": single["dur_99_millis"] / entries,
        "min_ns": single["fastest_millis"],
        "max_ns": single["slowest_millis"],
        "stdev_ns": single["std_dev_millis"] / entries,
    }
    if first:
        times |= {
            "ttfb_mean_ns": first["average_millis"] / entries,
            "ttfb_p50_ns": first["median_millis"] / entries,
            "ttfb_p90_ns": first["p90_millis"] / entries,
            "ttfb_p99_ns": first["p99_millis"] / entries,
            "ttfb_max_ns": first["slowest_millis"],
        }
    scaled = {name: value * NS_PER_MS for name, value in times.items()}
    return RequestStatistics(requests=int(single["requests"]), **scaled)


def time_ns(text: str, field: str) -> int:
    """Convert RFC 3339 to UNIX time in ns. Raises WarpFormatError, which names the field."""
    try:
        stamp = pa.array([text]).cast(pa.timestamp("ns", "UTC"))
    except pa.ArrowInvalid as error:
        raise WarpFormatError(field, f"{text!r} is not a time by RFC 3339") from error
    return int(stamp.cast(pa.int64())[0].as_py())


def misleading(own: Records, summary: Summary) -> list[str]:
    """Return notes on where warp's summary differs from results computed from its own requests."""
    notes: list[str] = []
    for operation, of_kind in summary.operations.items():
        of_operation = own.only(own.kind(operation))
        good = of_operation.only(of_operation.ok)
        notes += _error_note(of_kind)
        notes += _percentile_note(of_kind, good.duration_ns)
        if operation == "get":
            notes += _percentile_note(of_kind, good.ttfb_ns[good.ttfb_ns >= 0], ttfb=True)
    return notes


def _error_note(of_kind: OperationSummary) -> Iterable[str]:
    rate, moved = of_kind.throughput_bytes_s, of_kind.bytes_moved
    if not of_kind.errors or not rate or moved is None or of_kind.bytes <= moved:
        return
    length_s = (of_kind.end_ns - of_kind.start_ns) / NS_PER_S
    truth = moved / length_s / MB if length_s > 0 else 0.0
    yield (
        f"warp's own summary reports {significant(rate / MB, 4)} MB/s of {of_kind.operation}, "
        f"because it counts the bytes of {of_kind.errors:,} failed of {of_kind.requests:,} "
        f"requests; without them it is {significant(truth, 4)} MB/s over the whole run"
    )


def _percentile_note(
    of_kind: OperationSummary, values_ns: Ints, *, ttfb: bool = False
) -> Iterable[str]:
    pieces = [piece.ttfb_p99_ns if ttfb else piece.p99_ns for piece in of_kind.pieces]
    known = [value for value in pieces if value is not None]
    if len(known) < 2 or not len(values_ns):
        return
    printed_ns = sum(known) / len(known)
    truth_ns = float(np.percentile(values_ns, 99, method="inverted_cdf"))
    if not truth_ns or abs(printed_ns / truth_ns - 1) <= _NOTED_DIFFERENCE:
        return
    tail = "p99 of the time to first byte" if ttfb else "p99"
    yield (
        f"warp's own summary reports {format_latency(printed_ns)} as {tail} of "
        f"{of_kind.operation}, "
        f"the mean of the p99 of {len(known)} periods of 10 s; computed from all requests it is "
        f"{format_latency(truth_ns)}"
    )


def flags(command: str) -> Mapping[str, str]:
    """Parse the flags of warp's recorded command line; key ``""`` is the benchmark's name."""
    words = command.split()
    flags_of: dict[str, str] = {}
    if len(words) > 1:
        flags_of[""] = words[1]
    for word in words[2:]:
        name, equals, value = word.removeprefix("--").partition("=")
        if word.startswith("--") and equals:
            flags_of[name] = value
    return flags_of
