"""Audit rule: metrics that are linked by definition, such as MB/s/W and TB/kWh, must agree."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator
from itertools import combinations

from storlab.audit.cells import (
    Value,
    claimed_ratios,
    configs_of,
    facts,
    is_headline,
    measured,
    pairs,
    place_of,
    shown,
)
from storlab.audit.finding import Finding, Severity
from storlab.audit.intervals import Interval
from storlab.audit.moved import odd_times
from storlab.audit.per_unit import broken_quotients
from storlab.audit.quantities import plain_part, quantity_of
from storlab.audit.relations import Broken, broken_identities, coarse_densities
from storlab.audit.table import PublishedTable, Row

SUMMARY = "metrics that follow from each other by definition do so (MB/s/W and TB/kWh, per TB ...)"
RULE = "identities"

# Rank of each statistic in a distribution; the mean is ordered only against minimum and maximum.
_RANKS = {
    "min": 0.0,
    "p25": 25.0,
    "p50": 50.0,
    "p75": 75.0,
    "p90": 90.0,
    "p95": 95.0,
    "p99": 99.0,
    "p995": 99.5,
    "p999": 99.9,
    "p9999": 99.99,
    "p99999": 99.999,
    "max": 100.0,
}


_SPREAD_OUT = ("latency", "ttfb", "power")


def check(table: PublishedTable) -> Iterable[Finding]:
    """Yield findings on metrics that contradict each other by definition.

    Contradictions that a mix-up of units explains are left to the rule ``units``.
    """
    for broken in (*broken_identities(table), *broken_quotients(table)):
        if broken.slip is None:
            severity: Severity = "warning" if broken.rerounded else "error"
            yield broken.finding(RULE, severity, broken.why + broken.rerounded)
    for coarse in coarse_densities(table):
        yield coarse.finding(RULE, "warning")
    yield from _order(measured(table))
    yield from _equal_ratios(table)
    yield from odd_times(table, RULE)


def _order(values: list[Value]) -> Iterator[Finding]:
    """Yield an error if a higher percentile of a distribution has the lower value."""
    groups: defaultdict[tuple[object, ...], list[Value]] = defaultdict(list)
    for v in values:
        if v.quantity.name in _SPREAD_OUT and (v.quantity.statistic or v.quantity.name == "power"):
            part = plain_part(v.rows[0])
            groups[v.config, v.place, v.quantity.name, part, v.unit].append(v)
    for group in groups.values():
        for first, other in combinations(group, 2):
            low, high = sorted((first, other), key=_rank)
            if _ordered(low, high) and high.interval.below(low.interval):
                yield Finding(
                    rule=RULE,
                    severity="error",
                    rows=[low.rows[0].id, high.rows[0].id],
                    printed=f"{low.rows[0].metric} {low.text}, {high.rows[0].metric} {high.text} "
                    f"({low.config})",
                    recomputed=f"{_named(high)} is at least {_named(low)}",
                    why="A higher percentile of one distribution cannot be the lower number.",
                )


def _rank(value: Value) -> float:
    return _RANKS.get(value.quantity.statistic, 50.5)


def _ordered(low: Value, high: Value) -> bool:
    """Return whether two statistics have a fixed order; a mean only lies between min and max."""
    names = {low.quantity.statistic, high.quantity.statistic}
    if len(names) == 1:
        return False
    return names <= set(_RANKS) or (bool(names & {"avg", ""}) and bool(names & {"min", "max"}))


def _named(value: Value) -> str:
    return (
        "the mean" if value.quantity.statistic in ("", "avg") else f"the {value.quantity.statistic}"
    )


def _equal_ratios(table: PublishedTable) -> Iterator[Finding]:
    """Yield a finding if a claimed gain in MB/s/W differs from the one in TB/kWh.

    The units differ by the factor 3.6, which cancels in a ratio.
    """
    values = [*measured(table), *facts(table)]
    groups: defaultdict[tuple[object, ...], list[Row]] = defaultdict(list)
    for row in table.rows:
        q = quantity_of(row)
        is_efficiency = q.name in ("power_efficiency", "energy_efficiency") and q.is_claim
        if is_efficiency and not is_headline(row) and claimed_ratios(row):
            place = place_of(row)
            groups[row.config, row.compare_config, place[:3], place[5]].append(row)
    for rows in groups.values():
        for a, b in combinations(rows, 2):
            if quantity_of(a).name == quantity_of(b).name or not _same_op(a, b):
                continue
            if any(x.meets(y) for x in claimed_ratios(a) for y in claimed_ratios(b)):
                continue
            yield _unequal(a, b, values)


def apart(first: list[Interval], second: list[Interval]) -> str:
    """Return a sentence if rounding explains why two ratios differ, else an empty string."""
    pairs = [Broken((), "", "", "", left, other) for left in first for other in second]
    return min(pairs, key=lambda pair: pair.off).rerounded if pairs else ""


def _same_op(a: Row, b: Row) -> bool:
    ops = {place_of(a)[3], place_of(b)[3]}
    return len(ops) == 1 or ops == {"", "total"}


def _unequal(a: Row, b: Row, values: list[Value]) -> Finding:
    follows = all(
        any(r.meets(p.ratio) for p in pairs(row, values) for r in claimed_ratios(row))
        for row in (a, b)
    )
    why = "MB/s/W and TB/kWh differ by the factor 3.6, so their ratios must be equal."
    severity: Severity = "error"
    if follows:
        why += " Both follow from their cells, which had been rounded before the division."
        severity = "note"
    elif text := apart(claimed_ratios(a), claimed_ratios(b)):
        why, severity = why + text, "warning"
    return Finding(
        rule=RULE,
        severity=severity,
        rows=[a.id, b.id],
        printed=f"{a.metric} {shown(a)}, {b.metric} {shown(b)} "
        f"({a.config} to {', '.join(configs_of(a.compare_config))})",
        recomputed="one ratio",
        why=why,
    )
