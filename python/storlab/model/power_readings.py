"""File ``power.parquet`` of a run: every reading of every power sensor, unprocessed.

The columns are part of the result format; its version is in the file's metadata as
``storlab.schema``.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from storlab.model.power import Reading
from storlab.model.samples import SCHEMA_KEY, SCHEMA_VALUE

_FIELDS: list[pa.Field[Any]] = [
    pa.field("sensor", pa.string(), nullable=False),
    pa.field("time_ns", pa.int64(), nullable=False),
    pa.field("value", pa.float64(), nullable=False),
]
POWER_SCHEMA: pa.Schema = pa.schema(_FIELDS, metadata={SCHEMA_KEY: SCHEMA_VALUE})
"""Columns of ``power.parquet``.

Times are on CLOCK_MONOTONIC in ns. Values are in the sensor's unit (W or J), not scaled by the
target's share. Readings before and after the measure window are included.
"""


def readings_to_parquet(readings: Iterable[Reading]) -> bytes:
    """Encode readings as a ``power.parquet`` file (zstd), in the given order."""
    rows = list(readings)
    columns = {
        "sensor": [r.sensor for r in rows],
        "time_ns": [r.time_ns for r in rows],
        "value": [r.value for r in rows],
    }
    sink = pa.BufferOutputStream()
    pq.write_table(pa.table(columns, schema=POWER_SCHEMA), sink, compression="zstd")
    return sink.getvalue().to_pybytes()


def readings_from_parquet(content: bytes) -> pa.Table:
    """Read the table of a ``power.parquet`` file.

    Raises:
        ValueError: The content is not Parquet, or has another schema or version.
    """
    table = pq.read_table(pa.BufferReader(content))
    schema = (table.schema.metadata or {}).get(SCHEMA_KEY)
    if schema != SCHEMA_VALUE:
        raise ValueError(f"storlab.schema is {schema!r}, but this storlab reads {SCHEMA_VALUE!r}")
    if not table.schema.equals(POWER_SCHEMA):
        raise ValueError("the columns are not those of power.parquet version 1")
    return table
