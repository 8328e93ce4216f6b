"""Merge of tallies (distinct values with their counts) by a tree of Dask tasks.

Each task merges a few tallies. Tasks exchange them through files in the run's directory, so that a
lost worker loses no tally. A reader holds only one block of each tally in memory.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from storlab.engines.dataframe.library import Library, Tally, batches
from storlab.engines.dataframe.vocabulary import KINDS, write_tally

FAN_IN = 8
"""Largest number of tallies (values with counts) that one task merges."""


@dataclass(frozen=True, slots=True)
class Stored:
    """Location of a tally on disk: distinct values in ascending order, and their counts."""

    place: Path
    name: str

    @property
    def paths(self) -> list[Path]:
        """Paths of the two files of this tally, values and counts."""
        return [self.place / f"{self.name}.{kind}" for kind in KINDS]

    def moved(self, place: Path) -> Stored:
        """Return this location with another directory, ``place``; no file is moved."""
        return Stored(place, self.name)


class Reader:
    """Sequential reader of a tally (values with counts) in files."""

    def __init__(self, stored: Stored) -> None:
        self._paths = stored.paths
        self._at = 0
        width = next(iter(KINDS.values())).itemsize
        self.left = self._paths[0].stat().st_size // width

    def read(self, most: int) -> Tally:
        """Return the next block of at most ``most`` values."""
        count = min(most, self.left)
        pieces: list[Any] = [
            np.fromfile(path, dtype, count, offset=self._at * dtype.itemsize)
            for path, dtype in zip(self._paths, KINDS.values(), strict=True)
        ]
        self._at += count
        self.left -= count
        return Tally(pieces[0], pieces[1].astype(np.int64))


def by_value(tally: Tally) -> Tally:
    """Return a tally (values with counts) sorted by ascending value."""
    order = np.argsort(tally.values)
    return Tally(tally.values[order], tally.counts[order])


def store(stored: Stored, tallies: Iterator[Tally]) -> None:
    """Write a tally (values with counts) in blocks; values must ascend from block to block."""
    for path in stored.paths:
        path.write_bytes(b"")
    for tally in tallies:
        write_tally(stored.paths, "ab", tally)


def merged_by_value(library: Library, tallies: Sequence[Stored], most: int) -> Iterator[Tally]:
    """Merge stored tallies and yield the summed counts in blocks of ascending values.

    Each value occurs in one block only. If there are no values, one empty block is yielded.

    A value is yielded only after every unfinished tally has been read up to it: before that,
    another tally may still contain a smaller value.

    Args:
        library: The library that adds up counts.
        tallies: The tallies (values with counts) to merge.
        most: The number of values to hold in memory; at least one value of each tally is held.
    """
    readers = [Reader(stored) for stored in tallies]
    share = max(most // max(len(readers), 1), 1)
    held = [reader.read(share) for reader in readers]
    if not any(len(block.values) for block in held):
        yield library.merge([])
    while any(len(block.values) for block in held):
        ends = [
            block.values[-1] for reader, block in zip(readers, held, strict=True) if reader.left
        ]
        cuts = [_until(block, min(ends)) if ends else len(block.values) for block in held]
        ready = [
            Tally(block.values[:cut], block.counts[:cut])
            for block, cut in zip(held, cuts, strict=True)
        ]
        yield by_value(library.merge(ready))
        held = [
            Tally(block.values[cut:], block.counts[cut:])
            for block, cut in zip(held, cuts, strict=True)
        ]
        held = [
            block if len(block.values) else reader.read(share)
            for reader, block in zip(readers, held, strict=True)
        ]


def _until(block: Tally, last: np.uint32) -> int:
    return int(np.searchsorted(block.values, last, side="right"))


def gathered(tallies: Iterator[Tally], least: int) -> Iterator[Tally]:
    """Join consecutive tallies (values with counts) into ones of at least ``least`` values.

    The last one may be smaller. Tallies must not share values, since counts are not added up.
    """
    waiting: list[Tally] = []
    for tally in tallies:
        waiting.append(tally)
        if sum(len(tally.values) for tally in waiting) >= least:
            yield _joined(waiting)
            waiting = []
    if waiting:
        yield _joined(waiting)


def _joined(tallies: Sequence[Tally]) -> Tally:
    return Tally(
        np.concatenate([tally.values for tally in tallies]),
        np.concatenate([tally.counts for tally in tallies]),
    )


Files = Sequence[tuple[Path, int]]


@dataclass(frozen=True, slots=True)
class Leaf:
    """Task that counts the values of a column in some Parquet files and stores them at ``out``."""

    out: Stored
    files: Files


@dataclass(frozen=True, slots=True)
class Branch:
    """Task that merges several tallies (values with counts) and stores the result at ``out``."""

    out: Stored
    tallies: tuple[Stored, ...]


@dataclass(slots=True)
class Tree:
    """Tree of tasks that build a column's vocabulary; its root merges the tallies in ``last``."""

    leaves: list[Leaf] = field(default_factory=list)
    branches: list[Branch] = field(default_factory=list)
    last: tuple[Stored, ...] = ()


def tree_of(place: Path, column: str, files: Files, most_rows: int) -> Tree:
    """Return the tree of tasks that build the vocabulary of a column.

    A leaf counts values in files with up to ``most_rows`` rows together, or in one larger file. A
    branch merges up to ``FAN_IN`` tallies.
    """
    tree = Tree()
    for number, batch in enumerate(batches(files, most_rows)):
        tree.leaves.append(Leaf(Stored(place, f"{column}.0-{number}"), batch))
    level = [leaf.out for leaf in tree.leaves]
    height = 0
    while len(level) > FAN_IN:
        height += 1
        groups = [tuple(level[at : at + FAN_IN]) for at in range(0, len(level), FAN_IN)]
        level = []
        for number, group in enumerate(groups):
            if len(group) > 1:
                out = Stored(place, f"{column}.{height}-{number}")
                tree.branches.append(Branch(out, group))
                level.append(out)
            else:
                level += group
    tree.last = tuple(level)
    return tree
