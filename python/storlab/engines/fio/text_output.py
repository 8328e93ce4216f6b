"""Parser of fio's human-readable output, the format ``normal`` (fio 1.x to 3.x).

The text is converted to documents in the form of fio's JSON, which have only some of its values:

- Counts of I/Os (``issued``) are exact. Bytes are rounded, but exact again if every I/O had the
  same size.
- Times are in the unit of their line. Means have two decimals; minimum, maximum and percentiles are
  whole numbers, and percentiles are rounded up.
- Of the options, only ``rw``, ``bs``, ``ioengine`` and ``iodepth`` are printed, once per section.
- Before 2.17, ``KB`` is 1,024 bytes. The end time has no time zone.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from storlab.engines.fio import printed_number
from storlab.engines.fio.printed_load import (
    JOBS,
    NOTES,
    PARTIAL,
    Moved,
    Section,
    options,
    with_sizes,
)
from storlab.engines.fio.printed_number import SI_UNITS, UNKNOWN_VERSION, Version, bounds
from storlab.engines.fio.result import ALL_CLIENTS

_UNIT_NS = {"nsec": 1, "usec": 1_000, "msec": 1_000_000, "sec": 1_000_000_000}
_SECTION = re.compile(r"(?P<name>\S.*?|): \(g=(?P<group>\d+)\): rw=(?P<rw>\w+), (?P<rest>.*bs.*)")
_ENGINE = re.compile(r"ioengine=(?P<engine>[^,\s]+), iodepth=(?P<depth>\d+)")
_SIZES = re.compile(r"([\d.]+[kmgtpe]?i?b?)-([\d.]+[kmgtpe]?i?b?)", re.IGNORECASE)
_VERSION = re.compile(
    r"^\W*fio[- ](?P<plain>\d+\.\d+\S*)\s*$|^hostname=.* fio=fio-(?P<server>\d+\.\d+[^,\s]*)",
    re.IGNORECASE,
)
_HOST = re.compile(r"^<[^>]*>\s*")  # before each line that fio prints of a server
_JOB = re.compile(
    r"(?P<name>\S.*?|): \(groupid=(?P<group>\d+)(?:, jobs=(?P<jobs>\d+))?\): "
    r"err=\s*(?P<error>-?\d+)(?: \((?P<what>.*)\))?:(?: pid=(?P<pid>-?\d+)"
    r"(?:: *(?P<ended>\w{3} \w{3} +\d+ [\d:]+ \d{4}))?)?"
)
_PROGRESS = re.compile(r".*\[eta [^\]]*\]\s*")
_NEW = re.compile(
    r"\b(?P<kind>read|write|trim|mixed)\s*: IOPS=(?P<iops>[^,\s]+), BW=(?P<bw>\S+) "
    r"\((?P<other>[^)\s]+)\)\s*\((?P<io>[^/\s]+)/(?P<runtime>\d+)msec\)"
)
_OLD = re.compile(
    r"\b(?P<kind>read|write|trim|mixed)\s*: io=\s*(?P<io>[^,\s]+), bw=\s*(?P<bw>[^,\s]+)"
    r"(?:, iops=\s*(?P<iops>[^,\s]+))?, runt=\s*(?P<runtime>\d+)\s*msec"
)
_TIMES = re.compile(
    r"\b(?P<what>slat|clat|lat|sync) *\((?P<unit>[num]?sec)\) *: min=\s*(?P<min>[\d.]+\w?), "
    r"max=\s*(?P<max>[\d.]+\w?), avg=\s*(?P<mean>[\d.]+\w?), "
    r"(?:st)?dev=\s*(?P<stdev>[\d.]+\w?|-?nan)"
)
_PERCENTILES = re.compile(r"\b(?P<what>slat|clat|lat|sync) percentiles \((?P<unit>[num]?sec)\)")
_PERCENTILE = re.compile(r"(\d+\.\d+)th=\[?\s*>?=?\s*(\d+)")
_CPU = re.compile(r"cpu\s*: usr=(?P<user>\d+(?:\.\d+)?)%, sys=(?P<system>\d+(?:\.\d+)?)%")
_ISSUED = re.compile(
    r"issued(?: r/w/d| r/w| rwts?)?\s*: total=(?P<total>\S+?),? short=(?P<short>\S+)"
)
_ERRORS = re.compile(r"errors\s*: total=(?P<count>\d+), first_error=\d+/<(?P<what>[^>]*)")
_DEPTHS = re.compile(r"IO depths\s*:")
_DEPTH = re.compile(r"(\d+)=(\d+(?:\.\d+)?)%")
_STEADY = re.compile(r"steadystate\s*: (.*)")
_DESCRIPTION = re.compile(r"^\s*Description\s*: \[(.*)\]")
_DISK = re.compile(
    r"(?P<name>\S+): ios=(\d+)/(\d+)(?:, sectors=(\d+)/(\d+))?, merge=(\d+)/(\d+), "
    r"ticks=(\d+)/(\d+), in_queue=(\d+), util=(\d+(?:\.\d+)?)%(?P<more>.*)"
)
_DISK_FIELDS = (
    "read_ios", "write_ios", "read_sectors", "write_sectors", "read_merges", "write_merges",
    "read_ticks", "write_ticks", "in_queue",
)  # fmt: skip
_GROUP = re.compile(r"Run status group \d+|Disk stats \(read/write\)")
_PRIORITY = re.compile(r"\b(?:clat|lat) prio ")
# Lines of a job whose values storlab does not use; it ignores them in JSON too.
_UNUSED = re.compile(
    r"^\s*(?:bw \(|iops\s*:|lat \([num]?sec\)\s*:|submit\s*:|complete\s*:|"
    r"latency\s*: target|fsync/fdatasync|Jobs: |(?:READ|WRITE|TRIM|MIXED): )"
)
_MESSAGE = re.compile(r"^\s*fio: ")
_KINDS = ("read", "write", "trim", "sync")
_MOST_MESSAGES = 20
_GENERAL = (
    "fio's text has no options except rw, bs, ioengine and iodepth: direct, size, filename, rate, "
    "norandommap and so on are unknown, and the target is named after the job"
)


@dataclass(slots=True)
class _Job:
    """Report of one job, or of a group of jobs, as printed."""

    name: str
    group: int = 0
    jobs: int = 1
    error: int = 0
    what: str | None = None
    pid: int | None = None
    ended: str | None = None
    directions: dict[str, _Direction] = field(default_factory=dict)
    issued: dict[str, int] = field(default_factory=dict)
    is_short: bool = False
    cpu: tuple[float, float] = (0.0, 0.0)
    depths: dict[str, float] = field(default_factory=dict)  # percentage of I/Os by queue depth
    failed: int = 0  # I/Os that failed without ending the job
    notes: list[str] = field(default_factory=list)


@dataclass(slots=True)
class _Direction:
    """Printed results of reads, writes, trims or flushes of a job.

    ``tables`` contains the latency statistics by name (slat, clat, lat).
    """

    kind: str
    printed: dict[str, str] = field(default_factory=dict)
    is_old: bool = False  # whether KB is 1,024 bytes
    tables: dict[str, dict[str, Any]] = field(default_factory=dict)
    units: dict[str, str] = field(default_factory=dict)  # unit of the percentiles by table


@dataclass(slots=True)
class _Run:
    """Printed results of one invocation of fio."""

    version: Version = UNKNOWN_VERSION
    version_text: str = "unknown"
    sections: list[Section] = field(default_factory=list)
    jobs: dict[tuple[Any, ...], _Job] = field(default_factory=dict)
    disks: dict[str, dict[str, Any]] = field(default_factory=dict)
    messages: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    is_summed: bool = False  # whether the results of a group have been printed
    repeated: int = 0


def matches(text: str) -> bool:
    """Return whether a text contains human-readable jobs or results of fio."""
    # The cheap tests come first: _JOB and _SECTION take quadratic time in the length of a line, and
    # JSON may be one line of megabytes.
    is_job = ": (groupid=" in text and _JOB.search(text) is not None
    is_section = ": (g=" in text and _SECTION.search(text) is not None
    return is_job or is_section or any(pattern.search(text) for pattern in (_NEW, _OLD))


def messages(text: str) -> list[str]:
    """Return the messages and errors that fio printed."""
    return [line.strip() for line in text.splitlines() if _MESSAGE.search(line)]


def read(text: str) -> list[dict[str, Any]]:
    """Return a document in the form of fio's JSON for each invocation of fio in a text.

    A job's notes on rounding and on missing values are in its field ``NOTES``. A document's field
    ``PARTIAL`` is set, because the text does not contain all options.
    """
    reader = _Reader()
    for line in text.splitlines():
        reader.take(line)
    return [_document(run) for run in reader.runs if run.jobs]


class _Reader:
    """Reader that collects the results in fio's text, line by line."""

    def __init__(self) -> None:
        self.runs = [_Run()]
        self._job: _Job | None = None
        self._direction: _Direction | None = None
        self._table: str | None = None

    def take(self, line: str) -> None:
        """Add the content of the next line to the results read so far."""
        run = self.runs[-1]
        if ": (g=" in line and (match := _SECTION.search(line)):
            self._section(match)
        elif ": (groupid=" in line and (match := _JOB.search(line)):
            self._start(match)
            self.take(line[match.end() :])  # on Windows, fio prints no line feed after the date
        elif match := _VERSION.search(line):
            run = self._next() if run.jobs else run
            run.version_text = match["plain"] or match["server"]
            major, minor = re.findall(r"\d+", run.version_text)[:2]
            run.version = (int(major), int(minor))
        elif _GROUP.search(line):
            run.is_summed = True
            self._job = self._direction = None
        elif match := _DISK.search(line):
            run.disks[match["name"]] = _disk(match)
        elif match := _NEW.search(line) or _OLD.search(line):
            self._open(match["kind"], match)
        elif _MESSAGE.search(line):
            run.messages.append(line.strip())
        elif self._job is not None:
            known = self._latency(self._job, line) or self._detail(self._job, line)
            if not known and line[:1].isspace():  # other lines are those of other programs
                text = line.strip()[:100]
                self._job.notes.append(f"this line of fio's text is not imported: {text}")

    def _next(self) -> _Run:
        self.runs.append(_Run())
        self._job = self._direction = None
        return self.runs[-1]

    def _section(self, match: re.Match[str]) -> None:
        run = self.runs[-1]
        if run.jobs:
            run = self._next()
        engine = _ENGINE.search(match["rest"])
        printed = _SIZES.findall(match["rest"])
        is_old = not any(text.rstrip().endswith("B") for pair in printed for text in pair)
        version = UNKNOWN_VERSION if is_old else SI_UNITS
        pairs = [[printed_number.size(text, version) for text in pair] for pair in printed]
        section = Section(
            name=_HOST.sub("", match["name"]),
            group=int(match["group"]),
            rw=match["rw"],
            sizes=[(low or 0, high or 0) for low, high in pairs],
            engine=engine["engine"] if engine else None,
            depth=int(engine["depth"]) if engine else None,
            is_by_order="seq_rand" in match["rest"] or "seq/rand" in match["rest"],
        )
        if section not in run.sections:  # each client prints it
            run.sections.append(section)

    def _start(self, match: re.Match[str]) -> None:
        run = self.runs[-1]
        name = _PROGRESS.sub("", match["name"])
        for section in run.sections:  # a terminal may have printed progress before the name
            if section.name and name.endswith(section.name):
                name = section.name
        job = _Job(
            name=name,
            group=int(match["group"]),
            jobs=int(match["jobs"] or 1),
            error=int(match["error"]),
            what=match["what"],
            pid=int(match["pid"]) if match["pid"] else None,
            ended=match["ended"],
        )
        key = (job.group, job.name, job.pid)
        if key in run.jobs:
            run.repeated += 1
        elif job.name != ALL_CLIENTS and run.is_summed and job.group in {k[0] for k in run.jobs}:
            run = self._next()
        run.jobs[key] = job
        self._job, self._direction, self._table = job, None, None

    def _open(self, kind: str, match: re.Match[str] | None) -> None:
        run = self.runs[-1]
        if self._job is None or (match and kind in self._job.directions):
            if any(key[0] is None for key in run.jobs):
                run = self._next()
            name = run.sections[0].name if len(run.sections) == 1 else "imported"
            self._job = _Job(name=name, notes=["the line with the job's name and error is missing"])
            run.jobs[None, len(run.jobs)] = self._job
        direction = _Direction(kind)
        if match is not None:
            direction.printed = {k: v for k, v in match.groupdict().items() if v}
            direction.is_old = match.re is _OLD
        self._job.directions[kind] = self._direction = direction
        self._table = None

    def _latency(self, job: _Job, line: str) -> bool:
        """Read a line if it contains latencies; return whether it does."""
        if match := _TIMES.search(line):
            if match["what"] == "sync" and "sync" not in job.directions:
                self._open("sync", None)
            if self._direction is not None:
                table = self._direction.tables.setdefault(match["what"], {"percentile": {}})
                table.update(_times(match))
        elif match := _PERCENTILES.search(line):
            if self._direction is not None:
                self._table = match["what"]
                self._direction.tables.setdefault(match["what"], {"percentile": {}})
                self._direction.units[match["what"]] = match["unit"]
                self._percentiles(line)
        elif _PRIORITY.search(line):
            self._table = None
            job.notes.append("latencies by priority are not imported")
        elif _PERCENTILE.search(line):
            self._percentiles(line)
        else:
            return False
        return True

    def _detail(self, job: _Job, line: str) -> bool:
        """Read any other line of a job's report; return whether its form is known."""
        if match := _CPU.search(line):
            job.cpu = (float(match["user"]), float(match["system"]))
        elif match := _ISSUED.search(line):
            job.issued = dict(zip(_KINDS, _counts(match["total"]), strict=False))
            job.is_short = any(_counts(match["short"]))
        elif match := _ERRORS.search(line):
            job.failed = int(match["count"])
            job.notes.append(f"the first error of an I/O: {match['what']}")
        elif _DEPTHS.search(line):
            job.depths = {depth: float(share) for depth, share in _DEPTH.findall(line)}
        elif match := _STEADY.search(line):
            job.notes.append(f"fio's own steady-state test: {match[1].strip()}")
        elif match := _DESCRIPTION.search(line):
            job.notes.append(f"description of the job: {match[1]}")
        else:
            return not line.strip() or _UNUSED.search(line) is not None
        return True

    def _percentiles(self, line: str) -> None:
        if self._direction is None or self._table is None:
            return
        unit = _UNIT_NS[self._direction.units[self._table]]
        table = self._direction.tables[self._table]["percentile"]
        for percent, value in _PERCENTILE.findall(line):
            table[percent] = int(value) * unit


def _counts(text: str) -> list[int]:
    return [int(number) for number in re.findall(r"\d+", text)]


def _times(match: re.Match[str]) -> dict[str, float]:
    unit = _UNIT_NS[match["unit"]]
    names = {"min": "min", "max": "max", "mean": "mean", "stddev": "stdev"}
    values = {name: printed_number.exact(match[group]) for name, group in names.items()}
    return {
        name: value * unit if name in ("mean", "stddev") else round(value * unit)
        for name, value in values.items()
        if value is not None
    }


def _disk(match: re.Match[str]) -> dict[str, Any]:
    values = match.groups()[1:10]
    disk: dict[str, Any] = {"name": match["name"]}
    disk |= {name: int(v) for name, v in zip(_DISK_FIELDS, values, strict=True) if v is not None}
    disk["util"] = float(match.group(11))
    if "aggrios" in match["more"]:
        disk["aggr_util"] = disk["util"]
    return disk


def _document(run: _Run) -> dict[str, Any]:
    jobs = list(run.jobs.values())
    if len(jobs) > 1 and any(job.name == ALL_CLIENTS for job in jobs):
        run.notes.append(
            "fio's sum of all clients is not imported, because the jobs of the clients are"
        )
        jobs = [job for job in jobs if job.name != ALL_CLIENTS]
    if run.repeated:
        run.notes.append(
            "fio printed interim results (--status-interval or a signal); the last are imported"
        )
    printed = list(dict.fromkeys(run.messages))
    notes = [*printed[:_MOST_MESSAGES], *run.notes]
    if len(printed) > _MOST_MESSAGES:
        notes.append(f"{len(printed) - _MOST_MESSAGES:,} more messages of fio are in the file")
    return {
        "fio version": run.version_text,
        PARTIAL: True,
        NOTES: notes,
        "timestamp": max((_ended_s(job) or 0 for job in jobs), default=0),
        "jobs": [_job(run, job) for job in jobs],
        **({"disk_util": list(run.disks.values())} if run.disks else {}),
    }


def _job(run: _Run, job: _Job) -> dict[str, Any]:
    moved = {
        kind: _moved(run, job, direction)
        for kind, direction in job.directions.items()
        if kind != "sync" and direction.printed
    }
    notes = [f"fio's error: {job.what}"] if job.what else []
    sections = [s for s in run.sections if s.group == job.group]
    named = [s for s in sections if s.name == job.name]
    loads = named if named and job.jobs == 1 else sections
    with_sizes(loads, moved.values())
    for one in moved.values():
        notes += one.count()
    syncs = job.issued.get("sync", 0)
    result: dict[str, Any] = {
        "jobname": job.name,
        "groupid": job.group,
        "error": job.error,
        "job options": options(loads, moved, job.jobs, syncs, notes),
        "iodepth_level": job.depths,
        JOBS: job.jobs,
        "total_err": job.failed,
        "usr_cpu": job.cpu[0],
        "sys_cpu": job.cpu[1],
        "job_runtime": job.jobs * max((m.runtime_ms for m in moved.values()), default=0),
        "job_start": _start_ms(job, moved),
    }
    for kind in ("read", "write", "trim", "mixed", "sync"):
        direction = job.directions.get(kind)
        if kind in ("mixed", "sync") and direction is None:
            continue
        result[kind] = _result(job, kind, direction, moved.get(kind), notes)
    if "mixed" in result:
        if moved.keys() == {"mixed"}:
            for kind in ("read", "write", "trim"):
                del result[kind]
        else:
            notes.append("fio's sum over reads and writes (mixed) is not imported")
            del result["mixed"]
    notes += [*job.notes, _GENERAL]
    if result["job_start"] is not None:
        notes.append("the end time in fio's text has no time zone; UTC is assumed")
    if any(job.cpu):
        notes.append("CPU time is computed as fio's percentage of jobs x run time")
    result[NOTES] = list(dict.fromkeys(notes))
    return result


def _moved(run: _Run, job: _Job, direction: _Direction) -> Moved:
    printed = direction.printed
    runtime_ms = int(printed["runtime"])
    version = run.version
    if version == UNKNOWN_VERSION and not direction.is_old:
        version = printed_number.EXACT_FRACTIONS
    kilo = 1024 if direction.is_old else 1000
    moved = bounds(printed["io"], version, kilo=kilo)
    for name in ("bw", "other"):
        rate = bounds(printed.get(name, ""), version, kilo=kilo)
        if rate is not None:
            over = rate.scaled(runtime_ms / 1000)
            moved = over if moved is None else moved.overlap(over)
    rate = bounds(printed.get("iops", ""), version)
    return Moved(
        kind=direction.kind,
        runtime_ms=runtime_ms,
        bytes=moved,
        issued=job.issued.get(direction.kind),
        counted=rate.scaled(runtime_ms / 1000) if rate is not None else None,
        is_short=job.is_short,
    )


def _result(
    job: _Job, kind: str, direction: _Direction | None, moved: Moved | None, notes: list[str]
) -> dict[str, Any]:
    count = moved.operations if moved is not None else job.issued.get(kind, 0)
    result: dict[str, Any] = {
        "total_ios": job.issued.get(kind, count),
        "io_bytes": moved.total_bytes if moved is not None else 0,
        "runtime": moved.runtime_ms if moved is not None else 0,
    }
    if direction is None:
        return result
    if kind == "sync" and not count:
        notes.append("fio's text has no number of flushes, so their latencies are not imported")
        return result
    for name, table in direction.tables.items():
        if name == "slat" or "mean" not in table:
            continue
        result["lat_ns" if name in ("lat", "sync") else "clat_ns"] = {**table, "N": count}
    notes += _unit_notes(kind, direction)
    return result


def _unit_notes(kind: str, direction: _Direction) -> Iterator[str]:
    """Yield notes on the rounding of percentiles of one kind of I/O."""
    for name, unit in direction.units.items():
        percentiles = direction.tables[name]["percentile"]
        median = next((v for k, v in percentiles.items() if float(k) == 50.0), 0)
        if unit == "nsec" or name == "slat" or not percentiles:
            continue
        coarse = f" (p50 by up to {100 * _UNIT_NS[unit] / median:.2g} %)" if median else ""
        yield f"{kind}: fio rounded percentiles up to whole {unit}{coarse}"


def _ended_s(job: _Job) -> int | None:
    """Return the end of a job as UNIX time in seconds; None if fio printed no time."""
    try:
        ended = datetime.strptime((job.ended or "").strip(), "%a %b %d %H:%M:%S %Y")
    except ValueError:
        return None
    return round(ended.replace(tzinfo=UTC).timestamp())


def _start_ms(job: _Job, moved: dict[str, Moved]) -> int | None:
    """Return the start of a job's window as UNIX time in ms; None if fio printed no time."""
    ended_s = _ended_s(job)
    length_ms = max((m.runtime_ms for m in moved.values()), default=0)
    return None if ended_s is None else 1000 * ended_s - length_ms
