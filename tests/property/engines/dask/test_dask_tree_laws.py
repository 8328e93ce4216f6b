"""Counts add up in value order, however values are spread over tallies and blocks."""

from __future__ import annotations

import tempfile
from collections import Counter
from pathlib import Path

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from storlab.engines.dask.tree import Stored, by_value, merged_by_value, store
from storlab.engines.dataframe.library import Tally
from storlab.engines.dataframe.vocabulary import write_vocabulary
from storlab.engines.dataframe.with_pandas import PandasLibrary

VALUES = st.one_of(st.integers(0, 20), st.integers(0, 2**32 - 1))
TALLIES = st.lists(st.dictionaries(VALUES, st.integers(1, 2**40), max_size=30), max_size=9)


@given(TALLIES, st.integers(1, 40), st.integers(0, 5))
def test_a_tree_gives_the_vocabulary_of_all(
    counts: list[dict[int, int]], most: int, threshold: int
) -> None:
    with tempfile.TemporaryDirectory() as place:
        stored = [Stored(Path(place), f"t{number}") for number in range(len(counts))]
        for where, each in zip(stored, counts, strict=True):
            values = np.array(list(each), dtype=np.uint32)
            tally = Tally(values, np.array(list(each.values()), dtype=np.int64))
            store(where, iter([by_value(tally)]))
        blocks = merged_by_value(PandasLibrary(), stored, most)
        write_vocabulary(Path(place), "C1", blocks, threshold, most)
        found = list(
            zip(
                np.fromfile(Path(place) / "C1.values", "<u4").tolist(),
                np.fromfile(Path(place) / "C1.counts", "<u8").tolist(),
                strict=True,
            )
        )
    sums: Counter[int] = Counter()
    for each in counts:
        sums.update(each)
    kept = [(value, count) for value, count in sums.items() if count >= threshold]
    assert found == sorted(kept, key=lambda entry: (-entry[1], entry[0]))
