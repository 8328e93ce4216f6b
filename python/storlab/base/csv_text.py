"""CSV files that a spreadsheet opens without running what stands in them."""

from __future__ import annotations

import io

import pyarrow as pa
import pyarrow.csv

_FORMULA = ("=", "+", "-", "@", "\t", "\r", "\n", "\uff1d", "\uff0b", "\uff0d", "\uff20")
"""How a cell begins that a spreadsheet may take for a formula; the last four are full-width."""


def csv_bytes(table: pa.Table) -> bytes:
    """Write a table as CSV with a header line, in UTF-8.

    Text that a spreadsheet would take for a formula gets an apostrophe before it, as OWASP advises
    against CSV injection. Numbers are numbers, negative ones too.
    """
    for place, field in enumerate(table.schema):
        if pa.types.is_string(field.type):
            cells = [_inert(cell) for cell in table.column(place).to_pylist()]
            table = table.set_column(place, field, pa.array(cells, pa.string()))
    sink = io.BytesIO()
    pyarrow.csv.write_csv(table, sink)
    return sink.getvalue()


def _inert(cell: str | None) -> str | None:
    return f"'{cell}" if cell is not None and cell.startswith(_FORMULA) else cell
