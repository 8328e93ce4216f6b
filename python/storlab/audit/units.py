"""Parser of published units (MB/s/W, TB/kWh, us, k IOPS) into dimensions and a factor.

Factors convert to B, s, J, operations and currency units.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cache

from storlab.base.units import J_PER_WH

_PREFIXES = {"": 1.0, "k": 1e3, "K": 1e3, "M": 1e6, "G": 1e9, "T": 1e12, "P": 1e15, "E": 1e18}
_BINARY = {"Ki": 2.0**10, "Mi": 2.0**20, "Gi": 2.0**30, "Ti": 2.0**40, "Pi": 2.0**50}
_SMALL = {"m": 1e-3, "u": 1e-6, "n": 1e-9}

SI = {"K": 1e3, "M": 1e6, "G": 1e9, "T": 1e12}
IEC = {"K": 2.0**10, "M": 2.0**20, "G": 2.0**30, "T": 2.0**40}

Dims = tuple[int, int, int, int, int]
"""Exponents of bytes, seconds, joules, operations and money."""

BYTES: Dims = (1, 0, 0, 0, 0)
SECONDS: Dims = (0, 1, 0, 0, 0)
JOULES: Dims = (0, 0, 1, 0, 0)
OPERATIONS: Dims = (0, 0, 0, 1, 0)
MONEY: Dims = (0, 0, 0, 0, 1)
NONE: Dims = (0, 0, 0, 0, 0)
WATTS: Dims = (0, -1, 1, 0, 0)
BYTES_PER_S: Dims = (1, -1, 0, 0, 0)
OPERATIONS_PER_S: Dims = (0, -1, 0, 1, 0)


@dataclass(frozen=True, slots=True)
class Unit:
    """Parsed unit: ``value x factor`` is in B, s, J, operations and currency."""

    dims: Dims
    factor: float
    parts: tuple[tuple[Dims, int], ...] = ()
    """Dimension and sign of each factor as written: MB/s/TB is B, -s, -B."""
    kind: str = ""
    """Kind of a dimensionless unit: x, percent, count or version."""


def _table() -> dict[str, tuple[Dims, float, str]]:
    units: dict[str, tuple[Dims, float, str]] = {}
    for prefix, factor in _PREFIXES.items():
        units[f"{prefix}B"] = (BYTES, factor, "")
        units[f"{prefix}b"] = (BYTES, factor / 8, "")
        for name in ("bit", "bits"):
            units[f"{prefix}{name}"] = (BYTES, factor / 8, "")
        for name in ("byte", "bytes"):
            units[f"{prefix}{name}"] = (BYTES, factor, "")
        for name in ("IOPS", "IOps", "iops", "OPS", "ops/s"):
            units[f"{prefix}{name}"] = (OPERATIONS_PER_S, factor, "")
        for name in ("IO", "IOs", "op", "ops", "obj", "objects", "req", "requests", "files"):
            units[f"{prefix}{name}"] = (OPERATIONS, factor, "")
        units[f"{prefix}W"] = (WATTS, factor, "")
        units[f"{prefix}J"] = (JOULES, factor, "")
        units[f"{prefix}Wh"] = (JOULES, factor * J_PER_WH, "")
    for prefix, factor in _BINARY.items():
        units[f"{prefix}B"] = (BYTES, factor, "")
        units[f"{prefix}b"] = (BYTES, factor / 8, "")
    for prefix, factor in _SMALL.items():
        units[f"{prefix}s"] = (SECONDS, factor, "")
        units[f"{prefix}sec"] = (SECONDS, factor, "")
        units[f"{prefix}W"] = (WATTS, factor, "")
        units[f"{prefix}J"] = (JOULES, factor, "")
        units[f"{prefix}Wh"] = (JOULES, factor * J_PER_WH, "")
    return {**units, "uJ": (JOULES, 1e-6, ""), **_words()}


def _words() -> dict[str, tuple[Dims, float, str]]:
    """Return the units that take no SI prefix, with dimensions and factors."""
    units: dict[str, tuple[Dims, float, str]] = {}
    for names, seconds in (
        ("s sec secs second seconds", 1.0),
        ("millisecond milliseconds msec msecs", 1e-3),
        ("microsecond microseconds usec usecs", 1e-6),
        ("min minute minutes", 60.0),
        ("h hr hour hours", 3600.0),
        ("day days", 86_400.0),
        ("year years", 365.25 * 86_400),
    ):
        for name in names.split():
            units[name] = (SECONDS, seconds, "")
    for name in ("watt", "watts", "Watt", "Watts"):
        units[name] = (WATTS, 1.0, "")
    for name in ("joule", "joules", "Joule", "Joules"):
        units[name] = (JOULES, 1.0, "")
    for name in ("USD", "$", "EUR", "GBP", "money", "dollars", "euros"):
        units[name] = (MONEY, 1.0, "")
    for names, kind, factor in (
        ("x X times fold ratio", "x", 1.0),
        ("% percent pct", "percent", 0.01),
        ("count 1 drives nodes servers", "count", 1.0),
        ("version model ddr_gen pcie_gen", "version", 1.0),
    ):
        for name in names.split():
            units[name] = (NONE, factor, kind)
    return units


_UNITS = _table()
_LOWER = {
    name.lower(): unit
    for name, unit in _UNITS.items()
    # Leave out units that differ from another one only in case, such as kb (bits) from kB. So kb
    # means bytes, because authors who mean bits usually write kbit.
    if not re.fullmatch(r"[kKMGTPE]?i?b|[Mm]W|[Mm]J|[Mm]Wh|MW", name)
}
_SHORT = {
    "bps": "b/s",
    "Bps": "B/s",
    "B/sec": "B/s",
    "ibps": "iB/s",
    "iBps": "iB/s",
    "bit/s": "b/s",
}


@cache
def parse_unit(text: str) -> Unit | None:
    """Parse a unit such as ``MB/s/W``, ``GiB/s per TB`` or ``k IOPS``; None if unknown."""
    clean = text.strip().replace("µ", "u").replace("μ", "u")
    if not clean:
        return None
    clean = re.sub(r"\bmillion\s+", "M", clean).replace("·", "*")
    clean = re.sub(r"^([kKM])\s+(?=IO|iops|ops)", r"\1", clean)
    clean = re.sub(r"\s*(?:/|\bper\b|_per_)\s*", "/", clean)
    if clean.count("/") < 2 and "(" in clean:
        return None
    clean = clean.replace("(", "").replace(")", "")
    for short, full in _SHORT.items():
        clean = re.sub(rf"(?<=[kKMGTP]){short}\b|^{short}\b", full, clean)
    dims, factor, kind = [0, 0, 0, 0, 0], 1.0, ""
    parts: list[tuple[Dims, int]] = []
    for place, token in enumerate(clean.split("/")):
        unit = _UNITS.get(token.strip()) or _LOWER.get(token.strip().lower())
        if unit is None:
            return None
        sign = -1 if place else 1
        dims = [total + sign * power for total, power in zip(dims, unit[0], strict=True)]
        factor *= unit[1] ** sign
        kind = unit[2] if not place else ""
        parts.append((unit[0], sign))
    return Unit((dims[0], dims[1], dims[2], dims[3], dims[4]), factor, tuple(parts), kind)


def unit_of_name(tokens: list[str]) -> tuple[Unit | None, int]:
    """Return the unit at the end of a metric's name and its token count, as in throughput_mb_s."""
    for count in (4, 3, 2, 1):
        tail = tokens[-count:]
        if len(tokens) <= count or "per" in (tail[0], tail[-1]):
            continue
        # One unit after "per" is only the divisor, as "w" in mb_s_per_w.
        if tokens[-count - 1] == "per" and count == 1:
            continue
        text = "/".join(token for token in tail if token != "per")  # noqa: S105 - a word
        if any(token in _NOT_A_SUFFIX for token in tail):
            continue
        unit = parse_unit(text)
        if unit is not None and (unit.kind != "version"):
            return unit, count
    return None, 0


# Words that are no unit at the end of a metric's name although they look like one, or that are
# ambiguous (mbps).
_NOT_A_SUFFIX = {
    *("drives", "nodes", "servers", "files", "objects", "requests", "ops", "op", "obj", "req"),
    *("ratio", "times", "fold", "x", "min", "count", "1", "model", "version", "b", "iops", "bits"),
    *("mbps", "gbps", "kbps", "watt", "watts", "joule", "joules", "bytes", "byte", "io", "ios"),
    *("percent", "pct", "money", "hour", "hours", "second", "seconds", "minutes", "ratio"),
    *("year", "years", "day", "days"),
}
