"""Vocabularies merged from runs equal those of one sort, for any memory limit."""

from __future__ import annotations

import itertools
import json
import tempfile
from pathlib import Path

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from storlab.engines.dataframe.library import Tally
from storlab.engines.dataframe.vocabulary import Run, in_id_order, merged, write_vocabulary

Counts = dict[int, int]

counts_of_values = st.dictionaries(
    st.integers(min_value=0, max_value=2**32 - 1) | st.integers(min_value=0, max_value=40),
    st.integers(min_value=1, max_value=4) | st.integers(min_value=1, max_value=2**40),
)


def tally_of(counts: Counts) -> Tally:
    return Tally(
        np.array(list(counts), dtype=np.uint32), np.array(list(counts.values()), dtype=np.int64)
    )


def ranges(counts: Counts, cuts: list[int]) -> list[Tally]:
    """Draw disjoint ranges of values as passes produce them; some may be empty."""
    edges = [0, *sorted(cuts), 2**32]
    return [
        tally_of({v: n for v, n in counts.items() if low <= v < high})
        for low, high in itertools.pairwise(edges)
    ]


def in_order(counts: Counts, threshold: int) -> list[tuple[int, int]]:
    kept = [(value, count) for value, count in counts.items() if count >= threshold]
    return sorted(kept, key=lambda each: (-each[1], each[0]))


def pairs(tally: Tally) -> list[tuple[int, int]]:
    return list(zip(tally.values.tolist(), tally.counts.tolist(), strict=True))


@given(
    counts_of_values,
    st.lists(st.integers(min_value=0, max_value=60), max_size=5),
    st.integers(min_value=1, max_value=7),
)
def test_merged_runs_are_one_sorted_run(counts: Counts, cuts: list[int], most: int) -> None:
    with tempfile.TemporaryDirectory() as place:
        runs = [
            Run(Path(place), str(number), in_id_order(tally, 0))
            for number, tally in enumerate(ranges(counts, cuts))
        ]
        pieces = list(merged(runs, most))
    assert [pair for piece in pieces for pair in pairs(piece)] == in_order(counts, 0)
    assert all(len(piece.values) <= most * len(runs) for piece in pieces)


@given(
    counts_of_values,
    st.lists(st.integers(min_value=0, max_value=2**32 - 1), max_size=4),
    st.integers(min_value=0, max_value=3),
    st.integers(min_value=1, max_value=9),
)
def test_files_do_not_depend_on_the_passes(
    counts: Counts, cuts: list[int], threshold: int, most: int
) -> None:
    tallies = ranges(counts, cuts)
    with tempfile.TemporaryDirectory() as directory:
        place = Path(directory)
        assert write_vocabulary(place, "C1", iter(tallies), threshold, most) == len(tallies)
        files = {path.name: path.read_bytes() for path in place.iterdir()}
    expected = in_order(counts, threshold)
    assert sorted(files) == ["C1.counts", "C1.json", "C1.values"]
    assert files["C1.values"] == np.array([v for v, _ in expected], dtype="<u4").tobytes()
    assert files["C1.counts"] == np.array([n for _, n in expected], dtype="<u8").tobytes()
    assert json.loads(files["C1.json"]) == {"kept": len(expected), "distinct": len(counts)}
