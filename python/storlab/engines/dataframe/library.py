"""Interface of the operations that differ between data frame libraries.

Values are arrays of uint32, and their counts are arrays of int64. Missing values are left out.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple, Protocol

import numpy as np
import numpy.typing as npt

Values = npt.NDArray[np.uint32]
Counts = npt.NDArray[np.int64]
Ids = npt.NDArray[np.int32]
KEYS = 1 << 32  # categories are smaller than this
FEATURE_ROWS = 1 << 15  # rows per block of features; limits memory, as integers become float64


class Tally(NamedTuple):
    """Distinct values of a column, and the number of occurrences of each."""

    values: Values  # distinct, in any order
    counts: Counts


class Features(NamedTuple):
    """Label and integer columns of a block of rows."""

    labels: npt.NDArray[np.uint8]
    numbers: npt.NDArray[np.float64]  # rows x 13: the logarithms of the integers


class Library(Protocol):
    """Interface of a data frame library. Every worker has one instance."""

    threads: bool  # whether workers are threads that share the library's own threads
    errors: tuple[type[Exception], ...]  # exceptions that ``parse`` raises
    chunk_bytes: int  # bytes of text that it parses most efficiently at once
    base_bytes: int  # memory of an idle coordinator
    worker_bytes: int  # additional memory of each idle worker
    bytes_per_value: int  # approximate peak memory per value while counting
    bytes_per_id: int  # approximate peak memory per vocabulary value while looking up

    def release(self) -> None:
        """Return cached memory to the operating system."""
        ...

    def parse(self, lines: bytes) -> Any:
        """Parse complete lines of 40 fields into a data frame.

        Raises one of the exceptions in ``errors`` if a field does not have its column's type.
        """
        ...

    def write(self, frames: Sequence[Any], path: Path, row_group_rows: int, codec: str) -> int:
        """Write frames, if any, to one Parquet file and return the number of rows."""
        ...

    def count(
        self, paths: Sequence[Path], column: str, modulo: int, keys: tuple[int, int]
    ) -> Tally:
        """Count a column's values modulo ``modulo`` that lie in ``[keys[0], keys[1])``."""
        ...

    def merge(self, tallies: Sequence[Tally]) -> Tally:
        """Merge tallies (values with counts) into one by adding the counts of equal values."""
        ...

    def features(self, paths: Sequence[Path]) -> Iterator[Features]:
        """Yield the labels and integers of files in blocks of at most ``FEATURE_ROWS`` rows."""
        ...

    def index(self, values: Values) -> Any:
        """Build the lookup structure for ``ids`` from vocabulary values in order of their ids."""
        ...

    def ids(self, paths: Sequence[Path], column: str, modulo: int, index: Any) -> Ids:
        """Return the id of every row: 0 if its value is missing or not in the vocabulary."""
        ...


def batches(files: Sequence[tuple[Path, int]], most_rows: int) -> Iterator[list[tuple[Path, int]]]:
    """Group files, given with their rows, into batches of up to ``most_rows`` rows.

    A file with more rows becomes a batch of its own.
    """
    batch: list[tuple[Path, int]] = []
    held = 0
    for path, rows in files:
        if batch and held + rows > most_rows:
            yield batch
            batch, held = [], 0
        batch.append((path, rows))
        held += rows
    if batch:
        yield batch


def logarithms(integers: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """Return ln(x + 3), or 0 if x is missing (NaN) or at most -3."""
    return np.log(np.fmax(integers, -2.0) + 3.0)
