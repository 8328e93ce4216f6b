"""File ``samples.parquet`` of a run: one row per interval and operation, with histograms.

The columns are part of the result format; its version is in the file's metadata as
``storlab.schema``. DuckDB reads a campaign at once: ``SELECT * FROM 'runs/*/samples.parquet'``.
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
_BEFORE = b"1"  # version without ttfb_hist and errors

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
"""Columns of ``samples.parquet``.

Times are on CLOCK_MONOTONIC; histograms are HdrHistogram V2 (ns). ``errors`` counts failed
operations, which are in no other column.
"""
_FIRST_SCHEMA: pa.Schema = pa.schema(
    [field for field in _FIELDS if field.name not in _ADDED], metadata={SCHEMA_KEY: _BEFORE}
)


def summarise_latency(histogram_v2: bytes) -> LatencySummary:
    """Summarise one HdrHistogram V2 encoding (ns); all values are zero if it is empty.

    Raises:
        ValueError: The bytes are not an HdrHistogram V2 encoding.
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
"""Columns that hold histograms, by the name of the distribution."""


def merged(samples: Sequence[Sample]) -> dict[str, dict[str, str]]:
    """Merge the histograms of a run's intervals, by key of ``TIMES`` and kind of operation.

    They are encoded in base64 and stored in ``run.json``, so that runs can be compared without
    reading their samples. Empty histograms are left out.

    Raises:
        ValueError: A histogram of a sample is damaged.
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
    """Convert samples to a table in :data:`SAMPLES_SCHEMA`, one row per sample in the given order.

    Raises:
        ValueError: A histogram of a sample is damaged.
    """
    rows = [sample_row(sample) for sample in samples]
    return rows_to_table(rows, latencies_of(sample.latency for sample in samples))


def rows_to_table(rows: Sequence[tuple[Any, ...]], latencies: LatencyColumns) -> pa.Table:
    """Convert samples, given as ``sample_row`` tuples and latency columns, to a table."""
    columns = [*zip(*rows, strict=True)] or [()] * (len(_FIELDS) - len(latencies))
    at = SAMPLES_SCHEMA.get_field_index("latency_mean_ns")
    return pa.table([*columns[:at], *latencies, *columns[at:]], schema=SAMPLES_SCHEMA)


def table_to_samples(table: pa.Table) -> list[Sample]:
    """Convert a table back to samples; the inverse of :func:`samples_to_table`."""
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
    """Encode samples as a ``samples.parquet`` file (zstd)."""
    sink = pa.BufferOutputStream()
    pq.write_table(samples_to_table(samples), sink, compression="zstd")
    return sink.getvalue().to_pybytes()


def table_from_parquet(content: bytes) -> pa.Table:
    """Read the table of a ``samples.parquet`` file, in :data:`SAMPLES_SCHEMA`.

    Files of version 1 have no columns for time to first byte and errors; these are added.

    Raises:
        ValueError: The content is not Parquet, or has another schema or version.
    """
    table = pq.read_table(pa.BufferReader(content))
    schema = (table.schema.metadata or {}).get(SCHEMA_KEY)
    schemas = {SCHEMA_VALUE: SAMPLES_SCHEMA, _BEFORE: _FIRST_SCHEMA}
    if schema not in schemas:
        raise ValueError(f"storlab.schema is {schema!r}, but this storlab reads {SCHEMA_VALUE!r}")
    if not table.schema.equals(schemas[schema]):
        version = schema.decode()
        raise ValueError(f"the columns are not those of samples.parquet version {version}")
    return table if schema == SCHEMA_VALUE else _filled_in(table)


def _filled_in(table: pa.Table) -> pa.Table:
    """Add empty columns for time to first byte and errors to a samples table of version 1."""
    rows = table.num_rows
    table = table.append_column(SAMPLES_SCHEMA.field("ttfb_hist"), pa.nulls(rows, pa.binary()))
    table = table.append_column(SAMPLES_SCHEMA.field("errors"), pa.array([0] * rows, pa.int64()))
    return table.replace_schema_metadata({SCHEMA_KEY: SCHEMA_VALUE})
