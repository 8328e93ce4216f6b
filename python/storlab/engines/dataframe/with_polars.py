"""Polars implementation of ``Library``, with NumPy for arrays."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from storlab.engines.dataframe.costs import POLARS
from storlab.engines.dataframe.layout import CATEGORIES, INTEGERS
from storlab.engines.dataframe.library import FEATURE_ROWS, KEYS, Features, Ids, Tally, Values

_DIGITS = 8
_TEXT = {
    "label": pl.Int8,
    **dict.fromkeys(INTEGERS, pl.Int32),
    **dict.fromkeys(CATEGORIES, pl.String),
}
_TYPES = {name: pl.UInt32 if name in CATEGORIES else kind for name, kind in _TEXT.items()}


class PolarsLibrary:
    """Operations with Polars, called from worker threads. Implements ``Library``.

    The variable POLARS_MAX_THREADS limits Polars' own threads.
    """

    threads = True
    errors: tuple[type[Exception], ...] = (pl.exceptions.PolarsError, ValueError)
    chunk_bytes = 16 << 20
    base_bytes, worker_bytes = POLARS.base_bytes, POLARS.worker_bytes
    bytes_per_value = 160
    bytes_per_id = 72

    def release(self) -> None:
        """Do nothing: Polars' allocator returns memory to the system without being asked."""

    def parse(self, lines: bytes) -> pl.DataFrame:
        """Parse lines into columns, and their hexadecimal categories into integers."""
        frame = pl.read_csv(lines, has_header=False, separator="\t", quote_char=None, schema=_TEXT)
        categories = pl.col(CATEGORIES)
        if any(frame.select((categories.str.len_bytes() != _DIGITS).any()).row(0)):
            raise ValueError(f"a categorical value does not have {_DIGITS} hexadecimal digits")
        return frame.with_columns(categories.str.to_integer(base=16, dtype=pl.UInt32))

    def write(
        self, frames: Sequence[pl.DataFrame], path: Path, row_group_rows: int, codec: Any
    ) -> int:
        """Write frames to a Parquet file with Polars and return the number of rows."""
        frame = pl.concat(frames) if frames else pl.DataFrame(schema=_TYPES)
        codec = "uncompressed" if codec == "none" else codec
        frame.write_parquet(path, compression=codec, row_group_size=row_group_rows)
        return frame.height

    def count(
        self, paths: Sequence[Path], column: str, modulo: int, keys: tuple[int, int]
    ) -> Tally:
        """Count the values of a column with ``group_by`` and ``len``."""
        value = _reduced(column, modulo)
        frame = _scan(paths, [column]).drop_nulls().select(value=value)
        if keys != (0, modulo):
            frame = frame.filter(pl.col("value").is_between(*keys, closed="left"))
        return _tally(frame.group_by("value").agg(count=pl.len()))

    def merge(self, tallies: Sequence[Tally]) -> Tally:
        """Merge tallies by adding the counts of equal values with ``group_by`` and ``sum``."""
        if len(tallies) == 1:
            return tallies[0]
        schema = {"value": pl.UInt32, "count": pl.Int64}
        frames = [pl.LazyFrame(tally._asdict(), schema=list(schema.items())) for tally in tallies]
        frame = pl.concat([pl.LazyFrame(schema=schema), *frames])
        return _tally(frame.group_by("value").agg(pl.col("count").sum()))

    def features(self, paths: Sequence[Path]) -> Iterator[Features]:
        """Yield blocks of labels and ln(x + 3) of integers; a missing x counts as -2, hence 0."""
        integers = pl.col(INTEGERS).fill_null(-2).clip(lower_bound=-2).cast(pl.Float64)
        frame = _scan(paths, ["label", *INTEGERS]).collect()
        for piece in frame.iter_slices(FEATURE_ROWS):
            labels = piece["label"].cast(pl.UInt8).to_numpy()
            yield Features(labels, piece.select((integers + 3).log()).to_numpy())

    def index(self, values: Values) -> pl.LazyFrame:
        """Return a frame with the id of each vocabulary value."""
        ids = np.arange(1, len(values) + 1, dtype=np.int32)
        return pl.LazyFrame({"value": values, "id": ids})

    def ids(self, paths: Sequence[Path], column: str, modulo: int, index: pl.LazyFrame) -> Ids:
        """Return each row's id by a left join that keeps the order of rows."""
        rows = _scan(paths, [column])
        joined = rows.select(value=_reduced(column, modulo)).join(
            index, on="value", how="left", maintain_order="left"
        )
        return joined.select(pl.col("id").fill_null(0)).collect()["id"].to_numpy()


def _scan(paths: Sequence[Path], columns: list[str]) -> pl.LazyFrame:
    rows = pl.scan_parquet(list(paths), glob=False, hive_partitioning=False)
    return rows.select(columns)


def _reduced(column: str, modulo: int) -> pl.Expr:
    return pl.col(column) if modulo == KEYS else pl.col(column) % modulo


def _tally(frame: pl.LazyFrame) -> Tally:
    counts = frame.collect()
    return Tally(counts["value"].to_numpy(), counts["count"].cast(pl.Int64).to_numpy())
