"""``power.parquet``: every reading of every sensor of a run, as it was taken.

The columns are part of the result format (version in the file's metadata under ``storlab.schema``).
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
"""Times are of CLOCK_MONOTONIC in ns; a value is in its sensor's unit (W or J), before its share of
the target is taken. Readings before and after the measure window are included."""


def readings_to_parquet(readings: Iterable[Reading]) -> bytes:
    """The content of a ``power.parquet`` file (zstd), in the order given."""
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
    """The table in a ``power.parquet`` file's content.

    Raises ``ValueError`` when it is not Parquet, or has another schema or version.
    """
    table = pq.read_table(pa.BufferReader(content))
    schema = (table.schema.metadata or {}).get(SCHEMA_KEY)
    if schema != SCHEMA_VALUE:
        raise ValueError(f"storlab.schema is {schema!r}, and this storlab reads {SCHEMA_VALUE!r}")
    if not table.schema.equals(POWER_SCHEMA):
        raise ValueError("its columns are not those of power.parquet version 1")
    return table
