"""Construction of a column's vocabulary (its distinct values in order of ids) in limited memory.

Values are counted in several passes over the data, one range of values per pass. Each pass stores
its values, sorted, in files (a ``Run``); afterwards these sorted runs are merged in blocks.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from storlab.engines.dataframe.layout import aside, publish_json, settle
from storlab.engines.dataframe.library import Library, Tally, batches

_BATCH_ROWS = 1 << 22  # rows counted at once
KINDS: dict[str, np.dtype[Any]] = {"values": np.dtype("<u4"), "counts": np.dtype("<u8")}


def vocabulary_passes(
    library: Library, files: Sequence[tuple[Path, int]], column: str, modulo: int, most: int
) -> Iterator[Tally]:
    """Count the values of a column in several passes and yield the counts of each pass.

    Passes cover ascending ranges of values. About ``most`` values are held at once, but at least
    all of two files. If a pass finds more values, it leaves the upper ones to the next pass.
    """
    low = 0
    while low < modulo:
        high = modulo
        whole = library.merge([])
        waiting: list[Tally] = []
        for batch in batches(files, min(most // 4, _BATCH_ROWS)):
            paths = [path for path, _ in batch]
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
        whole = library.merge([whole, *waiting])
        waiting = []
        yield whole
        low = high


def in_id_order(tally: Tally, threshold: int) -> Tally:
    """Return the values with at least ``threshold`` occurrences, with their counts, sorted by id.

    More frequent values get smaller ids; equally frequent ones are in ascending order.
    """
    kept = tally.counts >= threshold
    return _sorted(tally.values[kept], tally.counts[kept])


def _sorted(values: Any, counts: Any) -> Tally:
    order = np.lexsort((values, -counts))
    return Tally(values[order], counts[order])


class Run:
    """Sorted run: values and counts of one pass in order of ids, in files read sequentially."""

    def __init__(self, place: Path, name: str, tally: Tally) -> None:
        """Write values and counts to temporary files."""
        self.paths = [aside(place / f"{name}.{kind}") for kind in KINDS]
        self.left = len(tally.values)
        self._at = 0
        write_tally(self.paths, "wb", tally)

    def read(self, most: int) -> Tally:
        """Return the next block of at most ``most`` values."""
        count = min(most, self.left)
        pieces = [
            np.fromfile(path, dtype, count, offset=self._at * dtype.itemsize)
            for path, dtype in zip(self.paths, KINDS.values(), strict=True)
        ]
        self._at += count
        self.left -= count
        return Tally(pieces[0], pieces[1].astype(np.int64))


def write_tally(paths: Sequence[Path], mode: str, tally: Tally) -> None:
    """Write values to the first path and their counts to the second, opened with ``mode``."""
    numbers: tuple[npt.NDArray[Any], ...] = tally
    for path, dtype, column in zip(paths, KINDS.values(), numbers, strict=True):
        with path.open(mode) as file:
            file.write(column.astype(dtype, copy=False).data)


def merged(runs: Sequence[Run], most: int) -> Iterator[Tally]:
    """Merge sorted runs, which share no value, and yield blocks of values in order of ids.

    At most ``most`` values of each run are held in memory. A value is yielded only after every
    unfinished run has been read up to it: before that, a run may contain a value that precedes it.
    """
    held = [run.read(most) for run in runs]
    while any(len(block.values) for block in held):
        ends = [
            (-int(block.counts[-1]), int(block.values[-1]))
            for run, block in zip(runs, held, strict=True)
            if run.left
        ]
        cuts = [_until(block, *min(ends)) if ends else len(block.values) for block in held]
        pieces = list(zip(held, cuts, strict=True))
        yield _sorted(
            np.concatenate([block.values[:cut] for block, cut in pieces]),
            np.concatenate([block.counts[:cut] for block, cut in pieces]),
        )
        held = [Tally(block.values[cut:], block.counts[cut:]) for block, cut in pieces]
        held = [
            block if len(block.values) else run.read(most)
            for run, block in zip(runs, held, strict=True)
        ]


def _until(block: Tally, minus_count: int, value: int) -> int:
    """Return how many values of a block precede or equal ``value`` in order of ids.

    That order is by descending count, then by value; ``minus_count`` is the negated count.
    """
    values, counts = block
    before = (counts > -minus_count) | ((counts == -minus_count) & (values <= value))
    return int(np.count_nonzero(before))


def write_vocabulary(
    place: Path, column: str, tallies: Iterable[Tally], threshold: int, most: int
) -> int:
    """Write the vocabulary files of a column and return the number of passes.

    Args:
        place: The directory of the files.
        column: The name of the column.
        tallies: The values and counts of each pass.
        threshold: The smallest count of values to keep.
        most: The number of values to hold in memory; at least one of each pass is held.
    """
    runs: list[Run] = []
    distinct = 0
    for tally in tallies:
        runs.append(Run(place, f"{column}.run-{len(runs)}", in_id_order(tally, threshold)))
        distinct += len(tally.values)
        del tally  # free its memory before the next pass
    kept = sum(run.left for run in runs)
    whole = [place / f"{column}.{kind}" for kind in KINDS]
    beside = [aside(path) for path in whole]
    if len(runs) == 1:
        for path, target in zip(runs[0].paths, beside, strict=True):
            path.replace(target)
    else:
        for path in beside:
            path.write_bytes(b"")
        for tally in merged(runs, max(most // len(runs), 1)):
            write_tally(beside, "ab", tally)
    for path in whole:
        settle(path)
    for path in (path for run in runs for path in run.paths):
        path.unlink(missing_ok=True)
    publish_json(place / f"{column}.json", {"kept": kept, "distinct": distinct})
    return len(runs)
