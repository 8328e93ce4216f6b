"""Vocabularies as trees: tallies of files, in order of values, merged a few at a time.

A tally between two tasks lies in files of the run's directory, so that neither its size nor the
loss of a worker matters; whoever reads some of them holds a block of each.
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
"""Tallies that a task merges."""


@dataclass(frozen=True, slots=True)
class Stored:
    """Where a tally lies, in ascending order of its values."""

    place: Path
    name: str

    @property
    def paths(self) -> list[Path]:
        """Values and counts."""
        return [self.place / f"{self.name}.{kind}" for kind in KINDS]

    def moved(self, place: Path) -> Stored:
        """The same in another directory."""
        return Stored(place, self.name)


class Reader:
    """Reads a stored tally from its beginning, once."""

    def __init__(self, stored: Stored) -> None:
        self._paths = stored.paths
        self._at = 0
        width = next(iter(KINDS.values())).itemsize
        self.left = self._paths[0].stat().st_size // width

    def read(self, most: int) -> Tally:
        """At most so many of those that are left."""
        count = min(most, self.left)
        pieces: list[Any] = [
            np.fromfile(path, dtype, count, offset=self._at * dtype.itemsize)
            for path, dtype in zip(self._paths, KINDS.values(), strict=True)
        ]
        self._at += count
        self.left -= count
        return Tally(pieces[0], pieces[1].astype(np.int64))


def by_value(tally: Tally) -> Tally:
    """In ascending order of values."""
    order = np.argsort(tally.values)
    return Tally(tally.values[order], tally.counts[order])


def store(stored: Stored, tallies: Iterator[Tally]) -> None:
    """Write tallies, which follow one another in order of values."""
    for path in stored.paths:
        path.write_bytes(b"")
    for tally in tallies:
        write_tally(stored.paths, "ab", tally)


def merged_by_value(library: Library, tallies: Sequence[Stored], most: int) -> Iterator[Tally]:
    """One tally of all in blocks, in ascending order of values, each value in one block; without
    any value one block that is empty.

    At most ``most`` values are held, or one of each tally. What comes after the last value of a
    tally's block, where that one goes on, waits for its next block.
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
    """Tallies with no value in common, joined until they have ``least`` values."""
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
    """A tally of some files."""

    out: Stored
    files: Files


@dataclass(frozen=True, slots=True)
class Branch:
    """A tally of tallies."""

    out: Stored
    tallies: tuple[Stored, ...]


@dataclass(slots=True)
class Tree:
    """How the vocabulary of a column comes about. The root merges ``last``."""

    leaves: list[Leaf] = field(default_factory=list)
    branches: list[Branch] = field(default_factory=list)
    last: tuple[Stored, ...] = ()


def tree_of(place: Path, column: str, files: Files, most_rows: int) -> Tree:
    """Leaves of at most so many rows, or of one file each; then branches of ``FAN_IN`` each."""
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
