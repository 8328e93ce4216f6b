"""Parser of elbencho's result files, CSV and JSON (checked against the sources of 3.1).

- A row of CSV, or a document of JSON, is a phase such as WRITE or READ. Columns are found by name:
  their number grew from version to version.
- "Last done" values are of the whole phase; "first done" ones end when the fastest thread is done.
- Entries are files, directories or objects; an IO is a block of them. Each has its own latency.
- Buckets of histograms, which only JSON has, are 19 % wide; elbencho's percentiles are their ends.
- CSV has whole MiB, IOPS and us; JSON has exact bytes.
- In a mixed phase, the plain values are those of the writes, and ``rwmix read`` those of the reads.
"""

from __future__ import annotations

import csv
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from storlab.base.errors import FormatError
from storlab.base.units import MIB, NS_PER_MS, NS_PER_S

_CONFIG = {
    "path_type": "path type",
    "direct_io": "direct IO",
    "random_offsets": "random",
    "random_aligned": "random aligned",
    "io_depth": "IO depth",
    "file_size": "file size",
    "block_size": "block size",
    "shared_service_paths": "shared paths",
    "truncate_files": "truncate",
}


class ElbenchoFormatError(FormatError):
    """Error: a text is not a result file of elbencho; ``field`` names what is missing or wrong."""


@dataclass(frozen=True, slots=True)
class Phase:
    """Options and results of one phase, by the names of columns in elbencho's CSV.

    Histograms list the end of each bucket in us with its number of latencies. Their keys are the
    beginnings of columns of latencies, such as ``IO`` or ``rwmix read Ent``.
    """

    values: dict[str, str]
    histograms: dict[str, list[tuple[float, int]]] = field(default_factory=dict)

    @property
    def name(self) -> str:
        """Name of the phase, such as WRITE."""
        return self.values.get("operation", "")

    @property
    def length_ns(self) -> int:
        """Time until the last thread was done, in ns."""
        return self.whole("time ms [last]") * NS_PER_MS

    def whole(self, name: str) -> int:
        """Return a value as an integer.

        Raises:
            ElbenchoFormatError: The value is missing or not a number.
        """
        try:
            return round(float(self.values[name]))
        except (KeyError, ValueError, OverflowError) as error:
            value = self.values.get(name)
            what = f'is "{value}", not a number,' if value else "is missing"
            raise ElbenchoFormatError(name, f"{what} in a phase {self.name}") from error

    def has(self, name: str) -> bool:
        """Return whether a value was printed."""
        return bool(self.values.get(name))

    def is_on(self, name: str) -> bool:
        """Return whether an option is on."""
        return self.values.get(name, "").lower() in ("1", "true")

    def percentile_us(self, name: str, percent: float) -> float | None:
        """Return an upper bound of a percentile of latencies in us; None without a histogram."""
        buckets = self.histograms.get(name, [])
        wanted = percent / 100 * sum(number for _, number in buckets)
        below = 0
        for end, number in buckets:
            below += number
            if number and below >= wanted:
                return end
        return None

    @property
    def io_bytes(self) -> int:
        """Size of an operation in bytes: the block size, or the file size if that is smaller."""
        block = self.whole("block size")
        size = self.whole("file size") if self.has("file size") else 0
        return min(block, size) if block and size else block or size

    def moved(self, prefix: str = "") -> tuple[int, int, bool]:
        """Return the operations and bytes of a phase, and whether both are exact.

        Args:
            prefix: Start of the column names: "rwmix read " for the reads of a mixed phase.

        Raises:
            ElbenchoFormatError: The block size, or a value that bytes follow from, is missing.
        """
        exact = self.has(f"{prefix}bytes [last]")
        unit = self.io_bytes
        if not unit:
            raise ElbenchoFormatError("block size", f"is missing in a phase {self.name}")
        if exact:
            moved = self.whole(f"{prefix}bytes [last]")
        elif self.has(f"{prefix}MiB [last]"):
            moved = self.whole(f"{prefix}MiB [last]") * MIB
        else:
            moved = round(self.whole(f"{prefix}MiB/s [last]") * MIB * self.length_ns / NS_PER_S)
        operations = max(1, moved // unit)
        if self.has(f"{prefix}IOPS [last]"):
            by_rate = self.whole(f"{prefix}IOPS [last]") * self.length_ns / NS_PER_S
            if abs(by_rate - operations) > 0.05 * operations:
                return max(1, round(by_rate)), moved, False
        return operations, moved, exact and moved % unit == 0


def is_csv(text: str) -> bool:
    """Return whether a text has the header of elbencho's CSV."""
    return any(_is_header(line.split(",")) for line in text.splitlines() if "operation" in line)


def is_json(text: str) -> bool:
    """Return whether a text looks like elbencho's JSON."""
    return text.lstrip().startswith("{") and '"phase_type"' in text and '"last_done"' in text


def _is_header(names: list[str]) -> bool:
    return {"operation", "path type", "time ms [last]"} <= {name.strip() for name in names}


def read_csv(text: str) -> Iterator[Phase]:
    """Parse the phases of a CSV, which has several headers if elbencho appended to it.

    Raises:
        ElbenchoFormatError: A row has another number of values than its header.
    """
    header: list[str] = []
    for number, row in enumerate(csv.reader(text.splitlines()), 1):
        if _is_header(row):
            header = [name.strip() for name in row]
        elif header and any(row):
            if len(row) != len(header):
                raise ElbenchoFormatError(
                    f"line {number}", f"has {len(row)} values, but its header {len(header)}"
                )
            yield Phase({k: v.strip() for k, v in zip(header, row, strict=True)})


def read_json(text: str) -> Phase:
    """Parse one phase in JSON.

    Raises:
        ElbenchoFormatError: The JSON is damaged, or a part is missing.
    """
    try:
        document = json.loads(text)
        config, last = dict(document["config"]), document["last_done"]
    except (json.JSONDecodeError, KeyError, TypeError) as error:
        raise ElbenchoFormatError("config or last_done", f"is missing: {error}") from error
    values = {str(_CONFIG.get(name, name)): _text(value) for name, value in config.items()}
    values |= {
        "operation": _text(document.get("phase_type", "")),
        "label": _text(document.get("label", "")),
        "ISO date": _text(document.get("iso_start_date", "")),
        "time ms [last]": _text(last.get("elapsed_time_ms", "")),
    }
    first = document.get("first_done") or {}
    values["time ms [first]"] = _text(first.get("elapsed_time_ms", ""))
    values["bytes/s [first]"] = _text(first.get("bytes/s", ""))
    histograms = {}
    for prefix, numbers in (("", last), ("rwmix read ", last.get("rwmix_read") or {})):
        names = {"bytes": "bytes [last]", "iops": "IOPS [last]", "entries": "entries [last]"}
        values |= {f"{prefix}{new}": _text(numbers.get(old, "")) for old, new in names.items()}
    for short, name in (("IO", "IO"), ("Ent", "entries")):
        latency = (last.get("latency") or {}).get(name) or {}
        buckets = latency.get("histogram") or {}
        for prefix, times, own in (
            ("", latency, buckets),
            (
                "rwmix read ",
                latency.get("rwmix_read") or {},
                buckets.get("rwmix_read") or {},
            ),
        ):
            for kind in ("avg", "max"):
                values[f"{prefix}{short} lat us [{kind}]"] = _text(times.get(f"{kind}_us", ""))
            histograms[f"{prefix}{short}"] = _buckets(own.get("buckets") or [])
    return Phase(values, histograms)


def _buckets(entries: list[Mapping[str, Any]]) -> list[tuple[float, int]]:
    """Return the end in us and the number of latencies of each bucket of a histogram.

    Raises:
        ElbenchoFormatError: A bucket has no range such as ``53.8-64.0us``.
    """
    buckets = []
    for entry in entries:
        end = str(entry.get("range", "")).rpartition("-")[2].removesuffix("us")
        try:
            buckets.append((float(end), int(entry["count"])))
        except (KeyError, ValueError) as error:
            raise ElbenchoFormatError("histogram", f"has a damaged bucket: {entry}") from error
    return buckets


def _text(value: object) -> str:
    return str(value).strip()
