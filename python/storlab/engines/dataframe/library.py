"""What a data frame library does for preprocessing; all the rest is the same for every library.

Arrays of values are uint32, of counts int64; a missing value is in neither.
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
KEYS = 1 << 32  # a category is below it
FEATURE_ROWS = 1 << 15  # whose integers are float64 at a time


class Tally(NamedTuple):
    """How often each value is there."""

    values: Values  # each once, in any order
    counts: Counts


class Features(NamedTuple):
    """What is no category, of some rows."""

    labels: npt.NDArray[np.uint8]
    numbers: npt.NDArray[np.float64]  # rows x 13: the logarithms of the integers


class Library(Protocol):
    """One instance lives in every worker."""

    threads: bool  # workers are threads of one process, whose library shares its own with them
    errors: tuple[type[Exception], ...]  # of ``parse``
    chunk_bytes: int  # of text that it parses best at once
    base_bytes: int  # of memory that it takes before there is any work,
    worker_bytes: int  # and that each worker adds
    bytes_per_value: int  # of memory that counting needs at its peak, about,
    bytes_per_id: int  # and that looking up needs for a value of the vocabulary

    def release(self) -> None:
        """Give back memory that is kept for later use."""
        ...

    def parse(self, lines: bytes) -> Any:
        """A frame of whole lines with 40 fields each. A field of another type raises."""
        ...

    def write(self, frames: Sequence[Any], path: Path, row_group_rows: int, codec: str) -> int:
        """Frames as one Parquet file; the rows in it. No frames make an empty file."""
        ...

    def count(
        self, paths: Sequence[Path], column: str, modulo: int, keys: tuple[int, int]
    ) -> Tally:
        """Values of a column, modulo a number, as far as they lie in ``[keys[0], keys[1])``."""
        ...

    def merge(self, tallies: Sequence[Tally]) -> Tally:
        """One of all."""
        ...

    def features(self, paths: Sequence[Path]) -> Iterator[Features]:
        """In pieces of at most ``FEATURE_ROWS``."""
        ...

    def index(self, values: Values) -> Any:
        """What ``ids`` needs of a vocabulary, whose values stand in the order of their ids."""
        ...

    def ids(self, paths: Sequence[Path], column: str, modulo: int, index: Any) -> Ids:
        """The id of every row; 0 where the value is missing or not in the vocabulary."""
        ...


def batches(files: Sequence[tuple[Path, int]], most_rows: int) -> Iterator[list[tuple[Path, int]]]:
    """Files with their rows in runs of at most so many rows, or of one file."""
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
    """ln(x + 3), and 0 where x is missing (NaN) or at most -3."""
    return np.log(np.fmax(integers, -2.0) + 3.0)
