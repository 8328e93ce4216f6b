"""A thousand directories with planted changes: detection rate, position, and cause.

The records are generated in the index format, because a thousand real directories would take a
minute without testing more. ``tests/integration/history`` reads real ones.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

import numpy as np
import pytest

from storlab.history.record import PointRecord, Record
from storlab.history.series import History, PointHistory, Shift, history_of

NIGHTS, NOISE = 1000, 0.01
BEGIN = datetime(2023, 1, 2, 3, 0, tzinfo=UTC)
CHANGING = [f"Disk {number}" for number in range(12)]
QUIET = [f"Tape {number}" for number in range(30)]
PLANTED, APART, EDGE = 8, 25, 10  # changes of a target, nights between two, and from the ends
KEYS = ("throughput_mb_s.all", "latency_p99_ns.read")
NEAR = 2

Places = dict[str, list[int]]


def tell(text: str) -> None:
    print(text)  # noqa: T201 - rates, shown by pytest -s


def planted(random: np.random.Generator) -> Places:
    """Return, by target, the nights that start a new level."""
    free = NIGHTS - 2 * EDGE - (PLANTED - 1) * APART
    return {
        target: [
            EDGE + int(place) + number * APART
            for number, place in enumerate(np.sort(random.integers(0, free, PLANTED)))
        ]
        for target in CHANGING
    }


def levels(random: np.random.Generator, places: Sequence[int]) -> np.ndarray:
    """Return the level of each night: 3 to 8 % up or down at each change."""
    factors = np.ones(NIGHTS)
    for place in places:
        by = 1 + random.uniform(0.03, 0.08)
        factors[place:] *= by if random.integers(2) else 1 / by
    return factors


def point(target: str, night: int, values: Sequence[float]) -> PointRecord:
    started = (BEGIN + timedelta(days=night)).isoformat()
    return {
        "kind": "block", "workload": "random reads", "engine": "native", "target": target,
        "params": {"access": "random", "block_size": 4096, "read_percent": 100, "jobs": 1,
                   "queue_depth": 8},
        "point_id": target, "started_at": started, "runs": 3, "failed": 0, "flags": [],
        "values": {
            key: {"estimate": value, "low": value * 0.99, "high": value * 1.01,
                  "runs": [value * 0.99, value, value * 1.01]}
            for key, value in zip(KEYS, values, strict=True)
        },
    }  # fmt: skip


def records(random: np.random.Generator, places: Places) -> Iterator[tuple[str, Record]]:
    """Return one directory per night; the target's firmware changes with its level."""
    series = {}
    for target in (*CHANGING, *QUIET):
        level = levels(random, places.get(target, ()))
        noise = 1 + NOISE * random.normal(size=(2, NIGHTS))
        series[target] = (1000 * level * noise[0], 1e5 / level * noise[1])
    for night in range(NIGHTS):
        facts: dict[str, Any] = {"kernel": "Linux 6.8"}
        for target in series:
            version = sum(night >= place for place in places.get(target, ()))
            facts[f"targets.{target}.drives.1.firmware"] = f"FW{version}"
        yield f"/results/night-{night:04d}", {
            "study": "nightly", "plan_hash": "0", "imported": False, "facts": facts,
            "created_at": (BEGIN + timedelta(days=night)).isoformat(),
            "points": [
                point(target, night, [float(quantity[night]) for quantity in quantities])
                for target, quantities in series.items()
            ],
        }  # fmt: skip


@pytest.fixture(scope="module")
def truth() -> Places:
    return planted(np.random.default_rng(7))


@pytest.fixture(scope="module")
def history(truth: Places) -> History:
    return history_of(dict(records(np.random.default_rng(8), truth)))


def series_of(history: History, names: Sequence[str]) -> list[tuple[PointHistory, list[Shift]]]:
    return [
        (point, series.shifts)
        for point in history.points
        for series in point.series
        if point.target in names
    ]


def test_nine_of_ten_planted_changes_are_found_within_two_results(
    history: History, truth: Places
) -> None:
    asked = found = more = 0
    for own, shifts in series_of(history, CHANGING):
        assert len(own.results) == NIGHTS
        places = truth[own.target]
        hits = [place for place in places if any(abs(s.index - place) <= NEAR for s in shifts)]
        asked, found = asked + len(places), found + len(hits)
        more += sum(all(abs(s.index - place) > NEAR for place in places) for s in shifts)
    assert asked == len(CHANGING) * len(KEYS) * PLANTED
    tell(
        f"{NIGHTS:,} directories: {found} of {asked} planted changes of 3 to 8 % found within "
        f"{NEAR} results ({100 * found / asked:.1f} %); {more} found where none was planted"
    )
    assert found / asked >= 0.9
    assert more / asked <= 0.1


def test_series_of_noise_have_no_changes_but_by_chance(history: History) -> None:
    quiet = series_of(history, QUIET)
    alarms = sum(bool(shifts) for _, shifts in quiet)
    tell(f"{len(quiet)} series of {NIGHTS:,} without a change: {alarms} false alarms")
    assert len(quiet) == len(QUIET) * len(KEYS)
    assert alarms / len(quiet) <= 0.05


def test_what_changed_with_it_stands_first_beside_it(history: History, truth: Places) -> None:
    asked = named = 0
    for own, shifts in series_of(history, CHANGING):
        for shift in shifts:
            if any(abs(shift.index - place) <= NEAR for place in truth[own.target]):
                asked += 1
                fields = [candidate.difference.field for candidate in shift.candidates]
                named += fields == ["drives.1.firmware"]
    tell(f"{named} of {asked} changes name the firmware that was planted, and nothing else")
    assert named == asked > 100
