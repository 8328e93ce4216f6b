"""Check the change-point method of storlab.analysis.changes: limits, false alarms, power.

``python benches/change_points.py --table`` simulates the table of limits (minutes). Without it, the
false alarm rates and detection rates of docs/method are printed.
"""

from __future__ import annotations

import argparse
import math

import numpy as np

from storlab.analysis.changes import TABLE, Change, change_points, largest_difference

SIZES = (8, 9, 10, 12, 14, 17, 20, 25, 32, 40, 50, 64, 80, 100, 140, 200, 300, 500, 1000, 2000)
QUANTILES = (0.965, 0.99, 0.999)
NOISE = 0.01


def table(draws: int) -> None:
    """Print, per series length, the quantiles of the largest difference under random order."""
    random = np.random.default_rng(20261123)
    for size in SIZES:
        count = draws if size <= 200 else draws // 2
        chances = [
            largest_difference(random.permutation(size).astype(float))[0] for _ in range(count)
        ]
        limits = np.quantile(chances, QUANTILES, method="higher")
        told = ", ".join(f"{math.ceil(100 * limit) / 100:.2f}" for limit in limits)
        print(f"    {size}: ({told}),", flush=True)


def noise(random: np.random.Generator, kind: str, size: int) -> np.ndarray:
    """Return values around 1,000 with 1 % noise from one of several distributions."""
    drawn = {
        "normal": lambda: random.normal(size=size),
        "t, 3 degrees": lambda: random.standard_t(3, size=size),
        "exponential": lambda: random.exponential(size=size),
        "three digits": lambda: random.normal(size=size),
    }[kind]()
    values = 1000 * (1 + NOISE * drawn)
    return np.round(values, -1) if kind == "three digits" else values


def false_alarms(series: int) -> None:
    """Print the share of pure noise series in which a change is found."""
    random = np.random.default_rng(1)
    for size in (10, 20, 50, 100, 300):
        shares = []
        for kind in ("normal", "t, 3 degrees", "exponential", "three digits"):
            hits = sum(bool(change_points(noise(random, kind, size))) for _ in range(series))
            shares.append(f"{kind} {100 * hits / series:.1f} %")
        print(f"{size} values: {', '.join(shares)}")


def found_near(changes: list[Change], place: int) -> bool:
    """Return whether a change lies within two values of ``place``."""
    return any(abs(change.index - place) <= 2 for change in changes)


def power(series: int) -> None:
    """Print the share of planted changes that are found within two values."""
    random = np.random.default_rng(2)
    for size in (12, 20, 50, 100, 300):
        told = []
        for shift in (0.02, 0.05):
            hits = 0
            for _ in range(series):
                values, place = noise(random, "normal", size), size * 6 // 10
                values[place:] *= 1 + shift
                hits += found_near(change_points(values), place)
            told.append(f"{100 * shift:.0f} % at 60 % of the series {100 * hits / series:.1f} %")
        for newest in (2, 3, 4):
            hits = 0
            for _ in range(series):
                values = noise(random, "normal", size)
                values[-newest:] *= 1.05
                hits += found_near(change_points(values), size - newest)
            told.append(f"5 % in the newest {newest} {100 * hits / series:.1f} %")
        hits = 0
        for _ in range(series):
            values = noise(random, "normal", size)
            start, end = size * 4 // 10, size * 6 // 10
            values[start:end] *= 1.05
            changes = change_points(values)
            hits += found_near(changes, start) and found_near(changes, end)
        told.append(f"5 % for a fifth of it, both ends {100 * hits / series:.1f} %")
        print(f"{size} values: {', '.join(told)}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--table", action="store_true", help="simulate the table of limits")
    parser.add_argument("--series", type=int, default=2000, help="of noise for each share (2000)")
    options = parser.parse_args()
    if options.table:
        table(6 * options.series)
        return
    assert TABLE
    false_alarms(options.series)
    power(max(1, options.series // 4))


if __name__ == "__main__":
    main()
