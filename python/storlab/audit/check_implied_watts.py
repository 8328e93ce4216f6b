"""Implied watts: throughput over power efficiency, or energy over time, against the siblings."""

from __future__ import annotations

import math
import re
import statistics
from collections.abc import Iterable, Iterator

from storlab.audit.finding import Finding
from storlab.audit.intervals import shown
from storlab.audit.places import Place, Places, place_words, read_share
from storlab.audit.table import PublishedTable
from storlab.audit.watts import Watts, watts_of

SUMMARY = "watts implied by throughput / efficiency (or energy / time), against sibling cells"
TIGHT = 0.12  # deviation (of logarithms) up to which the siblings are a family
FAR = 1.3  # from the median of such a family
BEYOND_NEIGHBOURS = 1.15  # beyond both of the mixes next to it
FEWEST = 4


def check(table: PublishedTable) -> Iterable[Finding]:
    """Places whose implied watts are out of family, one finding each."""
    places = Places(table)
    for config in places.configs():
        every = [
            watts for place in places.of_config(config) for watts in watts_of(places, config, place)
        ]
        for family in _families(every):
            yield from _outliers(config, family, every)


def _families(every: list[Watts]) -> list[list[Watts]]:
    """For each kind of work the operating point whose cells agree best: the author's best case."""
    kinds: dict[str, dict[str, list[Watts]]] = {}
    for watts in every:
        kinds.setdefault(_kind(watts.place), {}).setdefault(watts.point, []).append(watts)
    found = []
    for by_point in kinds.values():
        large = [group for group in by_point.values() if len(group) >= FEWEST]
        if large:
            found.append(min(large, key=_scatter))
    return found


def _kind(place: Place) -> str:
    """Only like is compared with like: mixes with mixes, reads with reads."""
    share = read_share(place[1])
    direction = "" if share is None else f"{share:g}" if share in (0.0, 1.0) else "mixed"
    pattern = re.search(r"rand|seq", place[0], re.I)
    own = "" if direction else place[0]
    return f"{direction} {pattern.group().lower() if pattern else ''} {own}"


def _scatter(group: list[Watts]) -> float:
    """Largest deviation from the median, as a logarithm; a third of a large group may be off."""
    logs = [math.log(w.span.middle) for w in group]
    centre = statistics.median(logs)
    deviations = sorted(abs(value - centre) for value in logs)
    return deviations[len(group) - 1 - (len(group) - 1) // 3]


def _outliers(config: str, family: list[Watts], every: list[Watts]) -> Iterator[Finding]:
    found: list[tuple[Watts, str]] = []
    left = list(family)
    for test in (_beyond_neighbours, _far_from):
        for watts in [one for one in left if not one.is_printed]:
            others = [other for other in left if other is not watts]
            expected = test(watts, others)
            elsewhere = [w for w in every if w.place == watts.place and w.point != watts.point]
            if expected is not None and not any(_fits(other, others) for other in elsewhere):
                found.append((watts, expected))
        left = [watts for watts in left if all(watts is not out for out, _ in found)]
    if len(found) * 2 >= len(family):
        return  # with so many outside there is no family
    for watts, expected in found:
        siblings = ", ".join(other.words for other in family if other is not watts)
        at = f" at {watts.point}" if watts.point else ""
        yield Finding(
            rule="implied_watts",
            severity="warning",
            rows=list(watts.rows),
            printed=f"{config}, {place_words(watts.place)}{at}: {watts.how}",
            recomputed=f"{watts.span} W, where {expected}; siblings: {siblings}",
            why="Power of one configuration under like load stays within a family. One of the "
            "numbers it follows from belongs to another operating point or is wrong, and the "
            "efficiency ratio of this cell inherits the difference.",
        )


def _fits(watts: Watts, others: list[Watts]) -> bool:
    """Whether the cell would be in the family if it had been taken at this other point."""
    return _far_from(watts, others) is None and _beyond_neighbours(watts, others) is None


def _far_from(watts: Watts, others: list[Watts]) -> str | None:
    centre = statistics.median(w.span.middle for w in others)
    if len(others) < FEWEST - 1 or _scatter(others) > TIGHT:
        return None
    if centre / FAR <= watts.span.high and watts.span.low <= centre * FAR:
        return None
    return f"the median of its siblings is {shown(centre)} W"


def _beyond_neighbours(watts: Watts, others: list[Watts]) -> str | None:
    """Power between two mixes lies near the power of those two."""
    share = read_share(watts.place[1])
    known = [(read_share(w.place[1]), w) for w in others if w.place[2] == watts.place[2]]
    if share is None:
        return None
    below = [(s, w) for s, w in known if s is not None and s < share]
    above = [(s, w) for s, w in known if s is not None and s > share]
    if not below or not above:
        return None
    sides = (max(below, key=lambda p: p[0])[1], min(above, key=lambda p: p[0])[1])
    low = min(side.span.low for side in sides)
    high = max(side.span.high for side in sides)
    if low / BEYOND_NEIGHBOURS <= watts.span.high and watts.span.low <= high * BEYOND_NEIGHBOURS:
        return None
    return f"the mixes next to it imply {sides[0].words} and {sides[1].words}"
