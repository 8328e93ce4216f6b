"""Parser of the results that warp prints as text, at the end of a run or by ``warp analyze``.

- Up to warp 1.0, a block begins with ``Operation: GET``; latencies are those of the whole run,
  truncated to 1 ms, and rates exclude failed requests.
- Since 1.1, it begins with ``Report: GET``; latencies are means of the statistics of 10 s each, and
  rates include failed requests.

Rates are rounded to 0.01 MiB/s and 0.01 objects/s and exclude the run's beginning and end.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime

from storlab.base.rounding import NEGLIGIBLE_PERCENT
from storlab.base.units import NS_PER_S, format_latency
from storlab.engines.warp.command_line import (
    BENCHMARKS,
    CommandLineError,
    duration_ns,
    parse_command_line,
)
from storlab.engines.warp.summary import (
    PREPARED,
    Rate,
    RequestStatistics,
    Summary,
    summary_of_rates,
)

_LENGTH = r"(?:\d+(?:\.\d+)?(?:h|ms|m|s|us|µs|ns))+"
_HEAD = re.compile(r"\s*(?P<word>Report|Operation): (?P<kind>[A-Z]+)\b(?P<rest>.*)")
_END = re.compile(r"\s*(?:Report: Total|Cluster Total:)")
_RATE = re.compile(
    r"\s*\* (?:Average: |Throughput: )?(?:(?P<bytes>[\d.]+) Mi?B/s, )?(?P<objects>[\d.]+) "
    r"(?:obj|ops)/s(?:, (?P<errors>\d+) errors)?(?P<rest>.*)"
)
_ERRORS = re.compile(r"\s*(?:\* )?Errors: (?P<errors>\d+)")
_REQUESTS = re.compile(r"\s*\* (?:Reqs: )?Avg: .*")
_FIRST_BYTE = re.compile(r"\s*\* TTFB: .*")
_SIZES = re.compile(r"\s*(?:Requests considered: .*Multiple sizes|Request size )")
_SPLIT = re.compile(rf"\s*(?:Aggregated )?Throughput, split into (?P<n>\d+) x (?P<each>{_LENGTH})")
_SKIPPED = re.compile(r"\s*Skipping (?P<kind>[A-Z]+) too few samples")
_TIME = re.compile(
    rf"(?P<name>Avg|50%|90%|99%|Fastest|Slowest|StdDev|Best|Median|90th|99th|Worst): "
    rf"(?P<time>{_LENGTH})(?=[\s,]|$)"
)
_WRITTEN = re.compile(r"warp-[\w-]+?-(?P<day>\d{4}-\d\d-\d\d)\[(?P<time>\d{6})\]")
_COMMAND = re.compile(rf"\bwarp(?:\.exe)?[\"']? +(?:{'|'.join(BENCHMARKS)}) +-")
_MARGIN_NS = 4 * NS_PER_S  # part of a run that warp 1.1 excludes from rates, not from latencies
_PERIOD_NS = 10 * NS_PER_S
_HALF_UNIT = 0.005  # largest rounding error of a printed rate
_UNITS = (1 << 30, 10**9, 1 << 20, 10**6, 1 << 10, 10**3)


@dataclass(slots=True)
class _Block:
    """Results of one operation that have been read from warp's text."""

    kind: str
    is_old: bool
    head: str
    rate: re.Match[str] | None = None
    errors: int = 0
    length_ns: int = 0
    times: Mapping[str, int] = field(default_factory=dict)
    first_byte: Mapping[str, int] = field(default_factory=dict)
    has_sizes: bool = False


@dataclass(slots=True)
class _Run:
    """Results of one run that have been read from warp's text."""

    blocks: dict[str, _Block] = field(default_factory=dict)
    is_mixed: bool = False
    flags: Mapping[str, str] = field(default_factory=dict)
    start_ns: int = 0
    skipped: list[str] = field(default_factory=list)


def looks_like(text: str) -> bool:
    """Return whether a text has a result that warp printed."""
    lines = text.splitlines()
    return any(map(_HEAD.match, lines)) and any(map(_RATE.match, lines))


def read_text(text: str) -> list[Summary]:
    """Parse the results of one or several runs that warp printed, in the order of the text.

    A new run begins if an operation is reported again, and at a command line of warp or a name of
    a benchmark data file that follows results.
    """
    runs = [_Run()]
    lines = [line.rstrip() for line in text.splitlines()]
    block: _Block | None = None
    for index, line in enumerate(lines):
        head = _HEAD.match(line)
        begins = _COMMAND.search(line) or _WRITTEN.search(line)
        again = head is not None and head["kind"] in runs[-1].blocks
        if runs[-1].blocks and (begins or again):
            runs.append(_Run(flags={} if begins else runs[-1].flags))
            block = None
        run = runs[-1]
        _read_surroundings(run, lines[index:])
        if head is not None:
            block = run.blocks[head["kind"]] = _Block(
                head["kind"], head["word"] == "Operation", head["rest"]
            )
        elif _END.match(line):
            run.is_mixed = True
            block = None
        elif block is not None:
            _read_line(block, line)
    return [_summary(run) for run in runs if run.blocks or run.skipped]


def _read_surroundings(run: _Run, lines: list[str]) -> None:
    """Read facts about the whole run from the next line; a command line may span several lines."""
    line = lines[0]
    if line.strip() == "Mixed operations.":
        run.is_mixed = True
    skipped = _SKIPPED.match(line)
    if skipped is not None:
        run.skipped.append(skipped["kind"])
    command = _COMMAND.search(line)
    if command is not None:
        words = [line[command.start() :]]
        for more in lines[1:]:
            if not words[-1].endswith("\\"):
                break
            words.append(more)
        with contextlib.suppress(CommandLineError):  # for prose that resembles a command line
            run.flags = parse_command_line("\n".join(words)).recorded()
    written = _WRITTEN.search(line)
    if written is not None:
        moment = datetime.strptime(written["day"] + written["time"], "%Y-%m-%d%H%M%S")
        run.start_ns = round(moment.replace(tzinfo=UTC).timestamp()) * NS_PER_S


def _read_line(block: _Block, line: str) -> None:
    rate, errors, split = _RATE.match(line), _ERRORS.match(line), _SPLIT.match(line)
    if rate is not None and block.rate is None:
        block.rate = rate
    elif errors is not None:
        block.errors = int(errors["errors"])
    elif split is not None:
        block.length_ns = int(split["n"]) * duration_ns(split["each"])
    elif _REQUESTS.match(line) and not block.times:
        block.times = _times(line)
    elif _FIRST_BYTE.match(line) and not block.first_byte:
        block.first_byte = _times(line)
    elif _SIZES.match(line):
        block.has_sizes = True


def _times(line: str) -> dict[str, int]:
    return {found["name"]: duration_ns(found["time"]) for found in _TIME.finditer(line)}


def _summary(run: _Run) -> Summary:
    notes = []
    if run.start_ns:
        notes.append("the run's start is from the name of its data file, in an unknown time zone")
    else:
        notes.append("the text has no date, so the start of the run is unknown")
    notes += [f"warp reports no results of {k}: there were too few requests" for k in run.skipped]
    blocks = list(run.blocks.values())
    if run.flags.get("") in ("mixed", "versioned"):
        run.is_mixed = True
    if not run.is_mixed and len(blocks) > 1 and "PUT" in run.blocks:
        blocks = [block for block in blocks if block.kind != "PUT"]
        notes.append(PREPARED)
    rates = []
    for block in blocks:
        if block.rate is None:
            notes.append(f"the text has no rate of {block.kind}")
            continue
        rates.append(_rate(block, block.rate))
        notes += _rate_notes(block, block.rate, rates[-1])
    return summary_of_rates(rates, run.start_ns, flags=run.flags, notes=notes)


def _number(pattern: str, text: str, default: int) -> int:
    found = re.search(pattern, text)
    return int(found[1]) if found else default


def _rate(block: _Block, printed: re.Match[str]) -> Rate:
    objects_s = float(printed["objects"])
    bytes_s = float(printed["bytes"] or 0) * (1 << 20)
    length_ns = _length_ns(block)
    piece = _piece(block, round(objects_s * length_ns / NS_PER_S), length_ns)
    return Rate(
        kind=block.kind,
        objects_s=objects_s,
        bytes_s=bytes_s,
        length_ns=length_ns,
        concurrency=_number(r"Concurrency: (\d+)", block.head, 0),
        errors=block.errors or int(printed["errors"] or 0),
        # Failed uploads of ``warp put`` have size 0, so that only their number is in its rates.
        has_failed=not block.is_old,
        objects_per_request=_number(r"Objects per \w+: (\d+)", block.head, 1),
        size=None if block.has_sizes or block.errors else _size(block, objects_s, bytes_s),
        piece=piece,
        mean_ns=None if "Avg" not in block.times else float(block.times["Avg"]),
    )


def _length_ns(block: _Block) -> int:
    """Return the time in ns over which warp computed the rates; 0 if it is not in the text."""
    if block.length_ns:
        return block.length_ns
    within = re.search(rf"\((?P<length>{_LENGTH})", block.rate["rest"] if block.rate else "")
    ran = re.search(rf"(?:Ran|Duration):? (?:Duration: )?(?P<length>{_LENGTH})", block.head)
    found = within or ran
    return duration_ns(found["length"]) if found else 0


def _piece(block: _Block, requests: int, length_ns: int) -> RequestStatistics | None:
    times = block.times
    if not {"Avg", "50%", "90%", "99%", "Fastest", "Slowest"} <= times.keys():
        return None
    values = {
        "mean_ns": times["Avg"],
        "p50_ns": times["50%"],
        "p90_ns": times["90%"],
        "p99_ns": times["99%"],
        "min_ns": times["Fastest"],
        "max_ns": times["Slowest"],
        "stdev_ns": times.get("StdDev", 0),
    }
    first = block.first_byte
    if {"Avg", "Median", "90th", "99th", "Worst"} <= first.keys():
        values |= {
            "ttfb_mean_ns": first["Avg"],
            "ttfb_p50_ns": first["Median"],
            "ttfb_p90_ns": first["90th"],
            "ttfb_p99_ns": first["99th"],
            "ttfb_max_ns": first["Worst"],
        }
    averaged = not block.is_old and length_ns + _MARGIN_NS > _PERIOD_NS
    return RequestStatistics(requests=requests, is_averaged=averaged, **values)


def _size(block: _Block, objects_s: float, bytes_s: float) -> int | None:
    """Return the printed size of an object in bytes, or derive it from the rates.

    The derived size is the multiple of the largest unit (GiB, GB, MiB, ...) that is consistent with
    the rounded rates; None if there is none.
    """
    printed = _number(r"Size: (\d+) bytes", block.head, 0)
    if printed or not bytes_s:
        return printed
    low = (bytes_s - _HALF_UNIT * (1 << 20)) / (objects_s + _HALF_UNIT)
    high = (bytes_s + _HALF_UNIT * (1 << 20)) / max(objects_s - _HALF_UNIT, 1e-9)
    for unit in _UNITS:
        multiple = -(-low // unit)
        if multiple >= 1 and multiple * unit <= high:
            return round(multiple * unit)
    return None


def _rate_notes(block: _Block, printed: re.Match[str], rate: Rate) -> Iterator[str]:
    least = min(float(value) for value in (printed["objects"], printed["bytes"]) if value)
    error_percent = 100 * _HALF_UNIT / least if least else 100.0
    if error_percent > NEGLIGIBLE_PERCENT:
        yield f"the rate of {rate.kind} is rounded by warp (±{error_percent:.2g} %)"
    if not rate.length_ns:
        yield f"the text has no duration of {rate.kind}"
    if rate.piece is not None and block.is_old:
        yield f"latencies of {rate.kind} are truncated by warp to 1 ms"
    if rate.piece is not None and rate.piece.is_averaged:
        yield (
            f"the mean latency of {rate.kind} is the mean of the means of periods of 10 s: "
            f"{format_latency(rate.piece.mean_ns)}"
        )
