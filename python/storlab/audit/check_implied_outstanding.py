"""Audit rule: compare operations in flight by Little's law with the configured number."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from storlab.audit.configuration_facts import Fact, configured, is_paced
from storlab.audit.finding import Finding
from storlab.audit.intervals import hull
from storlab.audit.measurements import Place, Places, place_words
from storlab.audit.outstanding import Implied, implied
from storlab.audit.table import PublishedTable

SUMMARY = "Little's law: rate x mean latency against the configured outstanding I/O"
OFF = 2.0
_WHY = (
    "Rate x mean latency is the number of operations in flight (Little's law). The printed "
    "latencies cannot have been taken at the configured load together with the printed rates, so "
    "they do not describe the operating point that the throughput describes."
)


def check(table: PublishedTable) -> Iterable[Finding]:
    """Yield one finding per configuration whose latencies do not fit the configured load."""
    places = Places(table)
    for config in places.configs():
        off = [
            finding
            for place in places.of_config(config)
            if (finding := _off(table, places, config, place)) is not None
        ]
        if off:
            rows = list(dict.fromkeys(row for _, ids, _, _ in off for row in ids))
            yield Finding(
                rule="implied_outstanding",
                severity="warning",
                rows=rows,
                printed=f"{config}: {'; '.join(dict.fromkeys(words for *_, words in off))}",
                recomputed="; ".join(text for _, _, text, _ in off),
                why=_WHY,
            )


def _off(
    table: PublishedTable, places: Places, config: str, place: Place
) -> tuple[Place, list[str], str, str] | None:
    """Return (workload, row ids, implied load, configured load), or None if both loads agree."""
    pairs = list(_pairs(table, places, config, place))
    sides = {_side(implied_load, fact) for implied_load, fact in pairs}
    if not pairs or len(sides) != 1 or "" in sides:
        return None
    rows = [row for implied_load, fact in pairs for row in (*implied_load.rows, *fact.rows)]
    load = hull(fact.value for _, fact in pairs)
    flight = hull(implied_load.span for implied_load, _ in pairs)
    points = [implied_load.point for implied_load, _ in pairs if implied_load.point]
    at = f" at any of {', '.join(points)}" if len(points) > 1 else ""
    text = f"{place_words(place)}: {flight} in flight, {load} configured{at}"
    first, last = pairs[0][1].words, pairs[-1][1].words
    words = f"configured {first}" + (f" to {last}" if last != first else "")
    return place, list(dict.fromkeys(rows)), text, words


def _pairs(
    table: PublishedTable, places: Places, config: str, place: Place
) -> Iterator[tuple[Implied, Fact]]:
    names = [row.x_name for row in table.rows if row.config == config and row.x_name]
    x_names = [
        row.x_name
        for quantity in ("throughput", "iops", "latency")
        for row in places.of(config, place, quantity)
        if row.x_name
    ]
    x_name = (x_names or [""])[0]
    if is_paced(table, config, x_names):
        return
    for implied_load in implied(places, config, place):
        if x_name and not implied_load.point and x_name in names:
            continue  # swept, but neither side states its operating point: not comparable
        fact = configured(table, config, x_name, implied_load.point)
        if fact is not None:
            yield implied_load, fact


def _side(implied_load: Implied, fact: Fact) -> str:
    """Return whether the implied load is "less" or "more" than the configured one.

    Empty if the two loads differ by at most a factor ``OFF``.
    """
    if implied_load.whole and implied_load.span.high * OFF < fact.value.low:
        return "less"
    if fact.complete and implied_load.span.low > fact.value.high * OFF:
        return "more"
    return ""
