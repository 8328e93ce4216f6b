"""A series over a swept parameter that leaves its trend at one point and comes back."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator
from itertools import pairwise

from storlab.audit.cells import Value, measured
from storlab.audit.finding import Finding
from storlab.audit.intervals import Interval
from storlab.audit.table import PublishedTable
from storlab.base.units import exact_number

SUMMARY = "series over a swept parameter that leave their trend at one point and come back"
FEWEST = 5  # points of a series: with fewer there is no trend to leave
BEYOND = 1.15  # of the nearer neighbour, on the wrong side
LEVEL = 1.02  # steps against the trend that are no step

Series = list[tuple[float, Value]]
"""Values by the swept parameter, in its order."""


def check(table: PublishedTable) -> Iterable[Finding]:
    """One note for each series, about the point farthest from where its neighbours put it."""
    groups: defaultdict[tuple[object, ...], dict[float, Value]] = defaultdict(dict)
    for value in measured(table):
        x = value.rows[0].x
        if x is not None and value.quantity.statistic in ("", "avg"):
            key = (value.config, value.place[:5], value.quantity.same, value.unit)
            groups[key].setdefault(x, value)
    for group in groups.values():
        yield from _strays(sorted(group.items(), key=lambda pair: pair[0]))


def _strays(series: Series) -> Iterator[Finding]:
    if len(series) < FEWEST:
        return
    off = [
        (beyond, place)
        for place in range(1, len(series) - 1)
        if (beyond := _beyond(series, place)) > BEYOND and _has_trend(series, place)
    ]
    if not off:
        return
    _, place = max(off)
    (_, before), (x, value), (_, after) = series[place - 1 : place + 2]
    row = value.rows[0]
    yield Finding(
        rule="series",
        severity="note",
        rows=[v.rows[0].id for v in (value, before, after)],
        printed=f"{row.metric} {value.text} at {row.x_name} {exact_number(x)} ({value.config})",
        recomputed=f"{before.text} before it and {after.text} behind it",
        why="The series leaves its trend at one point and comes back: that run was disturbed, or "
        "the number is another one's.",
    )


def _beyond(series: Series, place: int) -> float:
    """By which factor a point lies outside of what its two neighbours span; 1 inside."""
    before, at, after = (series[i][1].interval for i in (place - 1, place, place + 1))
    low, high = min(before.low, after.low), max(before.high, after.high)
    if min(low, at.low) <= 0:
        return 1.0
    return max(at.low / high, low / at.high, 1.0)


def _has_trend(series: Series, left_out: int) -> bool:
    """Whether the others go one way all along."""
    others = [value.interval for place, (_, value) in enumerate(series) if place != left_out]
    steps = list(pairwise(others))
    return all(_not_below(b, a) for a, b in steps) or all(_not_below(a, b) for a, b in steps)


def _not_below(first: Interval, other: Interval) -> bool:
    return first.high * LEVEL >= other.low
