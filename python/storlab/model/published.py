"""Published results: numbers from public documents, one row per printed number.

``COLUMNS`` is the schema of the tables; ``README.md`` next to the tables explains it.
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
    "id": "name of the row within its table, unique; counted from 001 where the column is missing",
    "config": "what was measured or described; empty: holds for the whole publication",
    "workload": "name of the workload",
    "rw_mix": "percent of reads / percent of writes, such as 70/30",
    "block_size": "size of a transfer as printed, such as 256KB",
    "op": "operation: read, write, read+write, GET, PUT, total ...",
    "metric": "what the number is: throughput, latency_avg, power_efficiency_ratio ...",
    "x_name": "swept parameter: numjobs, iodepth, workers, power_state ...",
    "x_value": "its value; not_stated where the publication does not name it",
    "value": "the number; text where the fact is none, such as a version",
    "unit": "unit of value: MB/s, ms, W, TB, x, %, count, version ...",
    "qualifier": "how it was printed: exact, approx, up_to, range_min, below, more_than ...",
    "kind": "config, measured, ratio_claim, headline_claim, limit or context",
    "compare_config": "for a claim: what config is compared with",
    "printed": "the token as printed, which shows its precision; value where it is empty",
}
REQUIRED = ("config", "metric", "value")
NOT_STATED = "not_stated"
REMEMBERED = 1 << 16
"""Cache size in rows for numbers found in printed text, because each rule asks for them again."""

_NUMBER = re.compile(r"(?<![\w.])(\d{1,3}(?:,\d{3})+|\d+)(?:\.(\d+))?")
_SCALES = (1.0, 1e6, 1e3, 1e9, 1e12, 1e-3)  # factors as in "5.2 million" or "405B"
_FORMS = re.compile(r"ratio|speedup|increase|reduction|slower|faster")


@dataclass(frozen=True, slots=True)
class Row:
    """Printed number with its columns in a published table (see ``COLUMNS``)."""

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
        """Return the swept parameter as a number, or None."""
        return _number(self.x_value)

    @property
    def decimals(self) -> int:
        """Return the number of printed digits after the decimal point."""
        return self._printed_digits()[1]

    @property
    def rounding_unit(self) -> float:
        """Return one unit of the last printed digit, in the unit of ``value``."""
        scale, decimals = self._printed_digits()
        return float(scale * 10.0**-decimals)

    @property
    def has_printed_number(self) -> bool:
        """Return whether ``printed`` shows the value in digits, not in words such as "double"."""
        return _find_printed(self.printed, self.value) is not None

    @property
    def printed_scale(self) -> float:
        """Return the factor of the printed number, such as 1e6 for "5.2 million"."""
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
    """Find ``value`` in a printed text; return its factor and decimals, or None."""
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

    All fields are empty without that file.

    Dates are as exact as known: ``2025``, ``2025-11``, ``2025-11-20``.
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
        """Return the rows whose columns equal a text, or one of several texts."""
        wanted = {k: {v} if isinstance(v, str) else set(v) for k, v in equal.items()}
        return [r for r in self.rows if all(getattr(r, k) in v for k, v in wanted.items())]


def read_table(path: str | Path) -> PublishedTable:
    """Read a published table from a CSV file (UTF-8, with a header line).

    Columns are those of ``COLUMNS`` in any order. Others are ignored; missing optional ones are
    empty.

    Raises:
        ResultError: The file is invalid; names file, line and column.
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
        raise ResultError(str(place), f"cannot be read: {error}", "write it as TOML") from error
    names = [attribute.name for attribute in fields(About)]
    for name, value in document.items():
        if name not in names:
            raise ResultError(
                f"{place}, {name}", "is not a field of a source", suggest(name, names)
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
                    f"has {len(cells)} cells where the header has {len(header)}",
                    "put cells that hold a comma in double quotes",
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
        raise ResultError(f"{place}, line 1", f'names the column "{name}" twice', "drop one")


def _row(cells: dict[str, str], number: int) -> Row:
    known = {name: cells.get(name, "") for name in COLUMNS}
    known["id"] = known["id"] or f"{number:03d}"
    # Spreadsheets write whole numbers as 1687.0, which adds a digit that was not published.
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
            str(name_or_path), "is neither a file nor a shipped table", suggest(place.name, names)
        )
    return read_table(published_dir() / f"{name_or_path}.csv")
