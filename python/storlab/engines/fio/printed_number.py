"""Bounds of numbers that fio prints rounded, such as ``12.3k`` or ``48.1MiB/s``."""

from __future__ import annotations

import re

from storlab.base.rounding import Bounds

Version = tuple[int, int]
"""Major and minor version of fio, such as (3, 33)."""
UNKNOWN_VERSION: Version = (0, 0)
SI_UNITS: Version = (2, 17)
"""First version that prints binary units as KiB, next to SI units such as kB."""
EXACT_FRACTIONS: Version = (2, 20)
"""First version whose digits after the point are a decimal fraction."""
_CARRIED_FRACTIONS: Version = (3, 26)  # before, 12.97k was printed as 12.0k
_NUMBER = re.compile(r"([\d.]+)\s*([kmgtpe]?)(i?)(b|bit)?(?:/s)?", re.IGNORECASE)


def bounds(text: str, version: Version, *, kilo: int = 1000) -> Bounds | None:
    """Return the bounds of a number that fio printed; None if the text is not a number.

    Args:
        text: The number with its unit, such as ``12.3k``, ``48.1MiB/s`` or ``712421B/s``.
        version: Version of fio, which determines how it rounds.
        kilo: Value of the prefix ``k`` without ``i``: 1,024 for bytes before fio 2.17.
    """
    match = _NUMBER.fullmatch(text.strip())
    if match is None or match[1].count(".") > 1 or match[1] == ".":
        return None
    base = 1024 if match[3] else kilo
    unit = float(base ** " kmgtpe".index(match[2].lower() or " "))
    if (match[4] or "").lower() == "bit":
        unit /= 8
    whole, _, fraction = match[1].partition(".")
    if not fraction:
        number = int(whole)
        return Bounds((number - (0.5 if match[2] else 0)) * unit, (number + 1) * unit)
    if version < EXACT_FRACTIONS:
        return Bounds(int(whole or 0) * unit, (int(whole or 0) + 1) * unit)
    digit = 10.0 ** -len(fraction)
    value = float(match[1])
    low, high = value - digit / 2, value + digit / 2 + 1e-3  # older remainders were truncated
    if version < _CARRIED_FRACTIONS and not int(fraction):
        high = value + 1
    return Bounds(low * unit, high * unit)


def exact(text: str) -> float | None:
    """Convert a latency that fio prints, such as ``1591.7k``; return None if it is malformed.

    Prefixes without ``i`` are powers of 1,000. For block sizes, use `size`.
    """
    return _value(text, 1000)


def size(text: str, version: Version) -> int | None:
    """Convert a printed block size to bytes: ``4096B``, ``128KiB``, or ``4K`` before fio 2.17."""
    value = _value(text, 1000 if version >= SI_UNITS and text.rstrip().endswith("B") else 1024)
    return None if value is None else round(value)


def _value(text: str, kilo: int) -> float | None:
    match = _NUMBER.fullmatch(text.strip())
    if match is None or match[1].count(".") > 1 or match[1] == ".":
        return None
    base = 1024 if match[3] else kilo
    return float(match[1]) * float(base ** " kmgtpe".index(match[2].lower() or " "))
