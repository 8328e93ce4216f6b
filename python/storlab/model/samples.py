"""``samples.parquet``: one row per interval and operation kind, histograms included.

The columns are part of the result format (its version stands in the file's metadata under
``storlab.schema``). DuckDB reads a campaign at once: ``SELECT * FROM 'runs/*/samples.parquet'``.
"""

from __future__ import annotations

import base64
from collections.abc import Sequence
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from storlab.model.latencies import LatencyColumns, latencies_of
from storlab.model.result import LatencySummary, Sample, sample_row

SCHEMA_KEY = b"storlab.schema"
SCHEMA_VALUE = b"2"
_BEFORE = b"1"  # had no ttfb_hist and no errors

_FIELDS: list[pa.Field[Any]] = [
    pa.field("interval", pa.int32(), nullable=False),
    pa.field("start_ns", pa.int64(), nullable=False),
    pa.field("end_ns", pa.int64(), nullable=False),
    pa.field("operation", pa.string(), nullable=False),
    pa.field("operations", pa.int64(), nullable=False),
    pa.field("bytes", pa.int64(), nullable=False),
    pa.field("latency_mean_ns", pa.float64(), nullable=False),
    pa.field("latency_p50_ns", pa.int64(), nullable=False),
    pa.field("latency_p99_ns", pa.int64(), nullable=False),
    pa.field("latency_max_ns", pa.int64(), nullable=False),
    pa.field("latency_hist", pa.binary(), nullable=False),
    pa.field("intended_hist", pa.binary(), nullable=True),
    pa.field("worker_cpu_ns", pa.int64(), nullable=False),
    pa.field("ttfb_hist", pa.binary(), nullable=True),
    pa.field("errors", pa.int64(), nullable=False),
]
_ADDED = ("ttfb_hist", "errors")
SAMPLES_SCHEMA: pa.Schema = pa.schema(_FIELDS, metadata={SCHEMA_KEY: SCHEMA_VALUE})
"""Columns of ``samples.parquet``. Times are of CLOCK_MONOTONIC; histograms HdrHistogram V2 (ns).

``errors`` counts operations that failed; they are in no other column.
"""
_FIRST_SCHEMA: pa.Schema = pa.schema(
    [field for field in _FIELDS if field.name not in _ADDED], metadata={SCHEMA_KEY: _BEFORE}
)


def summarise_latency(histogram_v2: bytes) -> LatencySummary:
    """The summary of one HdrHistogram V2 encoding (ns). All zeros when it is empty.

    Raises ``ValueError`` when the bytes are not such an encoding.
    """
    from storlab._native import Histogram

    histogram = Histogram.from_v2(histogram_v2)
    p50, p90, p99, p999, p9999 = (
        histogram.percentile(percent) if histogram.count else 0
        for percent in (50.0, 90.0, 99.0, 99.9, 99.99)
    )
    return LatencySummary(
        count=histogram.count,
        mean_ns=histogram.mean_ns,
        min_ns=histogram.min_ns,
        p50_ns=p50,
        p90_ns=p90,
        p99_ns=p99,
        p999_ns=p999,
        p9999_ns=p9999,
        max_ns=histogram.max_ns,
        stdev_ns=histogram.stdev_ns,
    )


TIMES = {"latency": "latency_hist", "intended_latency": "intended_hist", "ttfb": "ttfb_hist"}
"""Distributions of times, and the columns that hold their histograms."""


def merged(samples: Sequence[Sample]) -> dict[str, dict[str, str]]:
    """The histograms of a whole run: by a key of ``TIMES``, then operation, in base64.

    A record carries them, so that a comparison of many runs reads no samples. Empty ones are left
    out. Raises ``ValueError`` when a sample's histogram is damaged.
    """
    from storlab._native import Histogram

    tables: dict[str, dict[str, Any]] = {}
    for sample in samples:
        recorded = {"latency": sample.latency, "intended_latency": sample.intended}
        for time, encoded in {**recorded, "ttfb": sample.ttfb}.items():
            if encoded:
                own = tables.setdefault(time, {})
                own.setdefault(sample.operation, Histogram()).add(Histogram.from_v2(encoded))
    return {
        time: {
            operation: base64.b64encode(histogram.to_v2()).decode()
            for operation, histogram in own.items()
            if histogram.count
        }
        for time, own in tables.items()
    }


def samples_to_table(samples: Sequence[Sample]) -> pa.Table:
    """A table in :data:`SAMPLES_SCHEMA`, one row per sample, in the order given.

    Raises ``ValueError`` when a sample's histogram is damaged.
    """
    rows = [sample_row(sample) for sample in samples]
    return rows_to_table(rows, latencies_of(sample.latency for sample in samples))


def rows_to_table(rows: Sequence[tuple[Any, ...]], latencies: LatencyColumns) -> pa.Table:
    """The same of ``sample_row`` of each, whose histograms somebody has read."""
    columns = [*zip(*rows, strict=True)] or [()] * (len(_FIELDS) - len(latencies))
    at = SAMPLES_SCHEMA.get_field_index("latency_mean_ns")
    return pa.table([*columns[:at], *latencies, *columns[at:]], schema=SAMPLES_SCHEMA)


def table_to_samples(table: pa.Table) -> list[Sample]:
    """The samples of a table in :data:`SAMPLES_SCHEMA`; the inverse of :func:`samples_to_table`."""
    return [
        Sample(
            interval=row["interval"],
            start_ns=row["start_ns"],
            end_ns=row["end_ns"],
            operation=row["operation"],
            operations=row["operations"],
            bytes=row["bytes"],
            latency=row["latency_hist"],
            intended=row["intended_hist"],
            worker_cpu_ns=row["worker_cpu_ns"],
            ttfb=row["ttfb_hist"],
            errors=row["errors"],
        )
        for row in table.to_pylist()
    ]


def samples_to_parquet(samples: Sequence[Sample]) -> bytes:
    """The content of a ``samples.parquet`` file (zstd)."""
    sink = pa.BufferOutputStream()
    pq.write_table(samples_to_table(samples), sink, compression="zstd")
    return sink.getvalue().to_pybytes()


def table_from_parquet(content: bytes) -> pa.Table:
    """The table in a ``samples.parquet`` file's content, in :data:`SAMPLES_SCHEMA`.

    Files of version 1 are read, too: nothing of theirs had a time to first byte, or went on after
    an error. Raises ``ValueError`` when it is not Parquet, or has another schema or version.
    """
    table = pq.read_table(pa.BufferReader(content))
    schema = (table.schema.metadata or {}).get(SCHEMA_KEY)
    schemas = {SCHEMA_VALUE: SAMPLES_SCHEMA, _BEFORE: _FIRST_SCHEMA}
    if schema not in schemas:
        raise ValueError(f"storlab.schema is {schema!r}, and this storlab reads {SCHEMA_VALUE!r}")
    if not table.schema.equals(schemas[schema]):
        version = schema.decode()
        raise ValueError(f"its columns are not those of samples.parquet version {version}")
    return table if schema == SCHEMA_VALUE else _filled_in(table)


def _filled_in(table: pa.Table) -> pa.Table:
    """A table of version 1 in the schema of today."""
    rows = table.num_rows
    table = table.append_column(SAMPLES_SCHEMA.field("ttfb_hist"), pa.nulls(rows, pa.binary()))
    table = table.append_column(SAMPLES_SCHEMA.field("errors"), pa.array([0] * rows, pa.int64()))
    return table.replace_schema_metadata({SCHEMA_KEY: SCHEMA_VALUE})
