"""Parser of fio's terse output (``--minimal``, ``--output-format=terse``), versions 2 to 5.

Each line has the values of one job, separated by semicolons. Lines are converted to documents in
the form of fio's JSON:

- Bytes are whole KiB and rates whole numbers. The number of I/Os follows from both, exactly if all
  I/Os had the same size.
- Latencies are in us: means have six decimals; minimum, maximum and percentiles are truncated to
  whole us.
- There are no options, no date and no flushes. Percentiles are those of ``clat``, unless the job
  set ``lat_percentiles``, which is not printed.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from storlab.base.rounding import Bounds
from storlab.engines.fio.printed_load import NOTES, PARTIAL, Moved
from storlab.engines.fio.result import ALL_CLIENTS, FioFormatError

_NS_PER_US = 1_000
# The first field is the host in client mode. Terse version 2 lacks the version of fio, so only its
# percentiles distinguish it from other files with semicolons.
_LINE = re.compile(
    r"(?:^|[\s>])(?:(?P<host>[^;\s]+);)?"
    r"(?:(?P<layout>[345]);fio-(?P<fio>\d[^;\n]*)|2(?=;[^\n]*%=));(?P<name>[^;\n]*);"
    r"(?P<group>\d+);(?P<error>-?\d+);(?P<values>\d+;\d+;\d+;\d+;\d+;\d+;[^\n]*)",
    re.MULTILINE,
)
_KINDS = ("read", "write", "trim")
_WIDTHS = {"5": 47}  # number of values of each kind of I/O by terse version
_WIDTH = 41
_CPU_VALUES = 5
_DEPTHS = (1, 2, 4, 8, 16, 32, 64)
_LATENCY_BINS = 22
_DISK = re.compile(r"([^;]+)" + r";(\d+)" * 7 + r";(\d+(?:\.\d+)?)%")
_DISK_FIELDS = (
    "name", "read_ios", "write_ios", "read_merges", "write_merges", "read_ticks", "write_ticks",
    "in_queue",
)  # fmt: skip
_GENERAL = (
    "fio's terse output has no date and no options: direct, size, filename, fsync, rate and so on "
    "are unknown",
    "percentiles are assumed to be of completion latency (clat); with lat_percentiles=1, which "
    "fio's terse output does not show, they are of the total latency",
)


@dataclass(slots=True)
class _Line:
    """Values in one line of terse output: the results of one job or group of jobs."""

    host: str | None
    version: str | None
    name: str
    group: int
    error: int
    kinds: list[Sequence[str]]  # values of each kind of I/O
    cpu: Sequence[str]
    depths: Sequence[str]  # percentages of I/Os by number of I/Os in flight
    disks: list[dict[str, Any]]
    rest: str
    notes: list[str] = field(default_factory=list)


def matches(text: str) -> bool:
    """Return whether a text contains a line of fio's terse output."""
    return _LINE.search(text) is not None


def read(text: str) -> list[dict[str, Any]]:
    """Return a document in the form of fio's JSON for each invocation of fio in a text.

    Lines with different disk statistics belong to different invocations. A job's notes on rounding
    and on missing values are in its field ``NOTES``. A document's field ``PARTIAL`` is set, because
    the text contains no options.

    Raises:
        FioFormatError: A line has another number of values than any version of fio prints.
    """
    lines = [_line(match) for match in _LINE.finditer(text)]
    starts: list[list[_Line]] = []
    for line in lines:
        if starts and _is_same_start(starts[-1][-1], line):
            starts[-1].append(line)
        else:
            starts.append([line])
    return [_document(start) for start in starts]


def _is_same_start(line: _Line, other: _Line) -> bool:
    same_disks = line.disks == other.disks
    return line.version == other.version and same_disks and other.group >= line.group


def _line(match: re.Match[str]) -> _Line:
    values = match["values"].rstrip("\r").split(";")
    width = _WIDTHS.get(match["layout"], _WIDTH)
    number = next((n for n in (1, 2, 3, 4) if _is_cpu(values[n * width :])), 0)
    if not number:
        what = f"has {len(values)} values in an unknown order"
        raise FioFormatError(f'terse line of job "{match["name"]}"', what)
    if number == 1:
        raise FioFormatError(
            f'terse line of job "{match["name"]}"',
            "does not separate reads from writes: run fio with unified_rw_reporting=0",
        )
    after = number * width + _CPU_VALUES
    rest = ";".join(values[after + len(_DEPTHS) + _LATENCY_BINS :])
    disks: list[dict[str, Any]] = []
    while disk := _DISK.match(rest):
        names = disk.groups()[: len(_DISK_FIELDS)]
        pairs = zip(_DISK_FIELDS, names, strict=True)
        disks.append({k: v if k == "name" else int(v) for k, v in pairs} | {"util": float(disk[9])})
        rest = rest[disk.end() :].removeprefix(";")
    return _Line(
        host=match["host"],
        version=match["fio"],
        name=match["name"],
        group=int(match["group"]),
        error=int(match["error"]),
        kinds=[values[i * width :][:width] for i in range(min(number, len(_KINDS)))],
        cpu=values[number * width :][:_CPU_VALUES],
        depths=values[after:][: len(_DEPTHS)],
        disks=disks,
        rest=rest,
        notes=["fio's sum over reads and writes is not imported"] if number == 4 else [],
    )


def _is_cpu(values: Sequence[str]) -> bool:
    """Return whether values begin with fio's CPU fields: two percentages and three counts."""
    percents, counts = values[:2], values[2:_CPU_VALUES]
    return all(v.endswith("%") for v in percents) and [v.isdigit() for v in counts] == [True] * 3


def _document(lines: Sequence[_Line]) -> dict[str, Any]:
    notes: list[str] = []
    if len(lines) > 1 and any(line.name == ALL_CLIENTS for line in lines):
        notes.append(
            "fio's sum of all clients is not imported, because the jobs of the clients are"
        )
        lines = [line for line in lines if line.name != ALL_CLIENTS]
    keys = [(line.group, line.name) for line in lines]
    if len(set(keys)) < len(keys):
        notes.append(
            "lines with the same job name and group are added up, as clones of a job (numjobs): "
            "put the results of separate runs of fio into separate files"
        )
    return {
        "fio version": lines[0].version or "unknown",
        PARTIAL: True,
        NOTES: notes,
        "jobs": [_checked(line) for line in lines],
        **({"disk_util": lines[0].disks} if lines[0].disks else {}),
    }


def _checked(line: _Line) -> dict[str, Any]:
    try:
        return _job(line)
    except ValueError as error:
        what = f"is damaged: {error}"
        raise FioFormatError(f'terse line of job "{line.name}"', what) from error


def _job(line: _Line) -> dict[str, Any]:
    notes: list[str] = []
    moved: dict[str, Moved] = {}
    results: dict[str, Any] = {kind: {"total_ios": 0} for kind in _KINDS}
    for kind, values in zip(_KINDS, line.kinds, strict=False):
        one = _moved(kind, values)
        if one is not None:
            notes += one.count()
            moved[kind] = one
            results[kind] = _result(one, values, notes)
    if line.rest:
        notes.append(f"the line ends with a description or a number of errors: {line.rest[:100]}")
    if line.host is not None:
        notes.append(f"host: {line.host}")
    user, system = line.cpu[:2]
    notes.append(
        f"CPU time is unknown: user {user} and system {system} are shares of the run time of all "
        "jobs, whose number is not in the file"
    )
    return {
        "jobname": line.name,
        "groupid": line.group,
        "error": line.error,
        "iodepth_level": {
            str(d): float(v.rstrip("%")) for d, v in zip(_DEPTHS, line.depths, strict=False)
        },
        NOTES: [*notes, *line.notes, *_GENERAL],
        **results,
    }


def _moved(kind: str, values: Sequence[str]) -> Moved | None:
    kib, _, rate, runtime_ms = (int(value) for value in values[:4])
    if not runtime_ms:
        return None
    return Moved(
        kind=kind,
        runtime_ms=runtime_ms,
        bytes=Bounds(kib * 1024, kib * 1024 + 1023),
        counted=Bounds(rate * runtime_ms / 1000, (rate + 1) * runtime_ms / 1000),
    )


def _result(moved: Moved, values: Sequence[str], notes: list[str]) -> dict[str, Any]:
    result: dict[str, Any] = {
        "total_ios": moved.operations,
        "io_bytes": moved.total_bytes,
        "runtime": moved.runtime_ms,
    }
    percentiles = dict(value.split("%=") for value in values[12:32])
    given = {k: int(v) * _NS_PER_US for k, v in percentiles.items() if float(k) > 0}
    for name, first in (("clat_ns", 8), ("lat_ns", 32)):
        low, high, mean, deviation = (float(value) for value in values[first : first + 4])
        if high or mean:
            result[name] = {
                "N": moved.operations,
                "min": round(low * _NS_PER_US),
                "max": round(high * _NS_PER_US),
                "mean": mean * _NS_PER_US,
                "stddev": deviation * _NS_PER_US,
            }
    if "clat_ns" in result and given:
        result["clat_ns"]["percentile"] = {k: v for k, v in given.items() if v}
        median = next((v for k, v in given.items() if float(k) == 50.0), 0)
        coarse = f" (p50 by up to {100 * _NS_PER_US / median:.2g} %)" if median else ""
        notes.append(f"{moved.kind}: fio truncated percentiles to whole usec{coarse}")
        if not all(given.values()):
            notes.append(
                f"{moved.kind}: percentiles below 1 usec are missing: fio printed them as 0"
            )
    return result
