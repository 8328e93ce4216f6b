"""Vocabularies as trees: merging, and the result for any block size."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from storlab.engines.dask.tree import (
    FAN_IN,
    Stored,
    by_value,
    gathered,
    merged_by_value,
    store,
    tree_of,
)
from storlab.engines.dataframe.library import Tally


def tally_of(counts: dict[int, int]) -> Tally:
    values = np.array(list(counts), dtype=np.uint32)
    return Tally(values, np.array(list(counts.values()), dtype=np.int64))


def counts_of(tallies: Iterator[Tally] | Sequence[Tally]) -> Counter[int]:
    found: Counter[int] = Counter()
    for tally in tallies:
        assert not set(found) & set(tally.values.tolist())
        found.update(dict(zip(tally.values.tolist(), tally.counts.tolist(), strict=True)))
    return found


class Adding:
    """Merging library that records the largest input."""

    def __init__(self) -> None:
        self.most = 0

    def merge(self, tallies: Sequence[Tally]) -> Tally:
        self.most = max(self.most, sum(len(tally.values) for tally in tallies))
        sums: Counter[int] = Counter()
        for tally in tallies:
            sums.update(dict(zip(tally.values.tolist(), tally.counts.tolist(), strict=True)))
        return tally_of(dict(reversed(sums.items())))


@pytest.mark.parametrize("count", [1, 2, FAN_IN, FAN_IN + 1, FAN_IN**2, FAN_IN**2 + 1, 700])
def test_every_file_is_in_one_leaf_and_every_tally_merged_once(tmp_path: Path, count: int) -> None:
    files = [(tmp_path / str(number), 10) for number in range(count)]
    tree = tree_of(tmp_path, "C1", files, 10)
    assert [path for leaf in tree.leaves for path, _ in leaf.files] == [path for path, _ in files]
    made = [leaf.out for leaf in tree.leaves] + [branch.out for branch in tree.branches]
    used = [each for branch in tree.branches for each in branch.tallies] + list(tree.last)
    assert len(set(made)) == len(made)
    assert sorted(each.name for each in used) == sorted(each.name for each in made)
    assert 1 <= len(tree.last) <= FAN_IN
    assert all(2 <= len(branch.tallies) <= FAN_IN for branch in tree.branches)
    before: set[Stored] = {leaf.out for leaf in tree.leaves}
    for branch in tree.branches:  # each after its inputs
        assert before.issuperset(branch.tallies)
        before.add(branch.out)


def test_leaves_take_files_as_long_as_their_rows_fit(tmp_path: Path) -> None:
    files = [(tmp_path / str(number), rows) for number, rows in enumerate((6, 6, 1, 30))]
    tree = tree_of(tmp_path, "C2", files, 12)
    assert [[rows for _, rows in leaf.files] for leaf in tree.leaves] == [[6, 6], [1], [30]]
    assert tree.branches == []


@pytest.mark.parametrize("most", [1, 3, 7, 64, 10_000])
def test_blocks_add_up_and_no_more_is_held_than_may_be(tmp_path: Path, most: int) -> None:
    every = [
        {(number * 2_654_435_761) % 1009: number % 5 + 1 for number in range(start, start + size)}
        for start, size in ((0, 200), (100, 300), (50, 1), (0, 0))
    ]
    stored = []
    for number, counts in enumerate(every):
        stored.append(Stored(tmp_path, f"t{number}"))
        store(stored[-1], iter([by_value(tally_of(counts))]))
    library: Any = Adding()
    blocks = list(merged_by_value(library, stored, most))
    sums: Counter[int] = Counter()
    for counts in every:
        sums.update(counts)
    assert counts_of(blocks) == sums
    values = np.concatenate([block.values for block in blocks])
    assert (np.diff(values.astype(np.int64)) > 0).all()
    assert library.most <= max(most, len(stored))
    again = Stored(tmp_path, "again")
    store(again, iter(blocks))
    assert counts_of(merged_by_value(library, [again], most)) == sums


def test_blocks_are_joined_until_there_is_enough() -> None:
    blocks = [tally_of({number: 1}) for number in range(7)]
    joined = list(gathered(iter(blocks), 3))
    assert [len(each.values) for each in joined] == [3, 3, 1]
    assert counts_of(joined) == Counter(range(7))
    assert list(gathered(iter([]), 3)) == []
