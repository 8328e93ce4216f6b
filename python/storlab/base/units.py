"""Parse and format sizes, durations, power and quantities.

Internally, sizes are ``int`` bytes and durations ``int`` nanoseconds; output is in SI units.
``KiB``/``MiB``/``GiB``/``TiB`` are powers of 1,024 and ``KB``/``MB``/``GB``/``TB`` powers of 1,000
(IEC 80000-13). A bare ``K`` or ``M`` is rejected, because tools interpret it differently.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable
from decimal import ROUND_HALF_UP, Context, Decimal
from fractions import Fraction
from typing import TypeVar

FactorT = TypeVar("FactorT", int, Fraction)

NS_PER_S = 1_000_000_000
NS_PER_MS = 1_000_000
MB = 1_000_000
GB = 1_000_000_000
TB = 1_000_000_000_000
MIB = 1 << 20
GIB = 1 << 30
J_PER_WH = 3_600
J_PER_KWH = 3_600_000
TB_KWH_PER_MB_J = 3.6  # exact: 1 TB is 10^6 MB, and 1 kWh is 3.6 x 10^6 J
LARGEST = 2**63 - 1  # limit of kernel and engine for bytes and nanoseconds

SIZE_UNITS: dict[str, int] = {
    "B": 1,
    "KB": 10**3,
    "MB": 10**6,
    "GB": 10**9,
    "TB": 10**12,
    "PB": 10**15,
    "KiB": 2**10,
    "MiB": 2**20,
    "GiB": 2**30,
    "TiB": 2**40,
    "PiB": 2**50,
}
_SIZE_BY_LOWER = {unit.lower(): factor for unit, factor in SIZE_UNITS.items()}

DURATION_UNITS: dict[str, int] = {
    "ns": 1,
    "us": 10**3,
    "ms": 10**6,
    "s": NS_PER_S,
    "min": 60 * NS_PER_S,
    "h": 3600 * NS_PER_S,
}

POWER_UNITS: dict[str, Fraction] = {
    "mW": Fraction(1, 1000),
    "W": Fraction(1),
    "kW": Fraction(1000),
    "MW": Fraction(1_000_000),
}

_NUMBER_UNIT = re.compile(r"\s*([0-9][0-9_]*(?:\.[0-9]+)?)\s*([A-Za-z]*)\s*")
_BINARY_SIZE = re.compile(r"\s*(\d+(?:\.\d+)?)\s*([KMGTPE]?)(?:i?b|bytes)?\s*", re.IGNORECASE)


def parse_size(text: str | int) -> int:
    """Parse ``"256KiB"``, ``"1.5TB"`` or an integer of bytes, and return bytes.

    Raises:
        ValueError: The text is malformed; the message includes an example.
    """
    wanted = 'a size such as "256KiB" or "4MB"'
    if not isinstance(text, str):
        _check_number(text, wanted, int)
        return _in_range(text, text)
    number, unit = _split(text, wanted)
    if unit.lower() in ("k", "m", "g", "t", "p"):
        raise ValueError(
            f'"{text}" is ambiguous: write {unit.upper()}iB (powers of 1,024) or '
            f"{unit.upper()}B (powers of 1,000)"
        )
    factor = _known(_SIZE_BY_LOWER.get(unit.lower() or "b"), text, unit, SIZE_UNITS)
    return _whole(number * factor, text, "bytes")


def binary_size(text: str) -> int | None:
    """Convert a size whose prefixes are powers of 1,024 however they are written to bytes.

    Returns:
        Bytes of a text such as ``16Kb``, ``1.5 GiB`` or ``47008 bytes``; None for other texts.
    """
    match = _BINARY_SIZE.fullmatch(text)
    return match and round(float(match[1]) * 1024 ** " KMGTPE".index(match[2].upper() or " "))


def parse_duration(text: str | int | float) -> int:
    """Parse ``"300s"``, ``"5min"`` or a number of seconds, and return nanoseconds.

    Raises:
        ValueError: The text is malformed; the message includes an example.
    """
    wanted = 'a duration such as "300s" or "10min"'
    if not isinstance(text, str):
        _check_number(text, wanted, int, float)
        return _in_range(round(text * NS_PER_S), text)
    number, unit = _split(text, wanted)
    factor = _known(DURATION_UNITS.get(unit.lower() or "s"), text, unit, DURATION_UNITS)
    return _whole(number * factor, text, "nanoseconds")


def parse_power(text: str | int | float) -> float:
    """Parse ``"15kW"``, ``"800W"`` or a number of watts, and return watts.

    Units are case-sensitive, since ``mW`` and ``MW`` differ.

    Raises:
        ValueError: The text is malformed; the message includes an example.
    """
    wanted = 'a power such as "15kW" or "800W"'
    if not isinstance(text, str):
        _check_number(text, wanted, int, float)
        if text < 0:
            raise ValueError(f"{text} is not {wanted}")
        return float(text)
    number, unit = _split(text, wanted)
    return float(number * _known(POWER_UNITS.get(unit or "W"), text, unit, POWER_UNITS))


def _check_number(value: object, wanted: str, *kinds: type) -> None:
    """Raise ValueError unless the value is a finite number of one of these types."""
    number = isinstance(value, kinds) and not isinstance(value, bool)
    if not number or (isinstance(value, float) and not math.isfinite(value)):
        raise ValueError(f"{_shown(value)} is not {wanted}")


def _known(factor: FactorT | None, text: str, unit: str, units: Iterable[str]) -> FactorT:
    if factor is None:
        raise ValueError(f'"{text}" has the unknown unit "{unit}"; use one of {", ".join(units)}')
    return factor


def _split(text: str, wanted: str) -> tuple[Fraction, str]:
    match = _NUMBER_UNIT.fullmatch(text)
    if match is None or len(text) > 64:
        raise ValueError(f'"{text[:64]}" is not {wanted}')
    return Fraction(match.group(1).replace("_", "")), match.group(2)


def _whole(value: Fraction, text: str, unit: str) -> int:
    if value.denominator != 1:
        raise ValueError(f'"{text}" is not a whole number of {unit}')
    return _in_range(value.numerator, text)


def _shown(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else repr(value)[:60]


def _in_range(value: int, text: object) -> int:
    if value < 0:
        raise ValueError(f"{text!r} is negative")
    if value > LARGEST:
        raise ValueError(f"{text!r} is too large for a size or duration")
    return value


def format_size(size_bytes: int) -> str:
    """Format a size as the shortest exact text for ``parse_size``: 262144 as ``"256KiB"``."""
    binary = ("PiB", "TiB", "GiB", "MiB", "KiB")
    decimal = ("PB", "TB", "GB", "MB", "KB")
    exact = [u for u in (*binary, *decimal) if size_bytes and size_bytes % SIZE_UNITS[u] == 0]
    if not exact:
        return f"{size_bytes}B"
    best = max(exact, key=lambda u: SIZE_UNITS[u])
    return f"{size_bytes // SIZE_UNITS[best]}{best}"


def same_number_in_binary_units(size_bytes: int) -> str | None:
    """Return the binary size with the same number, such as "4KiB" for 4 KB (4,000 bytes).

    The result is None if the size is not a multiple of 1,000 bytes.
    """
    for power, unit in ((5, "PiB"), (4, "TiB"), (3, "GiB"), (2, "MiB"), (1, "KiB")):
        number, rest = divmod(size_bytes, 1000**power)
        if number and not rest:
            return f"{number}{unit}"
    return None


def exact_duration(duration_ns: int) -> str:
    """Format a duration as the shortest exact text that ``parse_duration`` reads: ``"250ms"``."""
    exact = [u for u, factor in DURATION_UNITS.items() if duration_ns % factor == 0]
    unit = exact[-1] if duration_ns else "s"
    return f"{duration_ns // DURATION_UNITS[unit]}{unit}"


def last_place(value: float, digits: int) -> int:
    """Return the power of ten of a number's last significant digit, after rounding half up.

    Args:
        value: The number, such as 1,234; 0 has the power 0.
        digits: Significant digits to keep: with two, 1,234 has the power 2.
    """
    if not value or not math.isfinite(value):
        return 0
    kept = Context(digits, ROUND_HALF_UP).create_decimal(repr(float(value)))
    return kept.adjusted() - digits + 1


def rounded(value: float, place: int, rounding: str = ROUND_HALF_UP) -> str:
    """Format a number with thousands separators and a given last digit: ``"1,200"``, ``"0.41"``.

    Args:
        value: The number. Its shortest decimal representation is rounded, so 2.675 becomes 2.68.
        place: Power of ten of the last digit: 2 for hundreds, -2 for hundredths.
        rounding: Rounding mode of module ``decimal``; by default half up.
    """
    if not math.isfinite(value):
        return f"{value}"
    unit = Decimal(1).scaleb(place)
    return f"{Decimal(repr(float(value))).quantize(unit, rounding, _WIDE):,f}"


_WIDE = Context(prec=700)  # digits of the largest float next to those of the smallest


def format_number(value: float) -> str:
    """Format a measured value with three significant digits: ``"36,850"``, ``"85.1"``, ``"0.412"``.

    Values of 100 or more have all their integer digits.
    """
    return rounded(value, min(0, last_place(value, 3)))


def significant(value: float, digits: int) -> str:
    """Format a number with at most some significant digits, without exponent: ``"12,300"``."""
    kept = Context(digits, ROUND_HALF_UP).create_decimal(repr(float(value)))
    return f"{kept.normalize():,f}" if kept else "0"


def exact_number(value: float) -> str:
    """Format a number with up to 12 digits and no exponent: ``"1500000"``, ``"0.00001"``."""
    return str(value) if isinstance(value, int) else f"{Decimal(f'{value or 0.0:.12g}'):f}"


def format_bytes_si(size_bytes: float) -> str:
    """Format a size with three significant digits in SI units: ``"1.23 TB"``."""
    return _three_digits(
        size_bytes, {u: SIZE_UNITS[u] for u in ("B", "KB", "MB", "GB", "TB", "PB")}
    )


def format_duration(duration_ns: int) -> str:
    """Format a duration: ``"2 h 20 min"``, ``"3 min 5 s"``, ``"95 s"``, ``"250 ms"``."""
    seconds = duration_ns / NS_PER_S
    if seconds >= 7200:
        hours, rest = divmod(round(seconds / 60), 60)
        return f"{hours} h {rest} min" if rest else f"{hours} h"
    if seconds >= 180:
        minutes, rest = divmod(round(seconds), 60)
        return f"{minutes} min {rest} s" if rest else f"{minutes} min"
    if seconds >= 1 or duration_ns == 0:
        return f"{_significant(seconds)} s"
    return _three_digits(duration_ns, _TIME_UNITS)


_TIME_UNITS = {"ns": 1, "µs": 10**3, "ms": 10**6, "s": NS_PER_S}


def format_latency(latency_ns: float) -> str:
    """Format a latency with three significant digits: ``"85.1 µs"``, ``"1.20 ms"``."""
    unit = _largest_unit(latency_ns, _TIME_UNITS)
    return f"{format_number(latency_ns / _TIME_UNITS[unit])} {unit}"


def format_quantity(value: float, unit: str) -> str:
    """Format a value in a metric's unit: ``"1.23 ms"``, ``"8,210 MB/s"``; unit "1" is omitted."""
    if unit == "ns":
        return format_latency(value)
    shown = {"1": "", "1/s": "/s", "us": "µs"}.get(unit, unit)
    return f"{format_number(value)} {shown}".rstrip()


def _three_digits(value: float, units: dict[str, int]) -> str:
    """Format a value in its largest unit with up to three digits, without zeros at the end."""
    unit = _largest_unit(value, units)
    return f"{_significant(value / units[unit])} {unit}"


def _largest_unit(value: float, units: dict[str, int]) -> str:
    """Return the largest unit in which a value is at least 1 after rounding to three digits.

    Args:
        value: The value in the base unit.
        units: Factors by unit, in ascending order.
    """
    fitting = [unit for unit, factor in units.items() if float(f"{value / factor:.3g}") >= 1]
    return fitting[-1] if fitting else next(iter(units))


def _significant(value: float) -> str:
    return significant(value, 3).replace(",", "")


def show(value: object) -> str:
    """Format a value of a study file for a message, shortened to 60 characters."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        return f'"{value[:60]}{"..." if len(value) > 60 else ""}"'
    if isinstance(value, dict):
        return "a table"
    if isinstance(value, list):
        return "a list"
    return "nothing" if value is None else str(value)[:60]
