"""Reader of wide tables, with one column per metric, as vendors and spreadsheets write them."""

from __future__ import annotations

import csv
import io
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from storlab.audit.quantities import Quantity, quantity
from storlab.audit.table import PublishedTable, Row
from storlab.audit.units import parse_unit
from storlab.base.errors import ResultError, UsageError
from storlab.base.files import read_input
from storlab.base.nearest import suggest

IGNORED = "ignore"
SWEPT = "x"
_DESCRIPTIVE: dict[str, tuple[str, ...]] = {
    "config": (
        "config", "configuration", "device", "drive", "disk", "model", "target", "system",
        "product", "ssd", "array", "store", "storage", "server", "volume", "name",
    ),
    "workload": ("workload", "test", "benchmark", "profile", "pattern", "access pattern", "job"),
    "rw_mix": ("rw mix", "mix", "read write mix", "r w", "rwmix"),
    "block_size": (
        "block size", "blocksize", "bs", "io size", "transfer size", "object size", "request size",
    ),
    "op": ("op", "operation", "direction", "io type", "type"),
    SWEPT: (
        "queue depth", "qd", "iodepth", "io depth", "threads", "jobs", "numjobs", "concurrency",
        "clients", "workers", "nodes",
    ),
}  # fmt: skip
_ROLES = (*_DESCRIPTIVE, IGNORED)
_OPERATIONS = {"read": "read", "reads": "read", "write": "write", "writes": "write"}
_OPERATIONS |= {"get": "GET", "put": "PUT", "total": "total"}
# Usual units of quantities whose columns name none, to ask for.
_USUAL = {
    "latency": "us",
    "ttfb": "ms",
    "duration": "s",
    "throughput": "MB/s",
    "power": "W",
    "energy": "J",
    "capacity": "TB",
    "price": "USD",
    "power_efficiency": "MB/s/W",
    "energy_efficiency": "TB/kWh",
}
_SETTINGS = ("capacity", "price", "queue_depth", "jobs", "version", "count")
_UNKNOWN = ("other", "share", "size", "memory", "rate", "count", "version", "duration")
_CELL = re.compile(
    r"(?P<sign>~|≈|>=|≥|<=|≤|>|<|up to )?\s*(?P<number>-?(?:\d{1,3}(?:,\d{3})+|\d+)(?:\.\d+)?"
    r"(?:[eE][+-]?\d+)?)\s*(?P<unit>[A-Za-zµ%/$€].*)?"
)
_QUALIFIERS = {
    "~": "approx", "≈": "approx", ">": "more_than", ">=": "at_least", "≥": "at_least",
    "<": "below", "<=": "up_to", "≤": "up_to", "up to": "up_to",
}  # fmt: skip
_SCALES = {"k": 1e3, "K": 1e3, "M": 1e6, "G": 1e9, "B": 1e9}
_SHOWN_OPTIONS = 4
_EMPTY = {"", "-", "--", "–", "—", "n/a", "na", "none"}


@dataclass(frozen=True, slots=True)
class WideColumn:
    """Column of a wide table, and what it was taken for."""

    column: str
    meaning: str  # role such as config, or metric; empty if the column is not audited
    unit: str = ""
    problem: str = ""  # why the column, or a part of its cells, is not audited
    option: str = ""  # command-line option that assigns a meaning


def is_wide(path: Path) -> bool:
    """Return whether a file is a CSV table without the columns ``metric`` and ``value``."""
    try:
        header = _lines(path)[0]
    except (OSError, UnicodeDecodeError, IndexError, csv.Error):
        return False
    return len(header) > 1 and not {"metric", "value"} & {name.strip() for name in header}


def _lines(path: Path) -> list[list[str]]:
    text = read_input(path).decode("utf-8-sig")
    first = text.partition("\n")[0]
    delimiter = max(",;\t", key=first.count)
    lines = csv.reader(io.StringIO(text, newline=""), delimiter=delimiter, strict=True)
    return [[cell.strip() for cell in line] for line in lines]


def read_wide_table(
    path: Path, assigned: Sequence[str] = ()
) -> tuple[PublishedTable, list[WideColumn]]:
    """Read a wide table as rows of single numbers; the id of a row is ``line:column``.

    Args:
        path: The CSV file, separated by commas, semicolons or tabs.
        assigned: Meanings of columns as ``COLUMN=MEANING``: config, workload, rw_mix, block_size,
            op, x, ignore, or a metric and its unit such as ``latency_p99 us``.

    Returns:
        The table, and the meaning of each column.

    Raises:
        ResultError: The file is malformed.
        UsageError: ``assigned`` is invalid, no column is recognised, or several columns may name
            the configuration.
    """
    try:
        header, *lines = _lines(path)
    except csv.Error as error:
        raise ResultError(str(path), str(error), "write the table as CSV (RFC 4180)") from error
    twice = next((name for name in header if header.count(name) > 1), None)
    if twice is not None:
        raise ResultError(f"{path}, line 1", f'has the column "{twice}" twice', "rename one")
    for number, line in enumerate(lines, start=2):
        if any(line) and len(line) != len(header):
            raise ResultError(
                f"{path}, line {number}",
                f"has {len(line)} cells, but the header has {len(header)}",
                "put cells that contain a comma in double quotes",
            )
    cells = {
        name: [line[i] if any(line) else "" for line in lines] for i, name in enumerate(header)
    }
    columns = _columns(cells, _assignments(header, assigned))
    rows: list[Row] = []
    result = []
    for column in columns:
        if not column.meaning or column.meaning in _ROLES:
            result.append(column)
            continue
        own, unread = _rows(column, cells, columns)
        rows += own
        result.append(replace(column, problem=unread) if unread else column)
    if not rows:
        options = [column.option for column in result if column.option][:_SHOWN_OPTIONS]
        what = "the table has no column of numbers with a recognised meaning"
        raise UsageError("--column", what, f"assign a meaning to a column: {' or '.join(options)}")
    rows.sort(key=lambda row: int(row.id.partition(":")[0]))
    return PublishedTable(path.stem, str(path), tuple(rows)), result


def _assignments(header: Sequence[str], assigned: Sequence[str]) -> dict[str, str]:
    meanings = {}
    for text in assigned:
        name, equals, meaning = text.rpartition("=")
        if not equals or not meaning.strip():
            fix = "write --column 'COLUMN=MEANING', such as --column 'p99=latency_p99 us'"
            raise UsageError("--column", f'"{text}" has no meaning', fix)
        if name not in header:
            raise UsageError("--column", f'the table has no column "{name}"', suggest(name, header))
        meanings[name] = meaning.strip()
    return meanings


def _columns(cells: Mapping[str, list[str]], meanings: Mapping[str, str]) -> list[WideColumn]:
    columns = [
        _assigned(name, meanings[name]) if name in meanings else _recognised(name, cells[name])
        for name in cells
    ]
    if not any(column.meaning == "config" for column in columns):
        columns = _with_config(columns, cells)
    swept = [column for column in columns if column.meaning == SWEPT]
    if len(swept) > 1:  # a row has one swept parameter: the others describe the workload
        first = max(swept, key=lambda column: len(set(cells[column.column])))
        columns = [
            replace(c, meaning="workload") if c in swept and c is not first else c for c in columns
        ]
    return columns


def _with_config(columns: list[WideColumn], cells: Mapping[str, list[str]]) -> list[WideColumn]:
    """Return the columns, with the only unrecognised text column as the measured configuration.

    Raises:
        UsageError: There are several such columns.
    """
    texts = [c for c in columns if not c.meaning and not _numbers(cells[c.column]) and not c.unit]
    texts = [c for c in texts if any(cells[c.column])]
    if len(texts) > 1:
        options = " or ".join(f"--column '{column.column}=config'" for column in texts)
        what = "several columns may name the measured configuration"
        raise UsageError("--column", what, f"give {options}")
    return [WideColumn(c.column, "config") if texts and c is texts[0] else c for c in columns]


def _assigned(name: str, meaning: str) -> WideColumn:
    if meaning in _ROLES:
        return WideColumn(name, meaning)
    metric, _, unit = meaning.partition(" ")
    known = quantity(metric, _unit(unit))
    if known.name == "other":
        fix = f"give one of {', '.join(_ROLES)}, or a metric and unit such as latency_p99 us"
        raise UsageError("--column", f'"{metric}" is not a metric that audit supports', fix)
    if unit and known.unit is None:
        raise UsageError("--column", f'"{unit}" is not a unit', "give one such as us, MB/s or W")
    return WideColumn(name, metric, _unit(unit))


def _recognised(name: str, cells: Sequence[str]) -> WideColumn:
    text, unit = _split_unit(name)
    words = " ".join(re.findall(r"[a-z0-9]+", text.lower()))
    for role, names in _DESCRIPTIVE.items():
        if words in names:
            return WideColumn(name, role, unit)
    if not _numbers(cells):
        return _open(name, "has no numbers, and its name is not recognised", "config")
    known = quantity(text, unit)
    timed = known.name == "duration" and known.statistic.startswith("p")
    if timed or (known.name == "other" and re.fullmatch(r"p\d+", known.statistic)):
        text = f"latency {text}"
        known = quantity(text, unit)
    if known.is_claim:
        return _open(name, "compares configurations, but not which ones", IGNORED)
    if known.name in _UNKNOWN:
        return _open(name, "is not a metric that audit supports", "throughput MB/s")
    metric = "_".join(text.split())
    if known.unit is None and known.name in _USUAL and not _cells_have_units(cells):
        return _open(name, "has no unit", f"{_name_of(known)} {_USUAL[known.name]}")
    return WideColumn(name, metric, unit)


def _open(name: str, problem: str, example: str) -> WideColumn:
    return WideColumn(name, "", problem=problem, option=f"--column '{name}={example}'")


def _name_of(known: Quantity) -> str:
    return "_".join(filter(None, (known.part, known.name, known.statistic)))


def _unit(text: str) -> str:
    text = text.strip().replace("µ", "u").replace("μ", "u")
    bytes_s = re.fullmatch(r"([KMGT]i?B)(?:ps|/sec|/second)", text)
    return f"{bytes_s[1]}/s" if bytes_s else text


def _split_unit(name: str) -> tuple[str, str]:
    """Split a column's name such as ``p99 (us)``, ``BW [MB/s]`` or ``Power, W`` from its unit."""
    bracketed = re.fullmatch(r"(.*?)\s*[(\[]([^)\]]+)[)\]]\s*", name)
    if bracketed is not None:
        unit = _unit(bracketed[2])
        if unit in _SCALES or parse_unit(unit) is not None:
            return bracketed[1] or unit, unit
        return f"{bracketed[1]} {bracketed[2]}", ""
    words = re.split(r",?\s+", name.strip())
    last = _unit(words[-1])
    if len(words) > 1 and last.lower() != "iops" and parse_unit(last) is not None:
        return " ".join(words[:-1]), last
    single = _unit(name)
    return (single, single) if parse_unit(single) is not None else (name, "")


def _numbers(cells: Sequence[str]) -> bool:
    """Return whether most of the cells that are not empty are numbers."""
    filled = [cell for cell in cells if cell.lower() not in _EMPTY]
    return bool(filled) and 2 * sum(_CELL.fullmatch(c) is not None for c in filled) > len(filled)


def _cells_have_units(cells: Sequence[str]) -> bool:
    found = [_CELL.fullmatch(cell) for cell in cells if cell.lower() not in _EMPTY]
    return all(m and m["unit"] and parse_unit(_unit(m["unit"])) is not None for m in found)


def _rows(
    column: WideColumn, cells: Mapping[str, list[str]], columns: Sequence[WideColumn]
) -> tuple[list[Row], str]:
    """Return a row for each number of a column, and a sentence on cells without a number."""
    op, size = _operation(column.meaning), _block_size(column.column)
    known = quantity(column.meaning, column.unit)
    rows = []
    unread = []
    for index, cell in enumerate(cells[column.column]):
        if cell.lower() in _EMPTY:
            continue
        number = _number(cell, column.unit)
        if number is None:
            unread.append(f'line {index + 2}: "{cell}"')
            continue
        value, unit, qualifier = number
        described = _described(index, cells, columns)
        rows.append(
            Row(
                id=f"{index + 2}:{column.column}",
                metric=column.meaning,
                value=value,
                unit=unit,
                qualifier=qualifier,
                kind="config" if known.name in _SETTINGS else "measured",
                compare_config="",
                printed=cell,
                **(
                    described
                    | {
                        "op": op or described["op"] or _operation(described["workload"]),
                        "block_size": described["block_size"]
                        or size
                        or _block_size(described["workload"]),
                    }
                ),
            )
        )
    few = "; ".join(unread[:3]) + ("; ..." if len(unread) > 3 else "")
    return rows, f"cells without a number: {few}" if unread else ""


def _operation(text: str) -> str:
    """Return the operation that a text names; "" if it names none or several."""
    words = re.findall(r"[a-z]+", text.lower())
    named = {_OPERATIONS[word] for word in words if word in _OPERATIONS}
    return named.pop() if len(named) == 1 else ""


def _block_size(text: str) -> str:
    """Return the size in a text such as ``4K random read``; "" if it has none or several."""
    sizes = re.findall(r"\b\d+ ?[KM]i?B?\b", text, re.IGNORECASE)
    return sizes[0] if len(sizes) == 1 else ""


def _number(cell: str, unit: str) -> tuple[float, str, str] | None:
    found = _CELL.fullmatch(cell)
    if found is None:
        return None
    value = float(found["number"].replace(",", ""))
    suffix = _unit(found["unit"] or "")
    if suffix and suffix != unit:
        if suffix in _SCALES:
            value *= _SCALES[suffix]
        elif parse_unit(suffix) is not None:
            unit = suffix
        else:
            return None
    qualifier = _QUALIFIERS.get((found["sign"] or "").strip(), "exact")
    return (value, unit, qualifier) if math.isfinite(value) else None


def _described(
    index: int, cells: Mapping[str, list[str]], columns: Sequence[WideColumn]
) -> dict[str, str]:
    """Return the configuration, workload and swept parameter of a line."""
    texts: dict[str, list[str]] = {role: [] for role in _DESCRIPTIVE}
    x_name = ""
    for column in columns:
        if column.meaning not in texts:
            continue
        cell = cells[column.column][index]
        if column.meaning == SWEPT:
            x_name = column.column
        is_swept = column.column.lower() in _DESCRIPTIVE[SWEPT] and column.meaning == "workload"
        shown = f"{column.column} {cell}" if is_swept and cell else cell
        texts[column.meaning].append(f"{cell} {column.unit}" if column.unit and cell else shown)
    joined = {role: ", ".join(filter(None, parts)) for role, parts in texts.items()}
    joined["config"] = joined["config"].translate({ord("/"): "\u2215", ord(";"): "\u037e"})
    joined["rw_mix"] = joined["rw_mix"].replace(":", "/")
    return {
        **{role: joined[role] for role in ("config", "workload", "rw_mix", "block_size", "op")},
        "x_name": x_name if joined[SWEPT] else "",
        "x_value": joined[SWEPT],
    }
