"""pandas implementation of ``Library``, with PyArrow for files and NumPy for arrays."""

from __future__ import annotations

import ctypes
import io
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd  # type: ignore[import-untyped]
import pyarrow as pa
import pyarrow.csv as pc
import pyarrow.parquet as pq

from storlab.engines.dataframe.costs import PANDAS
from storlab.engines.dataframe.layout import CATEGORIES, COLUMNS, INTEGERS
from storlab.engines.dataframe.library import (
    FEATURE_ROWS,
    KEYS,
    Features,
    Ids,
    Tally,
    Values,
    logarithms,
)

_DIGITS = 8
_TEXT = {
    "label": pa.int8(),
    **dict.fromkeys(INTEGERS, pa.int32()),
    **dict.fromkeys(CATEGORIES, pa.binary(_DIGITS)),
}
_SCHEMA = pa.schema(
    [
        pa.field("label", pa.int8(), nullable=False),
        *(pa.field(name, pa.int32()) for name in INTEGERS),
        *(pa.field(name, pa.uint32()) for name in CATEGORIES),
    ]
)
_BAD = -1


def _pairs() -> npt.NDArray[np.int16]:
    """Return a table that maps two hexadecimal characters, read as a 16-bit number, to a byte.

    Other characters map to ``_BAD``.
    """
    table = np.full(1 << 16, _BAD, dtype=np.int16)
    letters = b"0123456789abcdefABCDEF"
    for high in letters:
        for low in letters:
            table[high | low << 8] = int(bytes([high, low]), 16)
    table[0] = 0  # padding of a missing cell
    return table


_PAIRS = _pairs()


class PandasLibrary:
    """Operations with pandas, PyArrow and NumPy, for single-threaded worker processes.

    Implements ``Library``.
    """

    threads = False
    errors: tuple[type[Exception], ...] = (pa.ArrowInvalid,)
    chunk_bytes = 4 << 20
    base_bytes, worker_bytes = PANDAS.base_bytes, PANDAS.worker_bytes
    bytes_per_value = 112
    bytes_per_id = 48

    def release(self) -> None:
        """Return memory cached by PyArrow and by the C heap, which NumPy and pandas use."""
        pa.default_memory_pool().release_unused()
        with suppress(AttributeError):  # C libraries other than GNU's
            ctypes.CDLL(None).malloc_trim(0)

    def parse(self, lines: bytes) -> pa.Table:
        """Parse lines with PyArrow, and their hexadecimal categories with NumPy."""
        table = pc.read_csv(
            io.BytesIO(lines),
            read_options=pc.ReadOptions(column_names=list(COLUMNS), use_threads=False),
            parse_options=pc.ParseOptions(
                delimiter="\t", quote_char=False, ignore_empty_lines=False
            ),
            convert_options=pc.ConvertOptions(
                column_types=_TEXT,
                null_values=[""],
                strings_can_be_null=True,
                check_utf8=False,
            ),
        )
        plain = [table.column(name) for name in COLUMNS[: -len(CATEGORIES)]]
        numbers = [_numbers(table.column(name)) for name in CATEGORIES]
        return pa.table([*plain, *numbers], schema=_SCHEMA)

    def write(self, frames: Sequence[pa.Table], path: Path, row_group_rows: int, codec: Any) -> int:
        """Write frames to a Parquet file with PyArrow and return the number of rows."""
        table = pa.concat_tables(frames) if frames else _SCHEMA.empty_table()
        pq.write_table(table, path, row_group_size=row_group_rows, compression=codec)
        return int(table.num_rows)

    def count(
        self, paths: Sequence[Path], column: str, modulo: int, keys: tuple[int, int]
    ) -> Tally:
        """Count the values of a column by sorting them, which NumPy vectorises."""
        values = _reduced(_read(paths, [column]).column(0).drop_null().to_numpy(), modulo)
        if keys != (0, modulo):
            values = values[(values >= keys[0]) & (values < keys[1])]
        return Tally(*np.unique(values, return_counts=True))

    def merge(self, tallies: Sequence[Tally]) -> Tally:
        """Merge tallies by adding the counts of equal values with ``groupby``."""
        if not tallies:
            return Tally(np.empty(0, dtype=np.uint32), np.empty(0, dtype=np.int64))
        if len(tallies) == 1:
            return tallies[0]
        values = np.concatenate([tally.values for tally in tallies])
        counts = pd.Series(np.concatenate([tally.counts for tally in tallies]))
        sums = counts.groupby(values, sort=False).sum()
        return Tally(sums.index.to_numpy(np.uint32), sums.to_numpy(np.int64))

    def features(self, paths: Sequence[Path]) -> Iterator[Features]:
        """Yield blocks of labels and ln(x + 3) of integers; a missing x is NaN and results in 0."""
        table = _read(paths, ["label", *INTEGERS])
        for at in range(0, table.num_rows, FEATURE_ROWS):
            frame = table.slice(at, FEATURE_ROWS).to_pandas(use_threads=False)
            integers = frame[list(INTEGERS)].to_numpy(dtype=np.float64)
            yield Features(frame["label"].to_numpy().astype(np.uint8), logarithms(integers))

    def index(self, values: Values) -> Any:
        """Return a pandas index; the position of a value is its id minus one."""
        return pd.Index(values)

    def ids(self, paths: Sequence[Path], column: str, modulo: int, index: Any) -> Ids:
        """Return each row's id by ``Index.get_indexer``, which returns -1 for unknown values."""
        cells: Any = _read(paths, [column]).column(0)
        values = _reduced(cells.fill_null(0).to_numpy(), modulo)
        places: Ids = (index.get_indexer(values) + 1).astype(np.int32)
        if cells.null_count:
            places[cells.is_null().to_numpy()] = 0
        return places


def _read(paths: Sequence[Path], columns: list[str]) -> pa.Table:
    return pa.concat_tables(
        [pq.ParquetFile(path).read(columns, use_threads=False) for path in paths]
    )


def _numbers(column: Any) -> Any:
    """Convert texts of eight hexadecimal digits to uint32. Raises ArrowInvalid for other text."""
    cells = column.combine_chunks()
    validity, letters = cells.buffers()
    pairs = np.frombuffer(letters, dtype=np.uint16, count=len(cells) * _DIGITS // 2)
    values = _PAIRS[pairs].reshape(-1, _DIGITS // 2)
    bad = values == _BAD
    if bad.any() and bad[cells.is_valid().to_numpy(zero_copy_only=False)].any():
        raise pa.ArrowInvalid("a categorical value is not a hexadecimal number")
    numbers: Any = values[:, ::-1].astype(np.uint8).view(np.uint32)
    return pa.Array.from_buffers(pa.uint32(), len(cells), [validity, pa.py_buffer(numbers)])


def _reduced(values: Values, modulo: int) -> Values:
    return values if modulo == KEYS else values % np.uint32(modulo)
