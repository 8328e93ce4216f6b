"""Audit rule: report latencies that are compared at different effective concurrency."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from storlab.audit.configuration_facts import is_paced, members
from storlab.audit.finding import Finding
from storlab.audit.intervals import hull
from storlab.audit.measurements import Place, Places, place_of, place_words
from storlab.audit.outstanding import Implied, implied, shared_points
from storlab.audit.quantities import quantity_of
from storlab.audit.table import PublishedTable, Row

SUMMARY = "latency ratios whose two sides had different numbers of operations in flight"
FAR = 1.10


def check(table: PublishedTable) -> Iterable[Finding]:
    """Yield at most one finding per pair of configurations and workload.

    It is a warning if the table claims a latency ratio for the pair, otherwise a note.
    """
    places = Places(table)
    x_names = {row.x_name for row in table.rows if row.is_measured}
    if is_paced(table, "", x_names):
        return  # open loop: operations in flight are an outcome, not the load
    claimed: dict[tuple[str, str, Place], list[Row]] = {}
    for row in table.rows:
        if quantity_of(row).is_claim and quantity_of(row).name in ("latency", "ttfb"):
            for first in members(row.config):
                for other in members(row.compare_config):
                    claimed.setdefault((first, other, place_of(row)), []).append(row)
    done: set[frozenset[str]] = set()
    for (first, other, place), rows in claimed.items():
        done.add(frozenset((first, other, *place)))
        yield from _finding(places, first, other, place, rows)
    configs = places.configs()
    for place_index, first in enumerate(configs):
        for other in configs[place_index + 1 :]:
            shared = [p for p in places.of_config(first) if p in places.of_config(other)]
            for place in shared:
                if frozenset((first, other, *place)) not in done:
                    yield from _finding(places, first, other, place, [])


def _finding(
    places: Places, first: str, other: str, place: Place, claims: list[Row]
) -> Iterator[Finding]:
    pairs = list(_pairs(places, first, other, place))
    if not pairs or not all(_differ(a, b) for a, b in pairs):
        return
    first_span, other_span = hull(a.span for a, _ in pairs), hull(b.span for _, b in pairs)
    ratios = ", ".join(dict.fromkeys(row.printed for row in claims))
    rows = [row.id for row in claims]
    rows += [row for a, b in pairs for row in (*a.rows, *b.rows)]
    yield Finding(
        rule="effective_concurrency",
        severity="warning" if claims else "note",
        rows=list(dict.fromkeys(rows)),
        printed=f"{place_words(place)}: latency of {first} against {other}"
        + (f", {ratios}" if ratios else ""),
        recomputed=f"{first_span} operations in flight on {first}, {other_span} on {other}",
        why="Comparison made at different effective concurrency. Latency grows with the operations "
        "in flight (Little's law: rate x mean latency), so the ratio shows how much was queued as "
        "well as how fast the storage is.",
    )


def _pairs(
    places: Places, first: str, other: str, place: Place
) -> Iterator[tuple[Implied, Implied]]:
    sides = implied(places, first, place), implied(places, other, place)
    if all(i.whole for side in sides for i in side):
        yield from shared_points(*sides)
        return
    for op in ("read", "write"):
        yield from shared_points(
            implied(places, first, place, op), implied(places, other, place, op)
        )


def _differ(first: Implied, other: Implied) -> bool:
    return first.span.low > other.span.high * FAR or other.span.low > first.span.high * FAR
