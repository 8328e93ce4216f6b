"""Audit rule: report mixed-up units, such as 1,000 and 1,024, ms and us, or MB and MiB."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator
from itertools import combinations

from storlab.audit.cells import Value, facts, measured
from storlab.audit.check_totals import broken_products
from storlab.audit.finding import Finding, Severity
from storlab.audit.per_unit import broken_quotients
from storlab.audit.quantities import quantity_of
from storlab.audit.relations import BINARY, DECIMAL, Broken, broken_identities
from storlab.audit.table import PublishedTable

SUMMARY = "no number is off by 1,000 or 1,024 (MB and MiB, ms and us)"
RULE = "units"


def check(table: PublishedTable) -> Iterable[Finding]:
    """Yield findings on contradictions that a mix-up of units would explain."""
    broken_relations = [
        *broken_identities(table),
        *broken_products(table),
        *broken_quotients(table),
    ]
    wrong = {broken.rows[0].id for broken in broken_relations if broken.slip is None}
    for broken in broken_relations:
        if broken.slip is None or (broken.slip[1] in BINARY and broken.rows[0].id in wrong):
            # If the value contradicts other numbers as well, a unit prefix does not explain it.
            continue
        yield _slipped(broken, broken.slip)
    yield from _repeated(measured(table))
    yield from _both_ways(table)


def _slipped(broken: Broken, slip: tuple[str, float]) -> Finding:
    name, factor = slip
    severity: Severity = "warning" if factor in BINARY else "error"
    text = f"{broken.why} It would fit if {name} had been mixed up."
    if factor in DECIMAL:
        text = f"{broken.why} It is off by {name}: a unit prefix was mixed up."
    return broken.finding(RULE, severity, text)


def slip_between(a: Value, b: Value) -> tuple[str, float] | None:
    """Return the unit mix-up (name, factor) that explains why two values differ; None if none."""
    if a.unit or b.unit or a.interval.meets(b.interval):
        return None
    for factor, name in {**BINARY, **DECIMAL}.items():
        for high, low in ((a, b), (b, a)):
            if factor in BINARY and _same_letters(a, b) is False:
                continue
            if high.interval.meets(low.interval.scaled(factor)):
                return name, factor
    return None


def _same_letters(a: Value, b: Value) -> bool:
    """Return whether the same number is printed with two units, one of them binary (MiB)."""
    units = [v.rows[0].unit for v in (a, b)]
    values = [v.rows[0].value for v in (a, b)]
    return units[0] != units[1] and values[0] == values[1] and any("i" in u for u in units)


def _repeated(values: list[Value]) -> Iterator[Finding]:
    """Yield findings if a measured value is stated in two units and the numbers disagree."""
    groups: defaultdict[tuple[object, ...], list[Value]] = defaultdict(list)
    for value in values:
        groups[value.config, value.place, value.quantity.same].append(value)
    for group in groups.values():
        for a, b in combinations(group, 2):
            slip = slip_between(a, b)
            if slip is not None:
                yield Finding(
                    rule=RULE,
                    severity="warning" if slip[1] in BINARY else "error",
                    rows=[a.rows[0].id, b.rows[0].id],
                    printed=f"{a.rows[0].metric} {a.text} and {b.text} ({a.config})",
                    recomputed=f"{a.text} is not {b.text}; {slip[0]} were mixed up",
                    why="One value is stated in two units, and the two numbers do not convert into "
                    "each other.",
                )


def _both_ways(table: PublishedTable) -> Iterator[Finding]:
    """Yield a warning if a size is stated with the same number in MB and in MiB."""
    groups: defaultdict[tuple[object, ...], list[Value]] = defaultdict(list)
    for value in facts(table):
        if not value.unit and quantity_of(value.rows[0]).name in ("size", "capacity", "memory"):
            groups[value.config, value.place, value.quantity.same].append(value)
    for group in groups.values():
        for a, b in combinations(group, 2):
            if _same_letters(a, b):
                percent = 100 * (max(_factors(a, b)) / min(_factors(a, b)) - 1)
                yield Finding(
                    rule=RULE,
                    severity="warning",
                    rows=[a.rows[0].id, b.rows[0].id],
                    printed=f"{a.rows[0].metric} {a.text} and {b.text}",
                    recomputed=f"the units differ by {percent:.1f} %",
                    why="One size is stated in two units, and every throughput that was computed "
                    "from operations depends on which one was used.",
                )
                break


def _factors(a: Value, b: Value) -> list[float]:
    return [v.quantity.unit.factor for v in (a, b) if v.quantity.unit is not None]
