"""Per-client samples in ``raw/clients.parquet``: columns of samples.parquet, and the client's name.

Times are on the controller's clock.
"""

from __future__ import annotations

import io
from collections.abc import Sequence
from itertools import chain
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from storlab.model.latencies import LatencyColumns
from storlab.model.samples import SAMPLES_SCHEMA, rows_to_table

NAME = "clients.parquet"
_NAME_FIELD = pa.field("client", pa.string(), nullable=False)
_SCHEMA = SAMPLES_SCHEMA.insert(0, _NAME_FIELD)
# Histograms are all different and unordered: dictionaries and statistics are useless for them.
_PLAIN = [column for column in _SCHEMA.names if not column.endswith("_hist")]


class ClientRows(NamedTuple):
    """Samples of one client on its own clock, which is ``offset_ns`` ahead of the controller's."""

    name: str
    offset_ns: int
    rows: Sequence[tuple[Any, ...]]
    latencies: LatencyColumns


class ClientsFile:
    """Writer of the file that appends a few clients at a time."""

    def __init__(self) -> None:
        self._sink = io.BytesIO()
        self._file = pq.ParquetWriter(
            self._sink,
            _SCHEMA,
            compression="zstd",
            use_dictionary=_PLAIN,  # type: ignore[arg-type]  # the stubs lack lists of column names
            write_statistics=_PLAIN,
        )

    def write(self, clients: Sequence[ClientRows]) -> None:
        """Append samples; raise ``ValueError`` for times outside the clock's range."""
        known = zip(*(client.latencies for client in clients), strict=True)
        latencies = LatencyColumns(*([*chain.from_iterable(column)] for column in known))
        table = rows_to_table([row for client in clients for row in client.rows], latencies)
        lengths = [len(client.rows) for client in clients]
        ahead = pa.array(np.repeat([client.offset_ns for client in clients], lengths), pa.int64())
        for column in ("start_ns", "end_ns"):
            at = table.schema.get_field_index(column)
            moved = pc.subtract(table[column], ahead)
            table = table.set_column(at, table.schema.field(at), moved)
        names = np.repeat([client.name for client in clients], lengths)
        self._file.write_table(table.add_column(0, _NAME_FIELD, pa.array(names, pa.string())))

    def close(self) -> bytes:
        """Finish the file and return its content."""
        self._file.close()
        return self._sink.getvalue()
