"""Values derived from published ones: totals, throughput from throughput per TB, efficiency."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from dataclasses import dataclass, replace

from storlab.audit.cells import Value, configs_of, facts, is_one_mix, measured, values_of
from storlab.audit.intervals import Interval
from storlab.audit.quantities import Quantity
from storlab.audit.table import PublishedTable, Row
from storlab.base.units import exact_number

# Words which show that a capacity is only that of a part of the system, such as a drive or node.
_PIECE = re.compile(r"drive|ssd|hdd|disk|dimm|node|server|boot|client|per|range|class")


@dataclass(frozen=True, slots=True)
class Product:
    """Product of a size and one or two counts, as in 10 drives x 7.68 TB x 6 nodes."""

    config: str
    interval: Interval
    rounded: Interval
    rows: tuple[Row, ...]
    text: str


def capacities(table: PublishedTable, config: str) -> list[Value]:
    """Return total capacities of a configuration, as stated or as drives x size (x nodes).

    Capacities of a single node or server come last.
    """
    own = [v for v in facts(table) if v.config == config and v.quantity.name == "capacity"]
    whole = [v for v in own if not _PIECE.search(v.quantity.part) and v.quantity.statistic == ""]
    plain = Quantity("capacity")
    made = [
        Value(config, ("",) * 6, plain, p.rows, p.interval, p.rounded, "", p.text)
        for p in products(table, config, "drive")
    ]
    single = [v for v in own if v.quantity.part in ("node", "server")]
    return [*whole, *made, *single]


def products(table: PublishedTable, config: str, part: str) -> list[Product]:
    """Return count x size of a configuration's drives, DIMMs or files, per node and in total."""
    sizes = [r for r in _of(table, config) if _names(r, part, ("size", "capacity")) and r.value]
    counts = [r for r in _of(table, config) if _counts(r, part)]
    nodes = [r for r in _of(table, config, shared=True) if _counts(r, "node")]
    by_text: dict[str, Product] = {}
    for size in sizes:
        for value in [v for v in values_of(size) if not v.unit][:1]:
            product = Product(config, value.interval, value.rounded, (size,), value.text)
            # File sizes are settings, so they are exact rather than rounded.
            if part == "file" and value.quantity.unit is not None:
                exact = (size.value or 0.0) * value.quantity.unit.factor
                product = replace(product, interval=Interval(exact, exact))
            for count in counts:
                per_node = _times(product, count)
                by_text[per_node.text] = per_node
                for node in nodes:
                    cluster = _times(per_node, node)
                    by_text.setdefault(cluster.text, cluster)
    return list(by_text.values())


def _times(product: Product, count: Row) -> Product:
    number = count.value or 0.0
    return replace(
        product,
        interval=product.interval.scaled(number),
        rounded=product.rounded.scaled(number),
        rows=(*product.rows, count),
        text=f"{exact_number(number)} x {product.text}",
    )


def _of(table: PublishedTable, config: str, shared: bool = False) -> Iterator[Row]:
    for row in table.rows:
        is_own = config in configs_of(row.config) or (shared and row.config == "")
        if row.kind == "config" and row.value is not None and is_own:
            yield row


_THINGS = {
    "drive": ("drive", "drives", "ssd", "ssds", "hdd", "hdds", "disk", "disks"),
    "dimm": ("dimm", "dimms"),
    "file": ("file", "files"),
    "node": ("node", "nodes", "server", "servers"),
    "cpu": ("cpu", "cpus", "socket", "sockets"),
}
_COUNT_WORDS = {"count", "number", "num", "total", "of", "per", "cluster", "storage", "n"}


def _names(row: Row, part: str, kinds: tuple[str, ...]) -> bool:
    words = set(re.split(r"[^a-z0-9]+", row.metric.lower()))
    extra = words - {*_THINGS[part], *kinds, "per", "raw", "each", "worker", "tb", "gb"}
    return bool(words & set(_THINGS[part])) and bool(words & set(kinds)) and not extra


def _counts(row: Row, part: str) -> bool:
    """Return whether a row states a number of parts, such as drive_count or drives_per_node."""
    value = row.value
    if value is None or value <= 0 or not math.isclose(value, round(value)):
        return False
    if row.unit.strip().lower() not in ("count", "", "1", *_THINGS[part]):
        return False
    words = set(re.split(r"[^a-z0-9]+", row.metric.lower()))
    other = {"node", "server"} if part == "drive" else set()
    extra = words - {*_THINGS[part], *_COUNT_WORDS, *other}
    return bool(words & set(_THINGS[part])) and not extra


def derived(table: PublishedTable) -> list[Value]:
    """Return values that follow from a table but are not stated in it.

    These are totals of GET and PUT or reads and writes, throughput or IOPS from values per TB, and
    efficiency from rate and power.
    """
    values = measured(table)
    return [*_totals(values), *_from_density(table, values), *_over_watts(values)]


def _totals(values: list[Value]) -> Iterator[Value]:
    printed = {(v.config, v.place, v.quantity.name) for v in values}
    for first, second in (("get", "put"), ("read", "write")):
        for a in values:
            if a.place[3] != first or a.quantity.name not in ("throughput", "iops"):
                continue
            if not is_one_mix(a):
                continue
            other, total = ((*a.place[:3], op, *a.place[4:]) for op in (second, "total"))
            if (a.config, total, a.quantity.name) in printed:
                continue
            for b in values:
                same = (b.config, b.place, b.unit) == (a.config, other, a.unit)
                if same and b.quantity.same == a.quantity.same:
                    yield Value(
                        a.config,
                        total,
                        a.quantity,
                        (*a.rows, *b.rows),
                        a.interval + b.interval,
                        a.rounded + b.rounded,
                        a.unit,
                        f"({a.text} + {b.text})",
                    )


_OVER_WATTS = (
    ("power_efficiency", "throughput"),
    ("energy_efficiency", "throughput"),
    ("iops_per_watt", "iops"),
)


def _over_watts(values: list[Value]) -> Iterator[Value]:
    """Yield efficiencies (rate / mean power) of cells whose efficiency the table does not state."""
    known = {(v.config, v.place, v.quantity.name) for v in values}
    powers = [v for v in values if v.quantity.same in (("power", "", ""), ("power", "avg", ""))]
    for power in powers:
        for rate in values:
            if (rate.config, rate.place, rate.unit) != (power.config, power.place, ""):
                continue
            for name, source in _OVER_WATTS:
                is_printed = (rate.config, rate.place, name) in known
                if rate.quantity.same == (source, "", "") and not is_printed:
                    yield Value(
                        rate.config,
                        rate.place,
                        Quantity(name),
                        (*rate.rows, *power.rows),
                        rate.interval / power.interval,
                        rate.rounded / power.rounded,
                        "",
                        f"({rate.text} / {power.text})",
                    )


def _from_density(table: PublishedTable, values: list[Value]) -> Iterator[Value]:
    sources = {"throughput_per_tb": "throughput", "iops_per_tb": "iops"}
    for value in values:
        if value.quantity.name in sources and not value.unit:
            for capacity in capacities(table, value.config):
                yield Value(
                    value.config,
                    value.place,
                    replace(value.quantity, name=sources[value.quantity.name]),
                    (*value.rows, *capacity.rows),
                    value.interval * capacity.interval,
                    value.rounded * capacity.rounded,
                    "",
                    f"({value.text} x {capacity.text})",
                )
