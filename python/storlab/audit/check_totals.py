"""Audit rule: totals must agree with their parts (GET + PUT, drives x capacity, shares, costs)."""

from __future__ import annotations

import math
import re
from collections import defaultdict
from collections.abc import Iterable, Iterator

from storlab.audit.cells import MAXIMUM, Value, configs_of, is_one_mix, measured, normal, values_of
from storlab.audit.derived import Product, products
from storlab.audit.finding import Finding, Severity
from storlab.audit.intervals import Interval
from storlab.audit.intervals import shown as number
from storlab.audit.quantities import ADDITIVE, quantity_of
from storlab.audit.relations import Broken
from storlab.audit.table import PublishedTable, Row

SUMMARY = "totals agree with their parts (GET + PUT, reads + writes, drives x capacity, costs)"
RULE = "totals"


def check(table: PublishedTable) -> Iterable[Finding]:
    """Yield findings on totals that are not the sum or product of their parts.

    Products that differ only by the units 1,000 and 1,024 are left to the rule ``units``.
    """
    yield from _operations(measured(table))
    yield from _shares(table)
    yield from _mixes(table)
    yield from _costs(table)
    for broken in broken_products(table):
        if broken.slip is None:
            yield broken.finding(RULE, "error")


def _operations(values: list[Value]) -> Iterator[Finding]:
    """Yield an error if GET + PUT or reads + writes of a mixed test differ from the total."""
    cells: defaultdict[tuple[object, ...], dict[str, list[Value]]] = defaultdict(dict)
    for v in values:
        if v.quantity.name in ("throughput", "iops") and v.quantity.statistic in ("", "avg"):
            place = (*v.place[:3], *v.place[4:])
            key = (v.config, place, v.quantity.name, v.quantity.part, v.unit)
            cells[key].setdefault(v.place[3], []).append(v)
    for ops in cells.values():
        for first, second in (("get", "put"), ("read", "write")):
            if {first, second, "total"} <= set(ops):
                totals = [v for v in ops["total"] if is_one_mix(v) or _is_named_total(v)]
                yield from _sum(ops[first], ops[second], totals)


def _is_named_total(value: Value) -> bool:
    """Return whether a value is labelled as a total of reads and writes.

    Without such a label, the value may be from a separate test of reads and writes.
    """
    words = {value.rows[0].op.lower(), *quantity_of(value.rows[0]).part.split("_")}
    return bool(words & {"total", "sum", "aggregate", "combined", "get+put"})


def _sum(first: list[Value], second: list[Value], totals: list[Value]) -> Iterator[Finding]:
    sums = [(a.interval + b.interval, a, b) for a in first for b in second]
    for total in totals:
        if any(total.interval.meets(made) for made, _, _ in sums):
            continue
        made, a, b = sums[0]
        # A total may include other requests (list, stat, delete), and the maxima of parts need not
        # occur at the same time.
        requests = total.quantity.name == "iops" and a.place[3] == "get"
        maxima = any(_is_maximum(v) for v in (total, a, b))
        if (requests and made.below(total.interval)) or (maxima and total.interval.below(made)):
            continue
        text = f"{a.text} + {b.text} = {made.scaled(1 / _factor(total))} {total.rows[0].unit}"
        why = "The total is not the sum of its parts."
        yield _finding("error", (total, a, b), text.rstrip(), why)


def _is_maximum(value: Value) -> bool:
    words = {row.qualifier.lower() for row in value.rows}
    return bool(words & {"up_to", "max", "table_max", "peak"}) or bool(
        MAXIMUM.search(value.place[5])
    )


def _factor(value: Value) -> float:
    return 1.0 if value.quantity.unit is None or value.unit else value.quantity.unit.factor


def _finding(severity: Severity, values: tuple[Value, ...], made: str, why: str) -> Finding:
    whole = values[0]
    return Finding(
        rule=RULE,
        severity=severity,
        rows=list(dict.fromkeys(row.id for v in values for row in v.rows)),
        printed=f"{whole.rows[0].metric} {whole.text} ({whole.config or 'all'})",
        recomputed=made,
        why=why,
    )


def _shares(table: PublishedTable) -> Iterator[Finding]:
    """Yield an error if the shares of reads and writes in a test do not add up to 100 %."""
    groups: defaultdict[tuple[str, ...], dict[str, Value]] = defaultdict(dict)
    for row in table.rows:
        if quantity_of(row).name == "share" and quantity_of(row).part in ("read", "write"):
            for v in values_of(row):
                key = (v.config, *v.place[:3])
                groups[key].setdefault(quantity_of(row).part, v)
    for parts in groups.values():
        if {"read", "write"} <= set(parts):
            read, write = parts["read"], parts["write"]
            made = read.interval + write.interval
            if not made.meets(Interval(1.0, 1.0)):
                text = f"{read.text} + {write.text} = {made.scaled(100)} %"
                why = "The shares of reads and writes must add up to 100 %."
                yield _finding("error", (read, write), text, why)


def _mixes(table: PublishedTable) -> Iterator[Finding]:
    """Yield an error if a mix in percent, such as 70/30 but not 2/1, does not add up to 100."""
    seen: dict[str, list[str]] = {}
    for row in table.rows:
        match = re.fullmatch(r"(\d{1,3})/(\d{1,3})", normal(row.rw_mix))
        if match is not None:
            parts = [int(match[1]), int(match[2])]
            if sum(parts) != 100 and max(parts) >= 30 and sum(parts) > 60:
                seen.setdefault(row.rw_mix, []).append(row.id)
    for mix, rows in seen.items():
        yield Finding(
            rule=RULE,
            severity="error",
            rows=rows,
            printed=mix,
            recomputed=f"{sum(map(int, mix.split('/')))} %",
            why="The shares of a mix must add up to 100 %.",
        )


def _costs(table: PublishedTable) -> Iterator[Finding]:
    """Yield findings if the parts of a total cost, power or energy do not add up to it."""
    groups: defaultdict[tuple[object, ...], dict[str, list[Value]]] = defaultdict(dict)
    for row in table.rows:
        q = quantity_of(row)
        if q.is_claim or q.name not in ADDITIVE - {"throughput", "iops"} or q.statistic == "max":
            continue
        if row.kind not in ("measured", "config"):
            continue
        words = set(q.part.split("_"))
        part = "total" if words == {"total"} else q.part
        for v in values_of(row):
            place = (*v.place[:3], normal(row.op), *v.place[4:])
            groups[v.config, place, q.name, v.unit].setdefault(part, []).append(v)
    for parts in groups.values():
        named = [
            v for part, v in parts.items() if part not in ("total", "") and "total" not in part
        ]
        if "total" in parts and len(named) >= 2 and all(len(v) == 1 for v in named):
            yield from _cost_total(parts["total"][0], [v[0] for v in named])


def _cost_total(total: Value, parts: list[Value]) -> Iterator[Finding]:
    made = parts[0].interval
    for part in parts[1:]:
        made = made + part.interval
    if made.meets(total.interval):
        return
    less = made.below(total.interval)
    text = " + ".join(p.text for p in parts)
    why = "The total is less than the sum of its parts."
    if less:
        why = "The stated parts do not add up to the total: a part is wrong or missing."
    shown = f"{text} = {made.scaled(1 / _factor(total))} {total.rows[0].unit}".rstrip()
    yield _finding("warning" if less else "error", (total, *parts), shown, why)


_WHOLES = {
    "drive": re.compile(
        r"(storage|capacity)_per_(node|server)|(raw|rated|tested|total|installed)_?"
        r"(cluster_|system_|node_|storage_)?capacity(_tb)?|(cluster|system)_raw_capacity"
    ),
    "dimm": re.compile(r"memory(_total|_size|_capacity|_gb|_per_node)?|total_memory|dram|ram"),
    "file": re.compile(r"(data_?set|working_set|total_data)(_total)?(_size)?|total_file_size"),
}


def broken_products(table: PublishedTable) -> Iterator[Broken]:
    """Yield stated totals that are not count x size, for drives, DIMMs and files."""
    wholes = [r for r in table.rows if r.kind == "config" and r.value is not None]
    for row in wholes:
        for part, pattern in _WHOLES.items():
            if pattern.fullmatch(row.metric.lower()):
                yield from _product(table, row, part)


def _product(table: PublishedTable, whole: Row, part: str) -> Iterator[Broken]:
    for config in configs_of(whole.config):
        made = [p for p in products(table, config, part) if len(p.rows) > 1]
        values = [v for v in values_of(whole) if v.config == config and not v.unit]
        if not made or not values:
            continue
        value = values[0]
        wanted = value.interval
        if any(wanted.meets(size) for p in made for size in _sizes(p, part)):
            continue
        if _is_another(table, whole, made, part):
            continue
        best = min(made, key=lambda p: _apart(p.interval.middle, wanted.middle))
        factor = _factor(value)
        yield Broken(
            (whole, *best.rows),
            f"{whole.metric} {value.text} ({config or 'all'})",
            f"{best.text} = {number(best.rounded.middle / factor)} {whole.unit}",
            "The total is not the count times the size of its parts.",
            wanted,
            best.interval,
            binary=True,
        )
        return


def _apart(a: float, b: float) -> float:
    """Return the absolute log ratio of two sizes, infinite if either is not positive."""
    return abs(math.log(a / b)) if a > 0 and b > 0 else math.inf


def _is_another(table: PublishedTable, whole: Row, made: list[Product], part: str) -> bool:
    """Return whether a row with a total may be about something other than count x size.

    A rated capacity may be that of one drive. A row without a configuration may describe another
    machine if count x size equals the value of a second row with the same metric.
    """
    words = set(whole.metric.lower().split("_"))
    value = next(iter(values_of(whole)))
    if words & {"rated", "tested"}:
        sizes = [v for p in made for v in values_of(p.rows[0])]
        return any(value.interval.meets(size.interval) for size in sizes)
    others = [r for r in table.rows if r.metric == whole.metric and r.id != whole.id]
    return whole.config == "" and any(
        v.interval.meets(size)
        for r in others
        for v in values_of(r)
        for p in made
        for size in _sizes(p, part)
    )


def _sizes(product: Product, part: str) -> list[Interval]:
    """Return the sizes that a product count x size may mean.

    DIMM sizes in GiB are often labelled GB, so both are returned for memory.
    """
    readings = [product.interval]
    if part == "dimm":
        readings += [product.interval.scaled(1.024**power) for power in (-1, 1)]
    return readings
