"""Published results: tables of numbers from public documents, one row per number.

``COLUMNS`` describes the columns of the tables; see also the ``README.md`` next to the tables.
``load_published`` finds tables that ship with storlab by name, and others by path.
"""

from __future__ import annotations

import csv
import io
import math
import re
import tomllib
from collections.abc import Collection, Iterator
from dataclasses import dataclass, field, fields
from datetime import date
from functools import lru_cache
from pathlib import Path
from typing import Any

from storlab.base.errors import ResultError
from storlab.base.files import read_input
from storlab.base.nearest import nearest, suggest

COLUMNS: dict[str, str] = {
    "id": "unique name of the row within its table; counted from 001 if the column is missing",
    "config": "configuration that was measured or described; empty if it applies to all",
    "workload": "name of the workload",
    "rw_mix": "percent of reads / percent of writes, such as 70/30",
    "block_size": "size of a transfer as printed, such as 256KB",
    "op": "operation: read, write, read+write, GET, PUT, total ...",
    "metric": "name of the metric: throughput, latency_avg, power_efficiency_ratio ...",
    "x_name": "swept parameter: numjobs, iodepth, workers, power_state ...",
    "x_value": "value of the swept parameter; not_stated if the publication does not name it",
    "value": "the number, or a text for facts such as a version",
    "unit": "unit of value: MB/s, ms, W, TB, x, %, count, version ...",
    "qualifier": "qualifier of the number: exact, approx, up_to, range_min, below, more_than ...",
    "kind": "config, measured, ratio_claim, headline_claim, limit or context",
    "compare_config": "for a claim: configuration that config is compared with",
    "printed": "the number as published, which shows its precision; by default value",
}
REQUIRED = ("config", "metric", "value")
NOT_STATED = "not_stated"
REMEMBERED = 1 << 16
"""Cache size in rows for numbers parsed from published text, since every audit rule parses them."""

_NUMBER = re.compile(r"(?<![\w.])(\d{1,3}(?:,\d{3})+|\d+)(?:\.(\d+))?")
_SCALES = (1.0, 1e6, 1e3, 1e9, 1e12, 1e-3)  # factors as in "5.2 million" or "405B"
_FORMS = re.compile(r"ratio|speedup|increase|reduction|slower|faster")


@dataclass(frozen=True, slots=True)
class Row:
    """Row of a published table: one number with its description (see ``COLUMNS``)."""

    id: str
    config: str
    workload: str
    rw_mix: str
    block_size: str
    op: str
    metric: str
    x_name: str
    x_value: str
    value: float | None
    """Value of the row; None if the cell is not a number."""
    unit: str
    qualifier: str
    kind: str
    compare_config: str
    printed: str

    @property
    def is_measured(self) -> bool:
        """Return whether the row is a measurement, not a claim, limit or setting."""
        return self.kind == "measured"

    @property
    def x(self) -> float | None:
        """Return the value of the swept parameter; None if it is not a number."""
        return _number(self.x_value)

    @property
    def decimals(self) -> int:
        """Return the number of digits after the decimal point, as published."""
        return self._printed_digits()[1]

    @property
    def rounding_unit(self) -> float:
        """Return the place value of the last published digit, in the unit of ``value``."""
        scale, decimals = self._printed_digits()
        return float(scale * 10.0**-decimals)

    @property
    def has_printed_number(self) -> bool:
        """Return whether the value was published in digits, not in words such as "double"."""
        return _find_printed(self.printed, self.value) is not None

    @property
    def printed_scale(self) -> float:
        """Return the factor of the number as published, such as 1e6 for "5.2 million"."""
        return self._printed_digits()[0]

    def _printed_digits(self) -> tuple[float, int]:
        """Return the factor (1e6 for "million") and the decimals of the number as published."""
        span = _find_printed(self.printed, self.value)
        if span is not None:
            return span
        if self.value is None or not math.isfinite(self.value):
            return 1.0, 0
        text = f"{self.value:.10f}".rstrip("0")
        return 1.0, len(text.partition(".")[2])


def _number(text: str) -> float | None:
    try:
        value = float(text.replace(",", "")) if text else math.nan
    except ValueError:
        return None
    return value if math.isfinite(value) else None


@lru_cache(maxsize=REMEMBERED)
def _find_printed(printed: str, value: float | None) -> tuple[float, int] | None:
    """Find a value in published text, such as 5200000 in "5.2 million".

    Returns:
        The factor (1e6) and the number of decimals (1); None if the text does not have the value.
    """
    if value is None:
        return None
    for scale in _SCALES:
        for match in _NUMBER.finditer(printed):
            number = float(match.group().replace(",", ""))
            if math.isclose(number * scale, abs(value), rel_tol=1e-9, abs_tol=1e-12):
                return scale, len(match.group(2) or "")
    return None


@dataclass(frozen=True, slots=True)
class About:
    """Source and date of a published table, from the TOML file next to its CSV.

    All fields are empty without that file. Dates have the precision of the publication: ``2025``,
    ``2025-11`` or ``2025-11-20``.
    """

    title: str = ""
    publisher: str = ""
    date: str = ""
    url: str = ""

    @property
    def text(self) -> str:
        """Return the citation as text; empty if the title is unknown."""
        if not self.title:
            return ""
        publisher = f"{self.publisher}, " if self.publisher else ""
        url = f", {self.url}" if self.url else ""
        return f"{publisher}\u201c{self.title}\u201d, {self.date or 'date not given'}{url}"


@dataclass(frozen=True, slots=True)
class PublishedTable:
    """Rows of one publication, in file order."""

    name: str
    path: str
    rows: tuple[Row, ...]
    about: About = field(default_factory=About)
    memo: dict[str, list[Any]] = field(default_factory=dict, repr=False, compare=False)
    """Values that rules derive from all rows, cached by rule."""

    def select(self, **equal: str | Collection[str]) -> list[Row]:
        """Return the rows in which each named column has the given text, or one of several."""
        wanted = {k: {v} if isinstance(v, str) else set(v) for k, v in equal.items()}
        return [r for r in self.rows if all(getattr(r, k) in v for k, v in wanted.items())]


def read_table(path: str | Path) -> PublishedTable:
    """Read a published table from a CSV file (UTF-8, with a header line).

    The columns of ``COLUMNS`` may be in any order. Other columns are ignored, and missing optional
    ones are empty.

    Raises:
        ResultError: The file is invalid; the message names file, line and column.
    """
    place = Path(path)
    try:
        text = read_input(place).decode("utf-8-sig")
    except OSError as error:
        fix = "give the path of a CSV file"
        raise ResultError(str(place), error.strerror or str(error), fix) from error
    except UnicodeDecodeError as error:
        raise ResultError(str(place), "is not UTF-8 text", "save the table as UTF-8") from error
    about = _about(place.with_suffix(".toml"))
    return PublishedTable(place.stem, str(place), tuple(_rows(place, text)), about)


def _about(place: Path) -> About:
    """Read the TOML file next to a CSV; raise ``ResultError`` if it is invalid."""
    try:
        document = tomllib.loads(read_input(place).decode())
    except FileNotFoundError:
        return About()
    except (OSError, ValueError) as error:
        raise ResultError(str(place), f"cannot be read: {error}", "correct the TOML") from error
    names = [attribute.name for attribute in fields(About)]
    for name, value in document.items():
        if name not in names:
            raise ResultError(
                f"{place}, {name}", "is not a known field of this file", suggest(name, names)
            )
        if not isinstance(value, str | date):
            raise ResultError(f"{place}, {name}", "is not text", 'write it in quotes: "..."')
    return About(**{name: str(value) for name, value in document.items()})


def _rows(place: Path, text: str) -> Iterator[Row]:
    reader = csv.reader(io.StringIO(text, newline=""), strict=True)
    seen: dict[str, int] = {}
    try:
        header = [name.strip() for name in next(reader, [])]
        _check_header(place, header)
        for number, cells in enumerate((c for c in reader if any(c)), 1):
            if len(cells) != len(header):
                raise ResultError(
                    f"{place}, line {reader.line_num}",
                    f"has {len(cells)} cells, but the header has {len(header)}",
                    "put cells that contain a comma in double quotes",
                )
            row = _row(dict(zip(header, map(str.strip, cells), strict=True)), number)
            if row.id in seen:
                raise ResultError(
                    f"{place}, line {reader.line_num}, column id",
                    f'"{row.id}" is already in line {seen[row.id]}',
                    "give every row its own id",
                )
            seen[row.id] = reader.line_num
            yield row
    except csv.Error as error:
        where = f"{place}, line {reader.line_num}"
        raise ResultError(where, str(error), "write the table as CSV (RFC 4180)") from error


def _check_header(place: Path, header: list[str]) -> None:
    for name in REQUIRED:
        if name not in header:
            close = nearest(name, header)
            hint = f'rename "{close}"' if close else f"add it; the columns are {', '.join(COLUMNS)}"
            raise ResultError(f"{place}, line 1", f'has no column "{name}"', hint)
    twice = {name for name in header if name in COLUMNS and header.count(name) > 1}
    if twice:
        name = min(twice)
        fix = "remove one of the two columns"
        raise ResultError(f"{place}, line 1", f'has the column "{name}" twice', fix)


def _row(cells: dict[str, str], number: int) -> Row:
    known = {name: cells.get(name, "") for name in COLUMNS}
    known["id"] = known["id"] or f"{number:03d}"
    # Spreadsheets write 1687 as 1687.0. The added digit is removed, because it was not published.
    known["printed"] = known["printed"] or re.sub(r"^(-?\d+)\.0$", r"\1", known["value"])
    if not known["kind"]:
        claim = known["compare_config"] or _FORMS.search(known["metric"])
        known["kind"] = "ratio_claim" if claim else "measured"
    texts = {f.name: known[f.name] for f in fields(Row) if f.name != "value"}
    return Row(value=_number(known["value"]), **texts)


def published_dir() -> Path:
    """Return the directory of the tables that ship with storlab."""
    return Path(__file__).resolve().parents[1] / "published"


def published_names() -> list[str]:
    """Return the names of the tables that ship with storlab."""
    return sorted(path.stem for path in published_dir().glob("*.csv"))


def load_published(name_or_path: str | Path) -> PublishedTable:
    """Load a table that ships with storlab by name, or a CSV file by path.

    Raises:
        ResultError: There is no such table, or it cannot be read.
    """
    place = Path(name_or_path)
    if place.suffix == ".csv" or place.is_file():
        return read_table(place)
    names = published_names()
    if str(name_or_path) not in names:
        raise ResultError(
            str(name_or_path),
            "is neither a file nor a table that ships with storlab",
            suggest(place.name, names),
        )
    return read_table(published_dir() / f"{name_or_path}.csv")
