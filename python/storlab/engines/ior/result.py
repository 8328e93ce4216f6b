"""Parser of IOR's output (checked against 3.0, 3.3 and 4.1), as text or as JSON.

- A process of IOR runs one or more tests, each with its options and a table of results, which has
  a row per access (write, read) and repetition.
- Rates are in MiB/s, over open, transfers and close (``total(s)``). IOPS, in 3.3 and newer, are
  over the transfers alone, and ``Latency(s)`` is derived from them, so storlab uses neither.
- With stonewalling, fewer bytes are moved than the options give. A line before the row then has
  the number of bytes.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from storlab.base.errors import FormatError
from storlab.base.units import MIB, NS_PER_S, binary_size

_VERSION = re.compile(r"^IOR-(\S+):", re.MULTILINE)
_FIELD = re.compile(r"^\s*([A-Za-z][\w ()-]*?)\s*[:=]\s+(.*?)\s*$")
_MOVED = re.compile(r"Using actual aggregate bytes moved\s*=\s*(\d+)")
_COLUMNS = re.compile(r"^\s*access\s+bw\(MiB/s\)")
_BRIEF = re.compile(r"^(\w+)\s{2,}(\S.*)$")


class IorFormatError(FormatError):
    """Error: a text is not IOR's complete output; ``field`` names what is missing or wrong."""


@dataclass(frozen=True, slots=True)
class Row:
    """Results of one repetition of a write or read."""

    access: str  # write or read
    mib_s: float
    block_kib: float
    transfer_kib: float  # size of an operation
    total_s: float  # from the first open to the last close
    moved: int | None  # bytes; None if IOR did not print them


@dataclass(slots=True)
class Test:
    """Results of one test; ``fields`` has its header and options by name in lower case."""

    version: str
    fields: dict[str, str] = field(default_factory=dict)
    rows: list[Row] = field(default_factory=list)
    others: list[str] = field(default_factory=list)  # other accesses, such as remove

    def whole(self, *names: str) -> int | None:
        """Return the first of these header fields that is an integer, or None."""
        for name in names:
            text = self.fields.get(name, "").split(" ")[0]
            if text.isdigit():
                return int(text)
        return None

    def length_ns(self, row: Row) -> int:
        """Return the time of a row from the first open to the last close, in ns.

        If the bytes are exact, it is computed from them and the rate, which has more digits than
        the printed time.
        """
        moved, exact = self.bytes_of(row)
        seconds = moved / (row.mib_s * MIB) if exact else row.total_s
        return max(1, round(seconds * NS_PER_S))

    def bytes_of(self, row: Row) -> tuple[int, bool]:
        """Return the bytes that a row moved, and whether the number is exact.

        Exact numbers are printed by IOR or follow from its options; others are rate times time.
        """
        if row.moved is not None:
            return row.moved, True
        by_rate = row.mib_s * MIB * row.total_s
        tasks, segments = self.whole("tasks"), self.whole("segments")
        if tasks and segments:
            block = binary_size(self.fields.get("blocksize", "")) or round(row.block_kib * 1024)
            by_options = tasks * segments * block
            if abs(by_rate - by_options) <= 0.01 * by_options:
                return by_options, True
        return round(by_rate), False


def read_text(text: str) -> list[Test]:
    """Parse IOR's text output, which may be of several processes, each with several tests.

    Raises:
        IorFormatError: There is no row of results, or a row is incomplete.
    """
    tests: list[Test] = []
    version = "unknown"
    columns: list[str] = []
    moved: int | None = None
    header: dict[str, str] = {}
    for line in text.splitlines():
        if begun := _VERSION.match(line.lstrip()):
            version, columns, header = begun[1], [], {}
        elif _COLUMNS.match(line):
            columns = [name.partition("(")[0] for name in line.split()]
            if not tests or tests[-1].rows or tests[-1].fields is not header:
                tests.append(Test(version, header))
        elif found := _MOVED.search(line):
            moved = int(found[1])
        elif columns and line.split()[:1] and line.split()[0] in ("write", "read", "remove"):
            row = _row(line, columns, moved)
            moved = None
            if row is None:
                tests[-1].others.append(line.split()[0])
            else:
                tests[-1].rows.append(row)
        elif columns and line.startswith(("Max ", "Summary of all", "Finished", "StartTime")):
            columns, header = [], dict(header)
        if not columns and (found := _FIELD.match(line) or _BRIEF.match(line)):
            header[found[1].lower()] = found[2]
    with_rows = [test for test in tests if test.rows]
    if not with_rows:
        raise IorFormatError("Results", "has no row of a write or read")
    return with_rows


def _row(line: str, columns: list[str], moved: int | None) -> Row | None:
    words = line.split()
    values = dict(zip(columns, words, strict=False))
    if values.get("bw") == "-" or words[0] == "remove":
        return None
    try:
        row = Row(
            access=words[0],
            mib_s=float(values["bw"]),
            block_kib=float(values["block"]),
            transfer_kib=float(values["xfer"]),
            total_s=float(values["total"]),
            moved=moved,
        )
    except (KeyError, ValueError) as error:
        raise IorFormatError(words[0], f"has a row that is cut short or damaged: {line}") from error
    if row.total_s <= 0 or row.mib_s <= 0:
        raise IorFormatError(words[0], "has a row without time or rate")
    return row


def read_json(document: Mapping[str, Any]) -> list[Test]:
    """Parse IOR's JSON (``-O summaryFormat=JSON``).

    Raises:
        IorFormatError: There is no result, or a field is missing.
    """
    tests = []
    shared = {k.lower(): str(v) for k, v in document.items() if isinstance(v, (str, int, float))}
    for number, test in enumerate(document.get("tests") or []):
        options = {k.lower(): str(v) for k, v in (test.get("Options") or {}).items()}
        parameters = {k.lower(): str(v) for k, v in (test.get("Parameters") or {}).items()}
        own = {k.lower(): str(v) for k, v in test.items() if isinstance(v, (str, int))}
        version = str(document.get("Version", "unknown")).removeprefix("IOR-")
        read = Test(version, {**shared, **parameters, **options, **own})
        # Some versions close the object Options too late, so that it contains the results.
        results = test.get("Results") or (test.get("Options") or {}).get("Results") or []
        read.rows = list(_json_rows(results, f"tests[{number}].Results"))
        tests.append(read)
    if not any(test.rows for test in tests):
        raise IorFormatError("tests", "has no result of a write or read")
    return [test for test in tests if test.rows]


def _json_rows(results: Any, where: str) -> Iterator[Row]:
    for number, entry in enumerate(results):
        for result in entry if isinstance(entry, list) else [entry]:
            try:
                yield Row(
                    access=result["access"],
                    mib_s=float(result["bwMiB"]),
                    block_kib=float(result["blockKiB"]),
                    transfer_kib=float(result["xferKiB"]),
                    total_s=float(result["totalTime"]),
                    moved=None,
                )
            except (KeyError, TypeError, ValueError) as error:
                raise IorFormatError(f"{where}[{number}]", f"lacks a value: {error}") from error
