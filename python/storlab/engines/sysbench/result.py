"""Parser of the text that ``sysbench fileio`` prints (versions 0.4, 0.5, 1.0 and 1.1).

- 0.4 and 0.5 print the number of reads, writes and others (fsyncs). 1.0 and 1.1 print rates with
  two decimals, over the total time, which includes the fsyncs at the end.
- ``Kb``, ``Mb`` and ``Gb`` of the old versions are powers of 1,024, like ``KiB`` of the new ones.
- In 1.0 and newer, each fsync is an event, so the latency of events is that of reads only if
  all events are reads.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from storlab.base.errors import FormatError
from storlab.base.units import NS_PER_MS, NS_PER_S, binary_size

BEGIN = "Running the test with following options"
_VERSION = re.compile(r"^[ \t]*sysbench[ \t]+v?(\d[\w.-]*)", re.MULTILINE)
_COUNTS = re.compile(
    r"Operations performed:\s*(\d+)\s+reads?,\s*(\d+)\s+writes?,\s*(\d+)\s+other", re.IGNORECASE
)
_RATES = {
    "read": re.compile(r"^\s*(?:reads/s:|read:\s*IOPS=)\s*([\d.]+)", re.MULTILINE),
    "write": re.compile(r"^\s*(?:writes/s:|write:\s*IOPS=)\s*([\d.]+)", re.MULTILINE),
    "sync": re.compile(r"^\s*(?:fsyncs/s:|fsync:\s*IOPS=)\s*([\d.]+)", re.MULTILINE),
}
_TIME = re.compile(r"^\s*(?:total time|time elapsed):\s*([\d.]+)s", re.MULTILINE)
_EVENTS = re.compile(r"^\s*total number of events:\s*(\d+)", re.MULTILINE)
_WAITED_S = re.compile(r"total time taken by event execution:\s*([\d.]+)")
_SUM_MS = re.compile(r"^\s*sum:\s*([\d.]+)", re.MULTILINE)
_MAX_MS = re.compile(r"^\s*max:\s*([\d.]+)", re.MULTILINE)
_P95_MS = re.compile(r"^\s*(?:approx\.\s+95|95th)\s+percentile:\s*([\d.]+)", re.MULTILINE)


class SysbenchFormatError(FormatError):
    """Error: a text is not sysbench's complete output; ``field`` names what is missing or wrong."""


@dataclass(frozen=True, slots=True)
class Latency:
    """Latency of all events together; ``p95_ns`` is None if another percentile was requested."""

    mean_ns: float
    max_ns: float
    p95_ns: float | None


@dataclass(frozen=True, slots=True)
class Result:
    """One run of ``sysbench fileio``: its printed options and results."""

    version: str
    text: str  # options and results
    before: str  # text before the options, which may have the command line
    operations: dict[str, int]  # read, write, sync
    exact: bool  # whether the operations were printed as counts
    length_ns: int
    block_bytes: int
    latency: Latency | None


def read_results(text: str) -> tuple[list[Result], int]:
    """Parse all runs in a text.

    Returns:
        The runs with results, and the number of ``fileio`` runs without results.

    Raises:
        SysbenchFormatError: No run has a result, or a result is incomplete.
    """
    results = []
    without = 0
    for before, section, version in _sections(text):
        operations = _COUNTS.search(section) or _RATES["read"].search(section)
        if operations is not None:
            results.append(_result(before, section, version))
        elif "Extra file open flags" in section:
            without += 1
    if not results:
        raise SysbenchFormatError("results", "are missing: no run of fileio ended")
    return results, without


def _sections(text: str) -> Iterator[tuple[str, str, str]]:
    """Yield for each run the text before its options, the text from there on, and the version."""
    before, *runs = text.split(BEGIN)
    version = "unknown"
    for section in runs or [text]:
        found = _VERSION.findall(before)
        version = found[-1] if found else version
        yield before, section, version
        before = section


def _result(before: str, text: str, version: str) -> Result:
    length_ns = round(_number(_TIME, text, "total time") * NS_PER_S)
    if length_ns <= 0:
        raise SysbenchFormatError("total time", "is 0")
    block = re.search(r"^\s*Block size\s+(\S+)", text, re.MULTILINE)
    block_bytes = binary_size(block[1]) if block else None
    if not block_bytes:
        raise SysbenchFormatError("Block size", "is missing: the options before the results")
    events = _EVENTS.search(text)
    operations = _counts(text)
    exact = operations is not None
    if operations is None:
        operations = {
            kind: round(_number(pattern, text, f"{kind}s/s") * length_ns / NS_PER_S)
            for kind, pattern in _RATES.items()
        }
        moving = [kind for kind, number in operations.items() if number]
        if events is not None and len(moving) == 1 and moving != ["sync"]:
            operations[moving[0]] = int(events[1])
            exact = True
    return Result(
        version=version,
        text=text,
        before=before,
        operations=operations,
        exact=exact,
        length_ns=length_ns,
        block_bytes=block_bytes,
        latency=_latency(text, int(events[1]) if events else 0),
    )


def _counts(text: str) -> dict[str, int] | None:
    found = _COUNTS.search(text)
    return None if found is None else dict(zip(_RATES, map(int, found.groups()), strict=True))


def _latency(text: str, events: int) -> Latency | None:
    """Return the latency of all events; the mean is their total time divided by their number.

    The result is None if the total time, the maximum or the number of events was not printed.
    """
    waited_s, sum_ms, longest = (p.search(text) for p in (_WAITED_S, _SUM_MS, _MAX_MS))
    if not events or longest is None or (waited_s is None and sum_ms is None):
        return None
    waited_ns = float(waited_s[1]) * NS_PER_S if waited_s else 0.0
    if sum_ms is not None:
        waited_ns = float(sum_ms[1]) * NS_PER_MS
    p95 = _P95_MS.search(text)
    return Latency(
        mean_ns=waited_ns / events,
        max_ns=float(longest[1]) * NS_PER_MS,
        p95_ns=float(p95[1]) * NS_PER_MS if p95 else None,
    )


def _number(pattern: re.Pattern[str], text: str, name: str) -> float:
    found = pattern.search(text)
    if found is None:
        raise SysbenchFormatError(name, "is missing")
    return float(found[1])
