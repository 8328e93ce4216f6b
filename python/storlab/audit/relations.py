"""Detection of published numbers that contradict a relation which holds by definition."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, replace

from storlab.audit.cells import MAXIMUM, Place, Value, measured
from storlab.audit.derived import capacities
from storlab.audit.finding import Finding, Severity
from storlab.audit.intervals import Interval
from storlab.audit.intervals import shown as number
from storlab.audit.quantities import plain_part, size_bytes
from storlab.audit.table import PublishedTable, Row

BINARY = {
    1.024: "prefixes of 1,000 and of 1,024",
    1.024**2: "MB and MiB",
    1.024**3: "GB and GiB",
    1.024**4: "TB and TiB",
}
# Letter that one of the units must contain for a mix-up by the factor to be possible.
_LETTERS = {1.024: "B", 1.024**2: "M", 1.024**3: "G", 1.024**4: "T"}
COARSE = 0.1  # relative error up to which a number with one digit does not mislead
REROUNDED = 0.005  # at most half a unit of the third digit
DECIMAL = {1e3: "a factor of 1,000", 1e6: "a factor of 1,000,000"}


@dataclass(frozen=True, slots=True)
class Broken:
    """Published number that does not follow from others.

    ``is_printed`` (as published) and ``should_be`` (as recomputed) have the same unit.
    """

    rows: tuple[Row, ...]
    printed: str
    recomputed: str
    why: str
    is_printed: Interval
    should_be: Interval
    binary: bool = False
    """Whether sizes are involved, so that 1,000 and 1,024 may have been mixed up."""

    @property
    def slip(self) -> tuple[str, float] | None:
        """Name and factor of a unit mix-up that explains the difference, or None."""
        texts = [text for row in self.rows for text in (row.unit, row.metric, row.block_size)]
        letters = set("".join(texts).upper())
        binary = {f: n for f, n in BINARY.items() if _LETTERS[f] in letters}
        factors = {**DECIMAL, **(binary if self.binary else {})}
        for factor, name in factors.items():
            for scale in (factor, 1 / factor):
                if self.is_printed.meets(self.should_be.scaled(scale)):
                    return name, factor
        return None

    @property
    def off(self) -> float:
        """Relative gap between the published and the recomputed interval."""
        first, other = self.is_printed, self.should_be
        near, far = (first.low, other.high) if first.low > other.high else (other.low, first.high)
        return near / far - 1 if far > 0 else math.inf

    @property
    def rerounded(self) -> str:
        """Sentence, if rounding of an intermediate value explains the difference; else empty."""
        if not 0 < self.off < REROUNDED:
            return ""
        digits = math.floor(1 - math.log10(2 * self.off))
        return (
            f" It is beyond rounding by {100 * self.off:.2g} %: a value that was rounded to "
            f"{digits} digits before the last step would explain it."
        )

    def finding(self, rule: str, severity: Severity, why: str = "") -> Finding:
        """Return an audit finding about the number."""
        return Finding(
            rule=rule,
            severity=severity,
            rows=list(dict.fromkeys(row.id for row in self.rows)),
            printed=self.printed,
            recomputed=self.recomputed,
            why=why or self.why,
        )


def broken_identities(table: PublishedTable) -> Iterator[Broken]:
    """Yield all numbers of a table that contradict others by definition, such as J and W x s."""
    values = [v for v in measured(table) if not v.unit]
    groups: Groups = defaultdict(list)
    for value in values:
        groups[value.config, value.place, plain_part(value.rows[0])].append(value)
    objects = {v.config for v in values if v.place[3] in ("get", "put")}
    for group in _joined(groups):
        yield from _efficiencies(group)
        # Totals of an object store include list, stat and delete, which transfer no block.
        if group[0].place[3] != "total" or group[0].config not in objects:
            yield from _block_size(group)
        if not MAXIMUM.search(group[0].place[5]):  # maxima may come from different moments
            yield from _over_power(group)
            yield from _energy(group)
    for value in values:
        yield from _density(table, value, values)


Groups = defaultdict[tuple[str, Place, str], list[Value]]


def _joined(groups: Groups) -> Iterator[list[Value]]:
    """Yield the values of each workload and operating point as a group.

    Values without an operation are added to those of operation "total".
    """
    for (config, place, part), group in groups.items():
        total, general = ((*place[:3], op, *place[4:]) for op in ("total", ""))
        if place[3] == "total":
            yield [*group, *groups.get((config, general, part), [])]
        elif place[3] or (config, total, part) not in groups:
            yield group


def _combinations(group: list[Value], *names: str) -> Iterator[tuple[Value, ...]]:
    """Yield all combinations of mean values with one value of each named quantity."""
    lists = [
        [v for v in group if v.quantity.name == n and v.quantity.statistic in ("", "avg")]
        for n in names
    ]
    if len(lists) == 2:
        yield from ((a, b) for a in lists[0] for b in lists[1])
    else:
        yield from ((a, b, c) for a in lists[0] for b in lists[1] for c in lists[2])


def _broken(
    out: Value, made: Interval, inputs: tuple[Value, ...], formula: str, why: str, binary: bool
) -> Iterator[Broken]:
    if out.interval.meets(made):
        return
    factor = _printed_factor(out)
    shown = f"{formula} = {made.scaled(1 / factor)} {out.rows[0].unit}".rstrip()
    rows = (*out.rows, *(row for value in inputs for row in value.rows))
    name = out.rows[0].metric
    yield Broken(rows, f"{name} {out.text} ({out.config})", shown, why, out.interval, made, binary)


def _printed_factor(value: Value) -> float:
    unit = value.quantity.unit
    return unit.factor if unit is not None else 1.0


def _efficiencies(group: list[Value]) -> Iterator[Broken]:
    why = "MB/s/W is MB/J, and TB/kWh is 3.6 x MB/J by definition: both cannot be right."
    for energy, power in _combinations(group, "energy_efficiency", "power_efficiency"):
        ratio = _printed_factor(power) / _printed_factor(energy)
        formula = f"{number(ratio)} x {power.text}"
        yield from _broken(energy, power.interval, (power,), formula, why, binary=False)
    why = "Energy per byte is one over bytes per joule."
    for name in ("power_efficiency", "energy_efficiency"):
        for work, power in _combinations(group, "energy_per_work", name):
            made = Interval(1.0, 1.0) / power.interval
            yield from _broken(work, made, (power,), f"1 / ({power.text})", why, binary=False)


def _over_power(group: list[Value]) -> Iterator[Broken]:
    for efficiency, rate in (
        ("power_efficiency", "throughput"),
        ("energy_efficiency", "throughput"),
        ("iops_per_watt", "iops"),
    ):
        triples = list(_combinations(group, efficiency, rate, "power"))
        why = f"{efficiency.replace('_', ' ')} is {rate} over mean power."
        if any(t[0].interval.meets(t[1].interval / t[2].interval) for t in triples):
            continue
        for out, work, power in triples[:1]:
            made = work.interval / power.interval
            formula = f"({work.text}) / ({power.text})"
            yield from _broken(out, made, (work, power), formula, why, binary=True)


def _block_size(group: list[Value]) -> Iterator[Broken]:
    for rate, iops in _combinations(group, "throughput", "iops"):
        text = rate.rows[0].block_size
        sizes = size_bytes(text)
        if not sizes:
            continue
        made = [iops.interval.scaled(size) for size in sizes]
        if any(rate.interval.meets(interval) for interval in made):
            continue
        why = "Throughput is operations per second times the size of an operation."
        formula = f"{iops.text} x {text}"
        yield from _broken(rate, made[-1], (iops,), formula, why, binary=len(sizes) == 1)


def _energy(group: list[Value]) -> Iterator[Broken]:
    why = "Energy is mean power times time."
    for energy, power, time in _combinations(group, "energy", "power", "duration"):
        made = power.interval * time.interval
        yield from _broken(
            energy, made, (power, time), f"{power.text} x {time.text}", why, binary=False
        )


_DENSITIES = {"throughput_per_tb": "throughput", "iops_per_tb": "iops"}


def _density(table: PublishedTable, value: Value, values: list[Value]) -> Iterator[Broken]:
    made = _densities(table, value, values)
    if not made or any(value.interval.meets(interval) for interval, _, _ in made):
        return
    best, rate, capacity = min(made, key=lambda m: _distance(m[0], value.interval))
    formula = f"{rate.text} / {capacity.text}"
    why = _density_words(value)
    yield from _broken(value, best, (rate, capacity), formula, why, binary=True)


def _density_words(value: Value) -> str:
    name = value.quantity.name
    return f"{name.replace('_', ' ')} is {_DENSITIES[name]} over capacity."


def _densities(
    table: PublishedTable, value: Value, values: list[Value]
) -> list[tuple[Interval, Value, Value]]:
    """Return the numbers per TB that a table admits: each rate over each stated capacity."""
    wanted = _DENSITIES.get(value.quantity.name)
    if wanted is None:
        return []
    same = replace(value.quantity, name=wanted)
    rates = [
        v
        for v in values
        if (v.config, v.place) == (value.config, value.place) and v.quantity.same == same.same
    ]
    sizes = capacities(table, value.config) if rates else []
    return [(v.interval / c.interval, v, c) for v in rates for c in sizes]


def coarse_densities(table: PublishedTable) -> Iterator[Broken]:
    """Yield numbers per TB that are over 10 % off because they are rounded to one digit."""
    values = [v for v in measured(table) if not v.unit]
    for value in values:
        row = value.rows[0]
        if value.quantity.name not in _DENSITIES or not row.value or _digits(row) > 1:
            continue
        densities = _densities(table, value, values)
        made = [m for m in densities if m[0].middle and m[0].meets(value.interval)]
        printed = row.value * _printed_factor(value)
        if not made or min(abs(printed / interval.middle - 1) for interval, _, _ in made) <= COARSE:
            continue
        true, rate, capacity = min(made, key=lambda m: abs(printed / m[0].middle - 1))
        shown = number(true.middle / _printed_factor(value))
        change = 100 * (printed / true.middle - 1)
        yield Broken(
            (*value.rows, *rate.rows, *capacity.rows),
            f"{row.metric} {value.text} ({value.config})",
            f"{rate.text} / {capacity.text} = {shown} {row.unit}".rstrip(),
            f"{_density_words(value)} With one digit it is {abs(change):.0f} % too "
            f"{'high' if change > 0 else 'low'}: print two, or take a smaller unit.",
            value.interval,
            true,
        )


def _digits(row: Row) -> int:
    """Return the number of significant digits of a printed number."""
    return math.floor(math.log10(abs(row.value or 1.0) / row.rounding_unit) + 1e-9) + 1


def _distance(a: Interval, b: Interval) -> float:
    return abs(math.log(a.middle / b.middle)) if a.middle > 0 and b.middle > 0 else math.inf
