"""Audit rule: compare the watts implied by efficiency or energy with those of similar cells.

Watts are implied by throughput / efficiency, or by energy / time.
"""

from __future__ import annotations

import math
import re
import statistics
from collections.abc import Iterable, Iterator

from storlab.audit.cells import is_headline
from storlab.audit.finding import Finding
from storlab.audit.intervals import Interval, shown, si_interval
from storlab.audit.measurements import Place, Places, place_of, place_words, point_of, read_share
from storlab.audit.quantities import quantity_of, size_bytes
from storlab.audit.table import PublishedTable, Row
from storlab.audit.watts import Watts, watts_of

SUMMARY = "watts implied by throughput / efficiency (or energy / time), against sibling cells"
TIGHT = 0.12  # largest log deviation from the median at which siblings count as a family
FAR = 1.3  # factor from the family's median beyond which a cell is an outlier
BEYOND_NEIGHBOURS = 1.15  # factor beyond both neighbouring mixes for an outlier
FEWEST = 4
CLEARLY = 1.03  # how far implied watts must lie on the other side of 1 to contradict a claim


def check(table: PublishedTable) -> Iterable[Finding]:
    """Yield findings on cells whose implied watts are outliers, and on contradicted claims."""
    places = Places(table)
    for config in places.configs():
        every = [
            watts for place in places.of_config(config) for watts in watts_of(places, config, place)
        ]
        for family in _families(every):
            yield from _outliers(config, family, every)
    yield from _claims(table)


def _families(every: list[Watts]) -> list[list[Watts]]:
    """Group cells by kind of work and operating point.

    If operating points are not stated, each possible one is tried, and the one with the least
    scatter is used. That reading is the most favourable for the author.
    """
    kinds: dict[str, dict[str, list[Watts]]] = {}
    for watts in every:
        kinds.setdefault(_kind(watts.place), {}).setdefault(watts.point, []).append(watts)
    families = []
    for by_point in kinds.values():
        large = [group for group in by_point.values() if len(group) >= FEWEST]
        guesses = [group for group in large if any(watts.is_guess for watts in group)]
        families += [group for group in large if group not in guesses]
        if guesses:
            families.append(min(guesses, key=_scatter))
    return families


def _kind(place: Place) -> str:
    """Return a key that is equal for comparable work: mixes, reads only, or writes only."""
    share = read_share(place[1])
    direction = "" if share is None else f"{share:g}" if share in (0.0, 1.0) else "mixed"
    pattern = re.search(r"rand|seq", place[0], re.I)
    own = "" if direction else place[0]
    return f"{direction} {pattern.group().lower() if pattern else ''} {own}"


def _scatter(group: list[Watts]) -> float:
    """Return the log deviation from the median that two thirds of a group's cells do not exceed.

    In a group of up to three cells it is the largest deviation.
    """
    logs = [math.log(w.span.middle) for w in group]
    centre = statistics.median(logs)
    deviations = sorted(abs(value - centre) for value in logs)
    return deviations[len(group) - 1 - (len(group) - 1) // 3]


def _outliers(config: str, family: list[Watts], every: list[Watts]) -> Iterator[Finding]:
    outliers: list[tuple[Watts, str]] = []
    left = list(family)
    for test in (_beyond_neighbours, _far_from):
        for watts in [candidate for candidate in left if not candidate.is_printed]:
            others = [other for other in left if other is not watts]
            expected = None if _has_company(watts, others, test) else test(watts, others)
            elsewhere = [
                w for w in every if w.is_guess and w.place == watts.place and w.point != watts.point
            ]
            if expected is not None and not any(_fits(other, others) for other in elsewhere):
                outliers.append((watts, expected))
        left = [watts for watts in left if all(watts is not out for out, _ in outliers)]
    if len(outliers) * 2 >= len(family):
        return  # too many outliers: there is no family
    for watts, expected in outliers:
        siblings = ", ".join(other.words for other in family if other is not watts)
        at = f" at {watts.point}" if watts.point else ""
        yield Finding(
            rule="implied_watts",
            severity="warning",
            rows=list(watts.rows),
            printed=f"{config}, {place_words(watts.place)}{at}: {watts.how}",
            recomputed=f"{watts.span} W, but {expected}; similar cells: {siblings}",
            why="A configuration draws similar power under similar load. One of the numbers that "
            "give the watts is wrong or belongs to another operating point, and so the efficiency "
            "ratio of this cell is wrong as well.",
        )


def _has_company(watts: Watts, others: list[Watts], test: object) -> bool:
    """Return whether a cell's power agrees with that of others of its block size or mix.

    Small blocks draw less power than large ones. So, if ``test`` is ``_far_from``, the result is
    also True if no other cell has the same block size.
    """
    same_block = [w for w in others if w.place[2] == watts.place[2]]
    if test is _far_from and size_bytes(watts.place[2]) and not same_block:
        return True  # no cell of this block size to compare with
    for column in (1, 2):
        alike = [w for w in others if w.place[column] and w.place[column] == watts.place[column]]
        logs = [math.log(w.span.middle / watts.span.middle) for w in alike]
        if alike and all(abs(distance) <= TIGHT for distance in logs):
            return True
        if test is _far_from and any(abs(distance) <= math.log(FAR) for distance in logs):
            return True
    return False


def _fits(watts: Watts, others: list[Watts]) -> bool:
    """Return whether a cell's power agrees with that of similar cells."""
    return _far_from(watts, others) is None and _beyond_neighbours(watts, others) is None


def _far_from(watts: Watts, others: list[Watts]) -> str | None:
    centre = statistics.median(w.span.middle for w in others)
    if len(others) < FEWEST - 1 or _scatter(others) > TIGHT:
        return None
    if centre / FAR <= watts.span.high and watts.span.low <= centre * FAR:
        return None
    return f"the median of similar cells is {shown(centre)} W"


def _beyond_neighbours(watts: Watts, others: list[Watts]) -> str | None:
    """Return a clause on the two nearest mixes if a cell's power lies outside of theirs."""
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


def _claims(table: PublishedTable) -> Iterator[Finding]:
    """Yield a note if two claimed gains imply more power but a third claims less, or vice versa."""
    power = [row for row in table.rows if quantity_of(row).name == "power" and _ratio(row)]
    for (config, compared, place, _), claims in _gains(table).items():
        for above, below in (("throughput", "power_efficiency"), ("energy", "duration")):
            first, other = claims.get(above), claims.get(below)
            ratios = (_ratio(first), _ratio(other)) if first and other else (None, None)
            if first is None or other is None or ratios[0] is None or ratios[1] is None:
                continue
            implied = ratios[0] / ratios[1]
            against = [row for row in power if _opposes(row, config, compared, implied)]
            if against:
                more = "more" if implied.low > 1 else "less"
                change = Interval(abs(implied.low - 1), abs(implied.high - 1)).middle
                yield Finding(
                    rule="implied_watts",
                    severity="note",
                    rows=[first.id, other.id, *(row.id for row in against)],
                    printed=f"{place_words(place)}: {first.metric} {first.printed}, {other.metric} "
                    f"{other.printed}; {against[0].metric} {against[0].printed}",
                    recomputed=f"{config} drew {implied} times the power of {compared}, "
                    f"{100 * change:.0f} % {more}",
                    why="The two gains imply a ratio of the watts under this load that contradicts "
                    "the claim about power. That claim is true of a power limit at best, not of "
                    "the power drawn under this load.",
                )


def _gains(table: PublishedTable) -> dict[tuple[str, str, Place, str], dict[str, Row]]:
    """Return the ratio claims about single cells, by cell and operating point, then quantity."""
    gains: dict[tuple[str, str, Place, str], dict[str, Row]] = {}
    for row in table.rows:
        exact = row.kind == "ratio_claim" and row.compare_config and not is_headline(row)
        if exact and _ratio(row) is not None:
            key = (row.config, row.compare_config, place_of(row), point_of(row))
            gains.setdefault(key, {}).setdefault(quantity_of(row).name, row)
    return gains


def _opposes(row: Row, config: str, compared: str, implied: Interval) -> bool:
    claimed = _ratio(row)
    if claimed is None or {row.config, row.compare_config} != {config, compared}:
        return False
    if row.config != config:
        claimed = Interval(1, 1) / claimed
    return (claimed.high < 1 and implied.low > CLEARLY) or (
        claimed.low > 1 and implied.high < 1 / CLEARLY
    )


def _ratio(row: Row) -> Interval | None:
    """Return a claim as the ratio of its configuration to the one it is compared to.

    None if the claim is open-ended or its wording does not define the direction.
    """
    form, span = quantity_of(row).form, si_interval(row)
    if span is None or not (math.isfinite(span.low) and math.isfinite(span.high)):
        return None
    if form == "ratio":
        ratio = span
    elif form == "increase":
        ratio = span.plus(1)
    elif form == "reduction":
        ratio = Interval(1 - span.high, 1 - span.low)
    else:
        return None
    return ratio if ratio.low > 0 else None
