"""Preprocessing pipeline in DuckDB's SQL; see ``preprocess_peer`` for the interface.

DuckDB reads text, writes Parquet, counts and joins. NumPy rounds numbers to half precision, a type
that DuckDB lacks, and writes the binary files.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import duckdb
import numpy as np
from preprocess_peer import Peer, main

from storlab.engines.dataframe.layout import CATEGORIES, INTEGERS, id_type
from storlab.workloads.preprocess.job import PreprocessJob

_TEXT = {
    "label": "TINYINT",
    **dict.fromkeys(INTEGERS, "INTEGER"),
    **dict.fromkeys(CATEGORIES, "VARCHAR"),
}
_ID = {"int8": "TINYINT", "int16": "SMALLINT", "int32": "INTEGER"}
_BATCH_ROWS = 1 << 18


class DuckDb(Peer):
    """Pipeline on one connection; each vocabulary is a table."""

    version = duckdb.__version__

    def __init__(self, job: PreprocessJob) -> None:
        super().__init__(job)
        self._duckdb = duckdb.connect()
        self._duckdb.execute(f"SET threads = {job.workers}")
        self._duckdb.execute(f"SET memory_limit = '{job.memory_bytes}B'")
        self._duckdb.execute(f"SET temp_directory = '{job.directory}/spilled'")

    def ingest(self, inputs: list[Path]) -> Iterator[Path]:
        """Write one Parquet file per input."""
        numbers = [f"('0x' || {name})::UINTEGER AS {name}" for name in CATEGORIES]
        columns = ", ".join(["label", *INTEGERS, *numbers])
        codec = "uncompressed" if self.job.compression == "none" else self.job.compression
        for index, source in enumerate(inputs):
            path = self.parquet / f"{index:03}.parquet"
            self._duckdb.execute(
                f"COPY (SELECT {columns} FROM read_csv('{source}', auto_detect = false, "
                f"header = false, delim = '\t', quote = '', escape = '', nullstr = '', "
                f"columns = {_TEXT})) TO '{path}' (FORMAT parquet, COMPRESSION {codec}, "
                f"ROW_GROUP_SIZE {self.job.row_group_rows})"
            )
            yield path

    def vocabulary(self, column: str) -> tuple[np.ndarray, np.ndarray]:
        """Count values by ``GROUP BY`` and keep the table for later joins."""
        self._duckdb.execute(
            f"CREATE TABLE {column} AS SELECT value, occurrences, "
            "row_number() OVER (ORDER BY occurrences DESC, value) AS id FROM "
            f"(SELECT {column} AS value, count(*) AS occurrences FROM {self._rows()} "
            f"WHERE {column} IS NOT NULL GROUP BY value "
            f"HAVING occurrences >= {self.job.threshold})"
        )
        kept = self._duckdb.sql(f"SELECT value, occurrences FROM {column} ORDER BY id").fetchnumpy()
        return kept["value"], kept["occurrences"]

    def labels(self) -> Iterator[np.ndarray]:
        for (label,) in self._batches("label"):
            yield label

    def numerical(self) -> Iterator[np.ndarray]:
        """Compute ``ln`` in DuckDB and round in NumPy."""
        logarithms = (
            f"CASE WHEN {name} > -3 THEN ln({name}::DOUBLE + 3) ELSE 0 END" for name in INTEGERS
        )
        for columns in self._batches(", ".join(logarithms)):
            rows = np.empty((len(columns[0]), len(columns)), dtype=self.job.numerical)
            for index, column in enumerate(columns):
                rows[:, index] = column
            yield rows

    def ids(self, column: str) -> Iterator[np.ndarray]:
        """Look up ids by a left join with the vocabulary, which keeps the row order."""
        kind = _ID[id_type(self.cardinalities[column])]
        join = f"LEFT JOIN {column} AS kept ON rows.{column} = kept.value"
        for (ids,) in self._batches(f"coalesce(kept.id, 0)::{kind}", join):
            yield ids

    def _rows(self) -> str:
        return f"read_parquet({[str(path) for path in self.files]})"

    def _batches(self, columns: str, join: str = "") -> Iterator[list[np.ndarray]]:
        query = f"SELECT {columns} FROM {self._rows()} AS rows {join}"
        for batch in self._duckdb.sql(query).to_arrow_reader(_BATCH_ROWS):
            yield [column.to_numpy() for column in batch.columns]


if __name__ == "__main__":
    main(DuckDb)
