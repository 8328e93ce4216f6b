"""Properties of object sizes and mixes: one normal form, means in bounds, integer shares."""

from __future__ import annotations

import math
import random
from typing import Any

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from storlab.base.units import format_size, parse_size
from storlab.workloads.object.job import OBJECT_OPERATIONS
from storlab.workloads.object.sizes import bounds_of, mean_size, read_object_size, sizes_of
from storlab.workloads.object.spec import ObjectSpec

LARGEST = 5 << 40
SIZES = st.integers(1, LARGEST)
SMALL = st.integers(1, 1 << 33)


@st.composite
def spellings(draw: st.DrawFn, sizes: st.SearchStrategy[int] = SIZES) -> int | str:
    size = draw(sizes)
    same: list[int | str] = [size, f"{size}B", format_size(size), f" {format_size(size)} "]
    return draw(st.sampled_from(same))


@st.composite
def tables(draw: st.DrawFn) -> dict[str, Any]:
    shape = draw(st.sampled_from(["weights", "uniform", "lognormal"]))
    if shape == "weights":
        sizes = draw(st.lists(SMALL, min_size=1, max_size=6, unique=True))
        return {f"{size}B": draw(st.floats(0.001, 1e6)) for size in sizes}
    low, high = sorted(draw(st.lists(SMALL, min_size=2, max_size=2, unique=True)))
    if shape == "uniform":
        return {"uniform": [low, f"{high}B"]}
    median, sigma = draw(st.integers(low, high)), draw(st.floats(0.05, 4))
    a, b = (math.log(bound / median) / sigma for bound in (low, high))
    assume(math.erf(b / math.sqrt(2)) - math.erf(a / math.sqrt(2)) > 0.05)
    return {"lognormal": {"median": median, "sigma": sigma, "min": low, "max": high}}


@given(spellings())
def test_a_size_is_read_however_it_is_spelled(text: int | str) -> None:
    size = read_object_size(text)
    assert size == parse_size(text)
    assert bounds_of(size) == (size, size)
    assert mean_size(size) == size


@given(tables())
def test_a_table_has_one_spelling_and_reads_back(table: dict[str, Any]) -> None:
    read = read_object_size(table)
    assert read_object_size(read) == read
    low, high = bounds_of(read)
    assert 1 <= low <= high
    assert low <= mean_size(read) <= high
    assert bounds_of(read_object_size(low)) == (low, low)


@given(st.lists(st.tuples(SMALL, st.integers(1, 1000)), min_size=1, max_size=6))
def test_weights_are_relative(pairs: list[tuple[int, int]]) -> None:
    pairs = list(dict(pairs).items())
    once = read_object_size({f"{size}B": weight for size, weight in pairs})
    many = read_object_size({f"{size}B": 7 * weight for size, weight in pairs})
    assert mean_size(once) == pytest.approx(mean_size(many))
    assert {s.bytes for s in sizes_of(once).sizes} == {size for size, _ in pairs}


@pytest.mark.parametrize(
    ("median", "sigma", "low", "high"),
    [
        (1 << 20, 1.2, 4 << 10, 64 << 20),
        (1 << 20, 0.1, 1, 1 << 40),
        (100_000, 2.5, 1_000, 200_000),
        (5_000, 3.0, 4_000, 50_000_000),
    ],
)
def test_the_mean_of_a_lognormal_is_that_of_its_draws(
    median: int, sigma: float, low: int, high: int
) -> None:
    table = {"lognormal": {"median": median, "sigma": sigma, "min": low, "max": high}}
    source = random.Random(4)
    drawn: list[float] = []
    while len(drawn) < 40_000:
        size = source.lognormvariate(math.log(median), sigma)
        if low <= size <= high:
            drawn.append(size)
    mean = sum(drawn) / len(drawn)
    error = math.sqrt(sum((d - mean) ** 2 for d in drawn)) / len(drawn)
    assert abs(mean_size(read_object_size(table)) - mean) < 5 * error


PERCENT = st.one_of(st.integers(0, 100), st.floats(0, 100))


@given(st.lists(PERCENT, min_size=5, max_size=5))
def test_shares_sum_to_100_or_are_refused(percents: list[float]) -> None:
    names = ("get", "head", "list", "delete", "multi_delete")
    fields = {f"{name}_percent": p for name, p in zip(names, percents, strict=True)}
    total = sum(percents)
    assume(abs(total - 100) > 1e-6)
    if total > 100:
        with pytest.raises(ValueError, match="more than 100"):
            ObjectSpec.model_validate({"kind": "object", **fields})
        return
    from storlab.workloads.object.params import ObjectParams
    from storlab.workloads.object.rules import shares

    (params,) = ObjectSpec.model_validate({"kind": "object", **fields}).values()
    found = shares(ObjectParams.of(params))
    assert sum(found.values()) == pytest.approx(100)
    assert all(found.get(n, 0) == p for n, p in zip(names, percents, strict=True))
    assert set(found) <= set(OBJECT_OPERATIONS)
    assert found["put"] == pytest.approx(100 - total)
