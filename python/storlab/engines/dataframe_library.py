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
_BATCH_ROWS = 1 << 22  # that are counted at once


class Tally(NamedTuple):
    """How often each value is there."""

    values: Values  # each once, in any order
    counts: Counts


class Library(Protocol):
    """One instance lives in every worker."""

    threads: bool  # workers are threads of one process, whose library shares its own with them
    errors: tuple[type[Exception], ...]  # of ``parse``
    chunk_bytes: int  # of text that it parses best at once
    bytes_per_value: int  # of memory that counting needs at its peak, about

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

    def features(
        self, paths: Sequence[Path]
    ) -> tuple[npt.NDArray[np.uint8], npt.NDArray[np.float64]]:
        """Labels, and the logarithms of the integers: see ``logarithms``; rows x 13."""
        ...

    def index(self, values: Values) -> Any:
        """What ``ids`` needs of a vocabulary, whose values stand in the order of their ids."""
        ...

    def ids(self, paths: Sequence[Path], column: str, modulo: int, index: Any) -> Ids:
        """The id of every row; 0 where the value is missing or not in the vocabulary."""
        ...


def batches(files: Sequence[tuple[Path, int]], most_rows: int) -> Iterator[list[Path]]:
    """Files with their rows in runs of at most so many rows, or of one file."""
    batch: list[Path] = []
    held = 0
    for path, rows in files:
        if batch and held + rows > most_rows:
            yield batch
            batch, held = [], 0
        batch.append(path)
        held += rows
    if batch:
        yield batch


def vocabulary_passes(
    library: Library, files: Sequence[tuple[Path, int]], column: str, modulo: int, most: int
) -> Iterator[Tally]:
    """Tallies of a column in all files, over ascending ranges of keys: one for each pass.

    At most ``most`` values are held at once, or those of two files: where a pass finds more, it
    leaves the upper half of its range to the next one.
    """
    low = 0
    while low < modulo:
        high = modulo
        whole = library.merge([])
        waiting: list[Tally] = []
        for paths in batches(files, min(most // 4, _BATCH_ROWS)):
            waiting.append(library.count(paths, column, modulo, (low, high)))
            held = sum(len(tally.values) for tally in waiting)
            if held < max(len(whole.values), most // 4) and held + len(whole.values) < most:
                continue
            whole = library.merge([whole, *waiting])
            waiting = []
            if len(whole.values) > most // 2:
                high = int(np.partition(whole.values, most // 2)[most // 2])
                lower = whole.values < high
                whole = Tally(whole.values[lower], whole.counts[lower])
        yield library.merge([whole, *waiting])
        low = high


def in_id_order(tallies: Sequence[Tally], threshold: int) -> Tally:
    """What is kept of disjoint tallies, most frequent first, and the smallest of equal ones."""
    kept = [
        Tally(each.values[each.counts >= threshold], each.counts[each.counts >= threshold])
        for each in tallies
    ]
    values = np.concatenate([each.values for each in kept])
    counts = np.concatenate([each.counts for each in kept])
    order = np.lexsort((values, -counts))
    return Tally(values[order], counts[order])


def logarithms(integers: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """ln(x + 3), and 0 where x is missing (NaN) or at most -3."""
    return np.log(np.fmax(integers, -2.0) + 3.0)
