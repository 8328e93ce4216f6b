"""Parser of metric names and units in published tables into quantity, statistic and form.

All recognised spellings are listed in this module. Quantities are throughput, iops, latency, ttfb,
power, energy, energy_per_work, power_efficiency, energy_efficiency, iops_per_watt,
throughput_per_tb, iops_per_tb, capacity, size, memory, rate, count, duration, queue_depth, jobs,
price, share, version and other.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from functools import cache, lru_cache
from typing import Literal

from storlab.audit import units
from storlab.audit.table import Row
from storlab.audit.units import Unit, parse_unit
from storlab.model.published import REMEMBERED

Form = Literal["value", "ratio", "increase", "reduction", "faster", "slower", "better", "worse"]
Bound = Literal["", "min", "max"]

HIGHER_IS_BETTER = {
    *("throughput", "iops", "power_efficiency", "energy_efficiency", "iops_per_watt"),
    *("throughput_per_tb", "iops_per_tb", "capacity"),
}
LOWER_IS_BETTER = {"latency", "ttfb", "duration", "power", "energy", "energy_per_work", "price"}
ADDITIVE = {"throughput", "iops", "power", "energy", "price"}


@dataclass(frozen=True, slots=True)
class Quantity:
    """Parsed meaning of a table row's metric: quantity, statistic, form and unit."""

    name: str
    statistic: str = ""
    """Statistic: avg, p50, p99 ..., max, min or stdev; empty if the name states none."""
    form: Form = "value"
    bound: Bound = ""
    """End of the range that a claim or headline states."""
    part: str = ""
    """Qualifying words: a part of a whole or one of several kinds (read, server, total, rated)."""
    unit: Unit | None = None

    @property
    def is_claim(self) -> bool:
        """Whether the metric compares two configurations."""
        return self.form != "value"

    @property
    def same(self) -> tuple[str, str, str]:
        """Key that is equal for two rows about the same quantity."""
        return self.name, self.statistic, self.part


_FORMS: dict[str, Form] = {
    **dict.fromkeys(("ratio", "speedup", "factor", "multiple", "relative"), "ratio"),
    **dict.fromkeys(("increase", "increased", "higher", "more", "greater", "rise"), "increase"),
    **dict.fromkeys(("reduction", "reduced", "decrease", "lower", "less", "drop"), "reduction"),
    **dict.fromkeys(("saving", "savings", "saved", "fewer"), "reduction"),
    **dict.fromkeys(("faster", "quicker"), "faster"),
    "slower": "slower",
    **dict.fromkeys(("improvement", "better", "gain", "advantage", "uplift", "improved"), "better"),
    "worse": "worse",
}
_STATISTICS = {
    **dict.fromkeys(("avg", "mean", "average"), "avg"),
    **dict.fromkeys(("median", "p50"), "p50"),
    **dict.fromkeys(("max", "maximum", "peak"), "max"),
    **dict.fromkeys(("min", "minimum"), "min"),
    "geomean": "geomean",
    **dict.fromkeys(("stdev", "stddev", "std"), "stdev"),
}
_PERCENTILE = re.compile(r"p?(\d{2})(?:th)?(?:[._](\d+))?|p(\d{3,6})")

# Words by which a quantity is recognised in a metric's name. All words of a pattern must occur, in
# any order. The first match counts.
_NAMES: tuple[tuple[str, str], ...] = (
    ("share", "share"),
    ("ttfb", "ttfb"),
    ("time first byte", "ttfb"),
    ("throughput per watt", "power_efficiency"),
    ("bandwidth per watt", "power_efficiency"),
    ("bw per watt", "power_efficiency"),
    ("performance per watt", "power_efficiency"),
    ("perf per watt", "power_efficiency"),
    ("throughput per w", "power_efficiency"),
    ("iops per watt", "iops_per_watt"),
    ("iops per w", "iops_per_watt"),
    ("power efficiency", "power_efficiency"),
    ("energy efficiency", "energy_efficiency"),
    ("energy per", "energy_per_work"),
    ("throughput per tb", "throughput_per_tb"),
    ("bandwidth per tb", "throughput_per_tb"),
    ("bw per tb", "throughput_per_tb"),
    ("throughput density", "throughput_per_tb"),
    ("throughput per", "other"),
    ("iops per tb", "iops_per_tb"),
    ("iops density", "iops_per_tb"),
    ("iops per", "other"),
    ("storage per node", "capacity"),
    ("storage per server", "capacity"),
    ("capacity per", "capacity"),
    ("ops per second", "iops"),
    ("requests per second", "iops"),
    ("io per second", "iops"),
    ("ios per second", "iops"),
    ("objects per second", "iops"),
    ("per", "other"),
    ("queue depth", "queue_depth"),
    ("iodepth", "queue_depth"),
    ("qd", "queue_depth"),
    ("numjobs", "jobs"),
    ("jobs", "jobs"),
    ("workers", "jobs"),
    ("threads", "jobs"),
    ("concurrency", "jobs"),
    ("price", "price"),
    ("cost", "price"),
    ("tco", "price"),
    ("capex", "price"),
    ("opex", "price"),
    ("latency", "latency"),
    ("latencies", "latency"),
    ("lat", "latency"),
    ("clat", "latency"),
    ("response time", "latency"),
    ("iops", "iops"),
    ("throughput", "throughput"),
    ("tput", "throughput"),
    ("thruput", "throughput"),
    ("bandwidth", "throughput"),
    ("bw", "throughput"),
    ("power", "power"),
    ("watts", "power"),
    ("wattage", "power"),
    ("energy", "energy"),
    ("joules", "energy"),
    ("capacity", "capacity"),
    ("memory", "memory"),
    ("size", "size"),
    ("rate", "rate"),
    ("speed", "rate"),
    ("version", "version"),
    ("elapsed time", "duration"),
    ("run time", "duration"),
    ("wall time", "duration"),
    ("completion time", "duration"),
    ("time", "duration"),
    ("duration", "duration"),
    ("runtime", "duration"),
    ("ramp", "duration"),
    ("elapsed", "duration"),
)
NEUTRAL = {
    "performance",
    "per",
    "by",
    "of",
    "in",
    "the",
    "vs",
    "and",
    "text",
    "io",
    "percentile",
} | {
    *("tb", "gb", "mb", "pb"),
}

_UNIT_OF_NAME = {"watts": "W", "watt": "W", "joules": "J"}
_WORDS = {"watts", "joules", "iops", "b", "w", "j"}  # units that are also names of quantities


def _by_unit(unit: Unit | None) -> str | None:
    """Return the quantity implied by a unit alone, or None."""
    if unit is None:
        return None
    shapes = {
        units.BYTES_PER_S: "throughput",
        units.OPERATIONS_PER_S: "iops",
        units.WATTS: "power",
        units.JOULES: "energy",
        units.MONEY: "price",
        (0, 0, -1, 1, 0): "iops_per_watt",
        (-1, 0, 1, 0, 0): "energy_per_work",
        (-1, -1, 0, 1, 0): "iops_per_tb",
    }
    if unit.dims == (1, 0, -1, 0, 0):
        in_watts = any(part[0] == units.WATTS for part in unit.parts)
        return "power_efficiency" if in_watts else "energy_efficiency"
    if unit.dims == (0, -1, 0, 0, 0) and len(unit.parts) == 3:
        return "throughput_per_tb"
    return shapes.get(unit.dims)


@cache
def quantity(metric: str, unit_text: str) -> Quantity:
    """Parse a metric's name and unit.

    Unknown names give the quantity ``other`` with the name as its part.
    """
    unit = _unit(unit_text)
    spelled = _unit_as_name(metric)
    if spelled is not None and (not unit_text.strip() or unit == spelled):
        return Quantity(str(_by_unit(spelled)), unit=spelled)
    raw = re.sub(r"(?<=[a-z])(?=[A-Z])", "_", metric.strip())
    tokens = [t for t in re.split(r"[^A-Za-z0-9.]+", raw.lower()) if t]
    named, tokens = _without_unit(tokens, bool(unit_text.strip()))
    unit = named if unit is None and not unit_text.strip() else unit
    form = _form(tokens, unit)
    bound: Bound = ""
    if form != "value" and tokens and tokens[-1] in ("min", "max"):
        bound = "min" if tokens.pop() == "min" else "max"
    statistic, tokens = _statistic([t for t in tokens if t not in _FORMS])
    name, rest = _name(tokens, unit, form)
    if unit is None and not unit_text.strip():
        unit = parse_unit({"iops": "IOPS"}.get(name, _UNIT_OF_NAME.get(metric.strip().lower(), "")))
    if name == "other" and form == "value":
        rest = [metric.strip().lower()]
    elif name == "capacity" and "per" in tokens:
        rest = [*rest, "node"] if "storage" in tokens else rest
    part = "_".join(sorted(t for t in rest if t not in NEUTRAL))
    return Quantity(name, statistic, form, bound, part, unit)


def _without_unit(tokens: list[str], has_unit: bool) -> tuple[Unit | None, list[str]]:
    """Split off the unit at the end of a metric's name or before its statistic (power_w_avg)."""
    end = len(tokens)
    while end > 1 and _statistic([tokens[end - 1]])[0]:
        end -= 1
    for stop in dict.fromkeys((len(tokens), end)):
        named, taken = units.unit_of_name(tokens[:stop])
        rest = [*tokens[: stop - taken], *tokens[stop:]]
        if taken and (not has_unit or _names_something(rest)):
            return named, rest
    return None, tokens


def _unit(text: str) -> Unit | None:
    rates = {"k": "kIOPS", "K": "kIOPS", "M": "MIOPS"}  # an IOPS column in thousands or millions
    return parse_unit(rates.get(text.strip(), text))


def _unit_as_name(metric: str) -> Unit | None:
    """Return the unit if a metric is named after it, as TB/kWh or mb_s_per_w; otherwise None."""
    for text in (metric.strip(), re.sub("_per_|_", "/", metric.strip())):
        unit = parse_unit(text)
        if unit is not None and _by_unit(unit) is not None and text.lower() not in _WORDS:
            return unit
    return None


def _names_something(tokens: list[str]) -> bool:
    return any(set(pattern.split()) <= set(tokens) for pattern, _ in _NAMES)


def _form(tokens: list[str], unit: Unit | None) -> Form:
    for token in tokens:
        if token in _FORMS:
            return _FORMS[token]
    return "ratio" if unit is not None and unit.kind == "x" else "value"


def _statistic(tokens: list[str]) -> tuple[str, list[str]]:
    """Split off the statistic from a metric's name; a percentile is preferred to min and max."""
    statistics: list[str] = []
    rest: list[str] = []
    skip = False
    for place, token in enumerate(tokens):
        following = tokens[place + 1] if place + 1 < len(tokens) else ""
        if skip:
            skip = False
        elif token in _STATISTICS:
            statistics.append(_STATISTICS[token])
        elif match := _PERCENTILE.fullmatch(token):
            digits = match[3] or (match[1] + (match[2] or ""))
            if re.fullmatch(r"9+", following) and not match[2] and not match[3]:
                digits, skip = digits + following, True
            statistics.append(f"p{digits.rstrip('0') if len(digits) > 2 else digits}")
        else:
            rest.append(token)
    strong = [word for word in statistics if word not in ("min", "max")]
    return (strong or statistics or [""])[0], rest


def _name(tokens: list[str], unit: Unit | None, form: Form) -> tuple[str, list[str]]:
    by_unit = _by_unit(unit)
    is_share = "per" in tokens and "second" not in tokens and by_unit not in _QUOTIENTS
    for pattern, name in _NAMES:
        words = pattern.split()
        if set(words) <= set(tokens):
            if name == "other" and is_share:
                return name, tokens  # throughput per node is not a throughput, whatever its unit
            if form == "value" and by_unit is not None:
                return _settled(name, by_unit), [t for t in tokens if t not in words]
            if form == "value" and unit is not None and unit.dims != _DIMS.get(name, unit.dims):
                return "other", tokens  # a share of requests below a latency is not a latency
            return name, [t for t in tokens if t not in words]
    if by_unit is not None:
        return by_unit, tokens
    if unit is not None and unit.dims == units.BYTES:
        return "size", tokens
    if unit is not None and unit.dims == units.SECONDS:
        return "duration", tokens
    if unit is not None and unit.kind in ("count", "version"):
        return unit.kind, tokens
    return "other", tokens


_DIMS = {
    **dict.fromkeys(("latency", "ttfb", "duration"), units.SECONDS),
    **dict.fromkeys(("power_efficiency", "energy_efficiency"), (1, 0, -1, 0, 0)),
    "throughput": units.BYTES_PER_S,
    "iops": units.OPERATIONS_PER_S,
    "power": units.WATTS,
    "energy": units.JOULES,
    "energy_per_work": (-1, 0, 1, 0, 0),
    "iops_per_watt": (0, 0, -1, 1, 0),
    "iops_per_tb": (-1, -1, 0, 1, 0),
    "throughput_per_tb": (0, -1, 0, 0, 0),
}
_QUOTIENTS = {
    *("power_efficiency", "energy_efficiency", "iops_per_watt", "energy_per_work"),
    *("throughput_per_tb", "iops_per_tb"),
}


def _settled(name: str, by_unit: str) -> str:
    """Return the quantity by name if the name is specific, otherwise by unit."""
    if name in ("rate", "memory", "size", "queue_depth", "jobs", "count"):
        return name
    return by_unit


@lru_cache(maxsize=REMEMBERED)
def quantity_of(row: Row) -> Quantity:
    """Return the parsed quantity of a table row.

    In headlines and ranges, "min" and "max" mean an end of the range rather than a statistic.
    """
    parsed = quantity(row.metric, row.unit)
    ranged = _RANGE_ENDS.get(row.qualifier.lower(), "")
    if ranged:
        extreme = parsed.statistic in ("min", "max")
        return replace(parsed, bound=ranged, statistic="" if extreme else parsed.statistic)
    if row.kind != "headline_claim" or parsed.is_claim or parsed.statistic not in ("min", "max"):
        return parsed
    return replace(parsed, statistic="", bound="min" if parsed.statistic == "min" else "max")


_RANGE_ENDS: dict[str, Bound] = {"range_min": "min", "range_max": "max"}


def factor_of(row: Row) -> float | None:
    """Return the factor that converts a row's value to B, s, J, operations or money.

    None if the unit is unknown.
    """
    unit = quantity_of(row).unit
    return None if unit is None else unit.factor


@cache
def size_bytes(text: str) -> tuple[float, ...]:
    """Return the byte counts that a size such as ``256KB`` may mean (KB as 1,000 or 1,024)."""
    match = re.fullmatch(r"\s*([\d.,]+)\s*([A-Za-z]+)\s*", text)
    if match is None:
        return ()
    try:
        number = float(match[1].replace(",", ""))
    except ValueError:
        return ()
    name = match[2] if match[2][-1] in "bB" else f"{match[2]}B"
    if re.fullmatch(r"[kKmMgGtT][bB]", name):
        letter = name[0].upper()
        return number * units.SI[letter], number * units.IEC[letter]
    unit = parse_unit(name)
    return (number * unit.factor,) if unit is not None and unit.dims == units.BYTES else ()


# Words in a metric's name that do not make it a different quantity.
_PLAIN = {
    *("rand", "random", "seq", "sequential", "sustained", "steady", "aggregate", "aggregated"),
    *("overall", "total", "all", "achieved", "measured", "completion", "read", "reads", "write"),
    *("writes", "get", "put", "cluster", "system", "array", "active", "load", "loaded", "under"),
}


@lru_cache(maxsize=REMEMBERED)
def plain_part(row: Row) -> str:
    """Return the words that qualify a row's metric, without generic ones and the workload's."""
    workload = re.sub(r"[^a-z0-9]+", "", row.workload.lower())
    words = [w for w in quantity_of(row).part.split("_") if w and w not in _PLAIN]
    return "_".join(w for w in words if w not in workload)


_TOTALS = {
    *("total", "all", "read+write", "mixed", "combined", "aggregate", "aggregated", "overall"),
    *("sum", "get+put", "rw", "readwrite", "read/write", "write+read", "put+get", "both"),
}
_PARTS = ({"read", "reads", "r"}, {"write", "writes", "w"}, {"get"}, {"put"})
_PART_NAMES = ("read", "write", "get", "put")


@lru_cache(maxsize=REMEMBERED)
def operation_of(row: Row) -> str:
    """Return a row's operation: read, write, get, put, total, or the text of its column.

    If the operation column is empty, the metric's name is used.
    """
    candidates = [row.op.strip().lower()] if row.op.strip() else quantity_of(row).part.split("_")
    for word in candidates:
        if word in _TOTALS:
            return "total"
        for names, name in zip(_PARTS, _PART_NAMES, strict=True):
            if word in names:
                return name
    return row.op.strip().lower()
