"""Change points on synthetic series: false alarms, and detection of planted changes."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import norm, rankdata

from storlab.analysis.changes import (
    LEVELS,
    TABLE,
    chance_of,
    change_points,
    largest_difference,
)

NOISE = 0.01
DRAWS = {
    "normal": lambda random, size: random.normal(size=size),
    "heavy tails": lambda random, size: random.standard_t(3, size=size),
    "skewed": lambda random, size: random.exponential(size=size),
    "few digits": lambda random, size: np.round(random.normal(size=size)),
    "two values": lambda random, size: random.integers(0, 2, size=size),
}


def tell(text: str) -> None:
    print(text)  # noqa: T201 - rates, shown by pytest -s


def series(random: np.random.Generator, size: int, kind: str = "normal") -> np.ndarray:
    return 1000 * (1 + NOISE * DRAWS[kind](random, size))


def places(values: np.ndarray) -> list[int]:
    return [change.index for change in change_points(list(values))]


def near(found: list[int], truth: int) -> bool:
    return any(abs(place - truth) <= 2 for place in found)


@pytest.mark.parametrize("kind", DRAWS)
def test_false_alarms_in_noise_of_a_hundred_values(kind: str) -> None:
    random = np.random.default_rng(17)
    count = 1000
    alarms = sum(bool(places(series(random, 100, kind))) for _ in range(count))
    tell(f"{kind}: false alarms in {100 * alarms / count:.1f} % of series of 100 values")
    assert alarms / count <= 0.05


@pytest.mark.parametrize("size", [9, 15, 30, 70])
def test_false_alarms_between_the_rows_of_the_table(size: int) -> None:
    random = np.random.default_rng(size)
    count = 1000
    alarms = sum(bool(places(series(random, size))) for _ in range(count))
    tell(f"{size} values: false alarms in {100 * alarms / count:.1f} % of series")
    assert alarms / count <= 0.053  # 0.035 plus three standard errors of the simulation


@pytest.mark.parametrize("size", [20, 50, 100])
def test_a_change_of_five_percent_is_found_where_it_is(size: int) -> None:
    random = np.random.default_rng(size)
    count, hits = 300, 0
    for _ in range(count):
        values, truth = series(random, size), int(random.integers(size // 4, 3 * size // 4))
        values[truth:] *= random.choice([0.95, 1.05])
        hits += near(places(values), truth)
    tell(f"{size} values: {100 * hits / count:.1f} % found within two values")
    assert hits / count >= 0.9


@pytest.mark.parametrize(("size", "newest"), [(100, 2), (50, 3), (20, 3)])
def test_a_change_is_seen_soon_after_it_came(size: int, newest: int) -> None:
    random = np.random.default_rng(size + newest)
    count, hits = 300, 0
    for _ in range(count):
        values = series(random, size)
        values[-newest:] *= 0.95
        hits += near(places(values), size - newest)
    tell(f"{size} values: {100 * hits / count:.1f} % seen after {newest} values")
    assert hits / count >= 0.9


def test_several_changes_are_found_one_by_one() -> None:
    random = np.random.default_rng(4)
    count, hits, more = 200, 0, 0
    for _ in range(count):
        values = series(random, 120)
        values[30:60] *= 1.05
        values[60:90] *= 1.1
        found = places(values)
        hits += all(near(found, truth) for truth in (30, 60, 90))
        more += len(found) > 3
    assert hits / count >= 0.9
    assert more / count <= 0.1  # includes noise next to real changes


def test_one_outlier_is_no_change() -> None:
    random = np.random.default_rng(5)
    count, hits = 300, 0
    for _ in range(count):
        values = series(random, 60)
        values[40] = 10.0
        hits += near(places(values), 40) or near(places(values), 41)
    assert hits / count <= 0.05


def test_what_is_the_same_all_along_has_no_change() -> None:
    assert change_points([5.0] * 40) == []


def test_of_equal_values_no_order_is_a_change() -> None:
    for size in range(4, 300):
        values = np.array([3.0] * (size // 2) + [4.0] * (size - size // 2))
        found = places(values)
        assert len(found) == (size > 7), size
        assert all(abs(place - size // 2) <= 1 for place in found), size
        assert change_points([3.0] * size) == []


def test_few_values_tell_nothing() -> None:
    assert change_points([]) == []
    assert change_points([1.0]) == []
    assert change_points([1.0, 1.0, 1.0, 9.0, 9.0, 9.0]) == []
    assert [c.index for c in change_points([1.0, 1.1, 1.2, 1.3, 1.4, 9.0, 9.1, 9.2, 9.3, 9.4])] == [
        5
    ]


def test_values_that_are_not_finite_are_refused() -> None:
    with pytest.raises(ValueError, match="not finite"):
        change_points([1.0, float("nan"), 2.0])


def test_chances_follow_the_table() -> None:
    for number, limits in TABLE.items():
        assert list(limits) == sorted(limits)
        assert chance_of(limits[0], number) == 1.0
        if limits[2] > limits[1] > limits[0]:
            assert chance_of(limits[0] + 0.001, number) == LEVELS[0]
            assert chance_of(limits[1] + 0.001, number) == LEVELS[1]
            assert chance_of(limits[2] + 0.001, number) == LEVELS[2]


def test_the_table_is_that_of_its_simulation() -> None:
    random = np.random.default_rng(8)
    found = [largest_difference(random.permutation(40).astype(float))[0] for _ in range(3000)]
    share = np.mean(np.array(found) > TABLE[40][0])
    assert 0.025 <= share <= 0.045  # 0.035 with three standard errors


def test_the_distance_is_the_energy_distance() -> None:
    """Check the distance against the paper's definition over pairs, within the grid's error."""
    random = np.random.default_rng(9)
    values = random.normal(size=60)
    values[35:] += 2
    difference, split = largest_difference(values)
    scores = norm.ppf((rankdata(values) - 0.5) / 60)
    before, after = scores[:split], scores[split:]
    across = np.abs(before[:, None] - after[None, :]).mean()
    within = sum(np.abs(part[:, None] - part[None, :]).mean() for part in (before, after))
    weight = len(before) * len(after) / 60
    assert difference == pytest.approx(weight * (2 * across - within), rel=0.05)
