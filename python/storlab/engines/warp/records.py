"""Parser of warp's record of all requests, and computation of results from it.

The record is tab-separated text with a header, followed by the command line as a comment. Columns
were added over time (warp 1.0 to 1.6). ``op``, ``bytes``, ``error``, ``start``, ``first_byte``,
``end`` and ``duration_ns`` always exist.

- ``start``, ``first_byte`` and ``end`` are wall time. ``duration_ns`` is from the monotonic clock,
  so it is used as latency, and a request ends at ``start + duration_ns``.
- ``bytes`` is the requested size, also for a failed request.
- ``first_byte`` is the time at which the first byte of a GET arrived.
- ``last_byte`` is the time at which the body of a PUT had been read. What warp calls the "TTFB" of
  a PUT is the time after that, not a time to first byte.
"""

from __future__ import annotations

import io
from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import csv

from storlab.base import zstd
from storlab.base.errors import FormatError
from storlab.engines.warp import errors as warp_errors
from storlab.model.result import Operation, OperationTotals, Sample
from storlab.process.histograms import histogram, summary
from storlab.workloads.object.job import OBJECT_OPERATIONS

NAMES: dict[str, Operation] = {
    "GET": "get",
    "PUT": "put",
    "POST": "put",
    "STAT": "head",
    "DELETE": "delete",
    "LIST": "list",
}
_NEEDED = ("op", "bytes", "error", "start", "first_byte", "end", "duration_ns")
_STAMP = pa.timestamp("ns", "UTC")
_TYPES: dict[str, pa.DataType] = {
    "thread": pa.int64(),
    "op": pa.string(),
    "n_objects": pa.int64(),
    "bytes": pa.int64(),
    "file": pa.string(),
    "error": pa.string(),
    "endpoint": pa.string(),
    "client_id": pa.string(),
    "start": _STAMP,
    "first_byte": _STAMP,
    "end": _STAMP,
    "duration_ns": pa.int64(),
}
_STEP_NS = 1_000_000  # tolerance between wall time and monotonic time of a request

Ints = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]
Column = Any  # chunked array of Arrow


class WarpFormatError(FormatError):
    """Error: a text is not warp's benchmark data; ``field`` names what is missing or wrong."""


@dataclass(frozen=True, slots=True)
class Records:
    """Requests of a warp run as parallel arrays, one element per request.

    Times are UNIX times in ns. ``ttfb_ns`` is -1 if unavailable.
    """

    command: str  # command line of warp, as far as the file has it
    names: tuple[Operation, ...]  # kinds of operation that ``name`` refers to
    name: Ints  # index in ``names``
    messages: tuple[str, ...]  # warp's distinct error messages; the first is "" (no error)
    message: Ints  # index in ``messages``
    start_ns: Ints
    duration_ns: Ints
    ttfb_ns: Ints
    bytes: Ints
    objects: Ints
    worker: Ints  # id of the sending thread over all clients; -1 if not recorded
    endpoints: tuple[str, ...] = ()
    stepped: int = 0  # requests during which the wall clock was set
    unknown: tuple[str, ...] = ()  # kinds that storlab does not support; their requests are dropped

    @property
    def end_ns(self) -> Ints:
        """End of each request, as UNIX time in ns."""
        return self.start_ns + self.duration_ns

    @property
    def ok(self) -> Bools:
        """Boolean mask of the successful requests."""
        return np.equal(self.message, 0)

    def kind(self, operation: Operation) -> Bools:
        """Return a boolean mask of the requests of one kind of operation."""
        if operation not in self.names:
            return np.zeros(len(self.name), dtype=np.bool_)
        return np.equal(self.name, self.names.index(operation))

    def only(self, chosen: Bools) -> Records:
        """Return the requests that a boolean mask selects."""
        fields = (
            "name",
            "message",
            "start_ns",
            "duration_ns",
            "ttfb_ns",
            "bytes",
            "objects",
            "worker",
        )
        return replace(self, **{field: getattr(self, field)[chosen] for field in fields})

    @property
    def workers(self) -> int:
        """Number of threads that sent these requests, over all clients; 0 if not recorded."""
        return len(np.unique(self.worker[self.worker >= 0]))

    @property
    def present(self) -> list[Operation]:
        """Kinds of operations among the requests, in storlab's display order."""
        seen = {self.names[index] for index in np.unique(self.name)}
        return [operation for operation in OBJECT_OPERATIONS if operation in seen]


def unpacked(data: bytes) -> bytes:
    """Return the decompressed content of a warp benchmark data file.

    Raises:
        WarpFormatError: The compression is damaged.
    """
    try:
        return zstd.unpacked(data)
    except ValueError as error:
        raise WarpFormatError("file", f"cannot be decompressed: {error}") from error


def looks_like(text: str) -> bool:
    """Return whether a text begins with the header of warp's record of requests."""
    header = text.split("\n", 1)[0].split("\t")
    return {"idx", "thread", *_NEEDED} <= set(header)


def read_records(data: bytes) -> Records:
    """Parse an uncompressed record of requests. Raises WarpFormatError, which names the column."""
    rows, command = _split(data)
    names = rows.split(b"\n", 1)[0].decode(errors="replace").rstrip("\r").split("\t")
    for needed in _NEEDED:
        if needed not in names:
            raise WarpFormatError(needed, "column is missing")
    try:
        table = csv.read_csv(
            io.BytesIO(rows),
            parse_options=csv.ParseOptions(delimiter="\t", newlines_in_values=b'\t"' in rows),
            convert_options=csv.ConvertOptions(
                column_types={n: t for n, t in _TYPES.items() if n in names},
                include_columns=[n for n in names if n in _TYPES],
            ),
        )
    except pa.ArrowInvalid as error:
        raise WarpFormatError("record", str(error).splitlines()[0]) from error
    for needed in ("op", "bytes", "start", "end", "duration_ns"):
        if table[needed].null_count:
            raise WarpFormatError(needed, "column has no value for some request")
    return _records(table, command)


def _split(data: bytes) -> tuple[bytes, str]:
    """Split a record into its rows and the text of the comment after them."""
    end = len(data)
    comment: list[bytes] = []
    while end > 0:
        cut = data.rfind(b"\n", 0, end - 1) + 1
        line = data[cut:end]
        if line.strip() and not line.startswith(b"#"):
            break
        comment.append(line.lstrip(b"# ").rstrip())
        end = cut
    comments = b"\n".join(reversed([line for line in comment if line]))
    return data[:end], comments.decode(errors="replace")


def _records(table: pa.Table, command: str) -> Records:
    start_ns = _ints(table["start"])
    duration_ns = _ints(table["duration_ns"])
    first_byte_ns = _ints(table["first_byte"])
    wall_ns = _ints(table["end"]) - start_ns
    objects = _ints(table["n_objects"]) if "n_objects" in table.column_names else start_ns * 0 + 1
    kinds, coded = _coded(table["op"])
    many = np.zeros(len(start_ns), dtype=np.bool_)
    if "DELETE" in kinds:  # the delete benchmark sends many keys per request and records no name
        many = (coded == kinds.index("DELETE")) & ((objects > 1) | _nameless(table))
    every = [*NAMES.values(), "multi_delete"]
    names = tuple(op for op in OBJECT_OPERATIONS if op in every)
    lookup = np.array([_place(names, text) for text in kinds] or [-1], dtype=np.int64)
    name = lookup[coded]
    name[many] = names.index("multi_delete")
    messages, message = _messages(table["error"])
    reads = (name == names.index("get")) & (first_byte_ns >= 0)
    records = Records(
        command=command,
        names=names,
        name=name,
        messages=messages,
        message=message,
        start_ns=start_ns,
        duration_ns=np.maximum(duration_ns, 0),
        ttfb_ns=np.where(reads, np.maximum(first_byte_ns - start_ns, 0), -1),
        bytes=_ints(table["bytes"]),
        objects=objects,
        worker=_workers(table),
        endpoints=_distinct(table, "endpoint"),
        stepped=int(np.count_nonzero(np.abs(wall_ns - duration_ns) > _STEP_NS)),
        unknown=tuple(sorted(text for text in kinds if text not in NAMES)),
    )
    return records.only(name >= 0)


def _nameless(table: pa.Table) -> Bools:
    """Return a boolean mask of the requests without an object name."""
    if "file" not in table.column_names:
        return np.ones(table.num_rows, dtype=np.bool_)
    texts, codes = _coded(table["file"])
    return np.equal(codes, texts.index("") if "" in texts else -1)


def _place(names: tuple[Operation, ...], text: str) -> int:
    return names.index(NAMES[text]) if text in NAMES else -1


def _ints(column: Column) -> Ints:
    """Convert an Arrow column to integers, with -1 for missing values."""
    filled: Column = pc.fill_null(column.cast(pa.int64()), -1)
    return np.array(filled.to_numpy(zero_copy_only=False), dtype=np.int64)


def _coded(column: Column) -> tuple[list[str], Ints]:
    """Encode a text column: return its distinct texts, and each row's index among them."""
    filled: Column = pc.fill_null(column, "")
    coded = filled.combine_chunks().dictionary_encode()
    texts: list[str] = coded.dictionary.to_pylist()
    return texts, np.array(coded.indices.to_numpy(zero_copy_only=False), dtype=np.int64)


def _messages(column: Column) -> tuple[tuple[str, ...], Ints]:
    texts, codes = _coded(column)
    messages = ("", *(text for text in texts if text))
    lookup = np.array([messages.index(text) for text in texts] or [0], dtype=np.int64)
    return messages, lookup[codes]


def _distinct(table: pa.Table, name: str) -> tuple[str, ...]:
    if name not in table.column_names:
        return ()
    values: list[Any] = pc.unique(table[name]).to_pylist()
    return tuple(str(value) for value in values if value)


def _workers(table: pa.Table) -> Ints:
    if "thread" not in table.column_names:
        return np.full(table.num_rows, -1, dtype=np.int64)
    threads = _ints(table["thread"])
    if "client_id" not in table.column_names:
        return threads
    return _coded(table["client_id"])[1] * (int(threads.max(initial=0)) + 1) + threads


def load_of(records: Records) -> tuple[Records, int]:
    """Remove the uploads with which warp prepared a benchmark of reads or deletes.

    warp records these uploads, too. They end before the first other request starts.

    Returns:
        The remaining requests, and the number of removed uploads.
    """
    puts = records.kind("put")
    if not puts.any() or puts.all():
        return records, 0
    if records.end_ns[puts].max() > records.start_ns[~puts].min():
        return records, 0
    return records.only(~puts), int(np.count_nonzero(puts))


@dataclass(frozen=True, slots=True)
class Window:
    """Measure window with its intervals, in UNIX time (ns).

    ``offset_ns`` is the run's clock minus UNIX time.
    """

    start_ns: int
    end_ns: int
    interval_ns: int
    offset_ns: int = 0

    def edges(self) -> list[int]:
        """Return the boundaries of the window's intervals; the last interval may be shorter."""
        inner = range(self.start_ns, self.end_ns, self.interval_ns)
        return [*inner, self.end_ns]


def totals(records: Records, window: Window) -> dict[Operation, OperationTotals]:
    """Return totals by operation of the requests that ended inside the measure window.

    Failed requests count only as errors, by kind.
    """
    inside = records.only(_inside(records, window.start_ns, window.end_ns))
    totals: dict[Operation, OperationTotals] = {}
    for operation in inside.present:
        of_operation = inside.only(inside.kind(operation))
        good = of_operation.only(of_operation.ok)
        known = good.ttfb_ns[good.ttfb_ns >= 0]
        totals[operation] = OperationTotals(
            operations=len(good.name),
            bytes=int(good.bytes.sum()),
            latency=summary(good.duration_ns),
            ttfb=summary(known),
            errors=errors(of_operation),
        )
    return totals


def errors(records: Records) -> dict[str, int]:
    """Return the number of failed requests by kind of error, most frequent first."""
    counted: dict[str, int] = {}
    indices, counts = np.unique(records.message, return_counts=True)
    for index, count in zip(indices, counts, strict=True):
        if index:
            kind = warp_errors.kind(records.messages[index])
            counted[kind] = counted.get(kind, 0) + int(count)
    return dict(sorted(counted.items(), key=lambda entry: -entry[1]))


def samples(records: Records, window: Window, cpu_ns: Iterator[int] | None = None) -> list[Sample]:
    """Return one sample per interval of the window and kind of operation.

    Args:
        records: The requests.
        window: The measure window.
        cpu_ns: The client's CPU time (ns) in each interval, if measured.
    """
    edges = window.edges()
    operations = records.only(_inside(records, window.start_ns, window.end_ns)).present
    order = np.argsort(records.end_ns, kind="stable")
    ends = records.end_ns[order]
    result: list[Sample] = []
    for interval, (start_ns, end_ns) in enumerate(pairwise(edges)):
        first, last = np.searchsorted(ends, [start_ns, end_ns])
        used_ns = next(cpu_ns, 0) if cpu_ns is not None else 0
        for place, operation in enumerate(operations):
            chosen = order[first:last]
            chosen = chosen[records.kind(operation)[chosen]]
            good = chosen[records.ok[chosen]]
            ttfb = records.ttfb_ns[good]
            result.append(
                Sample(
                    interval=interval,
                    start_ns=start_ns + window.offset_ns,
                    end_ns=end_ns + window.offset_ns,
                    operation=operation,
                    operations=len(good),
                    bytes=int(records.bytes[good].sum()),
                    latency=histogram(records.duration_ns[good]).to_v2(),
                    worker_cpu_ns=used_ns if place == 0 else 0,
                    ttfb=histogram(ttfb[ttfb >= 0]).to_v2() if operation == "get" else None,
                    errors=len(chosen) - len(good),
                )
            )
    return result


def _inside(records: Records, start_ns: int, end_ns: int) -> Bools:
    ends = records.end_ns
    return (ends >= start_ns) & (ends < end_ns)
