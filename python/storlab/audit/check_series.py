"""Audit rule: report a series over a swept parameter that leaves its trend and returns to it."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence

from storlab.audit.cells import Value, measured
from storlab.audit.finding import Finding
from storlab.audit.intervals import Interval
from storlab.audit.table import PublishedTable
from storlab.base.units import exact_number

SUMMARY = "series over a swept parameter that leave their trend and return to it"
FEWEST = 4  # points on the trend; fewer points show no trend
BEYOND = 1.15  # smallest factor between an excursion and the nearer of its neighbours
UNEVEN = 1.1  # largest factor of steps against the trend within which the other points form a trend
SLOW = 1.25  # largest factor of reversals in a series that counts as turning only once
CLEAR = 4  # factor by which an excursion must exceed the unevenness of the other points

Series = list[tuple[float, Value]]
"""Pairs of swept parameter and value, in order of the parameter."""


def check(table: PublishedTable) -> Iterable[Finding]:
    """Yield one note for each series that leaves its trend, about the largest deviation."""
    groups: defaultdict[tuple[object, ...], dict[float, Value]] = defaultdict(dict)
    for value in measured(table):
        x = value.rows[0].x
        if x is not None and value.quantity.statistic in ("", "avg"):
            key = (value.config, value.place[:5], value.quantity.same, value.unit)
            groups[key].setdefault(x, value)
    for group in groups.values():
        yield from _excursions(sorted(group.items(), key=lambda pair: pair[0]))


def _excursions(series: Series) -> Iterator[Finding]:
    points = [value.interval for _, value in series]
    if len(points) <= FEWEST or min(point.low for point in points) <= 0:
        return
    found = [
        (beyond, stop - start, start)
        for start in range(1, len(points) - 1)
        for stop in range(start + 1, len(points))
        if (beyond := _excursion(points, start, stop))
    ]
    if not found:
        return
    _, length, start = max(found)
    stop = start + length
    (_, before), (x, value), (_, after) = series[start - 1], series[start], series[stop]
    row = value.rows[0]
    to = f" to {exact_number(series[stop - 1][0])}" if length > 1 else ""
    texts = ", ".join(v.text for _, v in series[start:stop])
    yield Finding(
        rule="series",
        severity="note",
        rows=[v.rows[0].id for v in (*(v for _, v in series[start:stop]), before, after)],
        printed=f"{row.metric} {texts} at {row.x_name} {exact_number(x)}{to} ({value.config})",
        recomputed=f"{before.text} before and {after.text} after",
        why=f"The series leaves its trend at {_count(length)} and returns to it. Either these "
        "runs were disturbed, or the numbers belong to another series.",
    )


def _count(points: int) -> str:
    return "one point" if points == 1 else f"{points} points"


def _excursion(points: Sequence[Interval], start: int, stop: int) -> float:
    """Return the factor by which all points of a range deviate from the trend of the others.

    Args:
        points: Values in the order of the swept parameter, all above zero.
        start: First point of the range; at least one point lies before it.
        stop: First point after the range.

    Returns:
        The smallest factor of the range's points. 0 if the other points show no trend, or if the
        whole series just rises and then falls, or falls and then rises.
    """
    others = [*points[:start], *points[stop:]]
    if len(others) < FEWEST or len(others) <= stop - start:
        return 0.0
    around = (points[start - 1], points[stop])
    low, high = min(p.low for p in around), max(p.high for p in around)
    above = min(p.low / high for p in points[start:stop])
    below = min(low / p.high for p in points[start:stop])
    beyond = max(above, below)
    uneven = min(_uneven(others), _uneven(others[::-1]))
    if uneven > UNEVEN or beyond <= max(BEYOND, 1 + CLEAR * (uneven - 1)):
        return 0.0
    is_level = _is_level([*points[max(0, start - 2) : start], *points[stop : stop + 2]])
    on_both_sides = min(start, len(points) - stop) > 1
    return 0.0 if _turns_once(points) and not (is_level and on_both_sides) else beyond


def _uneven(points: Sequence[Interval]) -> float:
    """Return the largest factor by which a later point lies below an earlier one.

    Intervals that overlap count as equal.
    """
    highest, worst = points[0].low, 1.0
    for point in points[1:]:
        worst = max(worst, highest / point.high)
        highest = max(highest, point.low)
    return worst


def _is_level(points: Sequence[Interval]) -> bool:
    return max(p.low for p in points) <= UNEVEN * min(p.high for p in points)


def _turns_once(points: Sequence[Interval]) -> bool:
    """Return whether the points rise and then fall, or fall and then rise."""
    return any(
        max(_uneven(first), _uneven(last)) <= SLOW
        for turn in range(len(points))
        for first, last in (
            (points[: turn + 1], points[turn:][::-1]),
            (points[: turn + 1][::-1], points[turn:]),
        )
    )
