"""CSV files that are safe to open in a spreadsheet."""

from __future__ import annotations

import io

import pyarrow as pa
import pyarrow.csv

_FORMULA = ("=", "+", "-", "@", "\t", "\r", "\n", "\uff1d", "\uff0b", "\uff0d", "\uff20")
"""Characters with which a formula in a spreadsheet may begin; the last four are full-width."""


def csv_bytes(table: pa.Table) -> bytes:
    """Return a table as CSV in UTF-8 with a header line.

    Text that a spreadsheet would execute as a formula is prefixed with an apostrophe, as OWASP
    advises against CSV injection. Numbers, negative ones included, are unchanged.
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
