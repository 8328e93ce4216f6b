"""Parser of vdbench's reports (checked against the sources of 5.04.06 and output of 5.04.07).

- One run is one run definition (RD) with one value of each of its loops. It has a row per interval
  and a row of averages: ``avg_2-60`` is over intervals 2 to 60, as the first ones warm up.
- ``flatfile.html`` has a column per value, with four decimals, and the requested settings. Comments
  begin with ``*``.
- ``summary.html``, ``totals.html``, ``logfile.html`` and the console have a line ``Starting RD=``
  before the rows, two lines of column heads, and fewer decimals. ``totals.html`` has no intervals.
- Raw I/O has one rate and a percentage of reads; file systems have rates per kind of operation.
- MB are MiB, unless the head of a column says ``1000**2``. Response times are in ms.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date, datetime, timedelta
from statistics import median

from storlab.base.errors import FormatError
from storlab.base.rounding import Bounds
from storlab.base.units import MB, MIB

_TAG = re.compile(r"</?[A-Za-z][^>]*>")
_FLAT_MARK = "contains Vdbench generated information"
_SUMMARY_MARK = "Vdbench summary report, created"
_FLAT_HEAD = re.compile(r"^\s*tod\s+(?:timestamp\s+)?Run\s+Interval\s", re.MULTILINE)
# Reports on a single device, workload or host, which have the same columns as the summary.
_DETAIL = re.compile(
    r"report\S* for (?:sd|wd|fsd|fwd|slave|host)\b|kstat \w+ report", re.IGNORECASE
)
_AVERAGE_ROW = re.compile(r"\bavg_\d+-\d+\s+\d")
_START = re.compile(r"(\d\d:\d\d:\d\d\.\d+) Starting RD=([^;\s]+)(.*)")
_ROW = re.compile(r"(\d\d:\d\d:\d\d\.\d+)\s+(\d+|avg_\d+-\d+)\s+(\S.*)")
_AVERAGE = re.compile(r"avg_(\d+)-(\d+)")
_HEAD = re.compile(r"(?:(\S+ \d+, \d{4})\s+)?\.*interval\.*\s+(\S.*)", re.IGNORECASE)
_CREATED = re.compile(r"created (\S+ \S+ \d+ \d{4}) \S+ \((\S+ \S+ \d+ \d{4}) UTC\)")
_VERSION = re.compile(r"Vdbench distribution: *vdbench(\d+)")
_ELAPSED = re.compile(r"\b(?:elapsed|warmup)=(\d+)")
_RATE = re.compile(r"(?:I/O rate: |fwdrate=)(\d+)")
_LOOPS = re.compile(r"For loops: (.*)")
_FLAT_NAMES = {
    "rate": "rate",
    "mb/sec": "mb",
    "bytes/io": "mean_bytes",
    "read%": "read_percent",
    "resp": "resp",
    "resp_max": "max",
    "queue_depth": "depth",
}
_PRINTED_NAMES = {
    "i/o rate": "rate",
    "reqstdops rate": "rate",
    "reqstdops resp": "resp",
    "bytes i/o": "mean_bytes",
    "xfer size": "mean_bytes",
    "read pct": "read_percent",
    "resp time": "resp",
    "resp max": "max",
    "queue depth": "depth",
    "mb/sec read": "mb_read",
    "mb/sec write": "mb_write",
    "mb/sec total": "mb",
    "mb/sec 1024**2": "mb",
    "mb/sec 1000**2": "mb",
}
# Column heads of file systems that span one column; others span two.
_SINGLE = {("read", "pct"), ("mb/sec", "total"), ("xfer", "size")}
_SETTINGS = (
    "xfersize", "threads", "rdpct", "rhpct", "whpct", "seekpct", "reqrate", "lunsize", "compratio",
    "dedupratio",
)  # fmt: skip
_FLAT_ERROR = 0.00005
_DAY_S = 86_400
_PARTIAL = 0.9  # share of an interval's length below which the last one was cut short


class VdbenchFormatError(FormatError):
    """Error: a text is not a vdbench report; ``field`` names what is missing or wrong."""


@dataclass(frozen=True, slots=True)
class Row:
    """Row of a report: one interval, or the averages of intervals ``first`` to ``last``.

    ``values`` has the printed numbers by name, among them rate (operations/s), resp (ms), mb
    (MB/s), read_percent, and per kind of operation read_rate, read_resp and mb_read.
    """

    first: int
    last: int
    second: float  # time of printing, in s since midnight
    values: Mapping[str, Bounds]

    @property
    def is_file_system(self) -> bool:
        """Whether this is a row of a file system workload."""
        return "read_rate" in self.values


@dataclass(slots=True)
class Report:
    """Results of one run definition with one value of each of its loops."""

    name: str
    mb_bytes: int = MIB
    starting: str = ""  # text after the name in the line "Starting RD="
    second: float | None = None  # start, in s since midnight
    day: date | None = None
    utc_offset: timedelta | None = None
    columns: dict[str, str] = field(default_factory=dict)  # requested settings of the flatfile
    intervals: list[Row] = field(default_factory=list)
    averages: Row | None = None  # None if the run did not end

    @property
    def average(self) -> Row:
        """Row of the averages.

        Raises:
            VdbenchFormatError: The run did not end, so it has none.
        """
        if self.averages is None:
            raise VdbenchFormatError(self.name, "has no averages (avg_): the run did not end")
        return self.averages

    @property
    def loops(self) -> dict[str, str]:
        """Values of the run definition's loops by parameter, such as ``threads``."""
        found = _LOOPS.search(self.starting)
        words = found[1].split() if found else []
        return dict(word.split("=", 1) for word in words if "=" in word)

    @property
    def rate(self) -> str:
        """Requested operations per second; not a number if the rate is not limited."""
        if "reqrate" in self.columns:
            return self.columns["reqrate"]
        found = _RATE.search(self.starting)
        return found[1] if found else ""

    def setting(self, column: str) -> float | None:
        """Return a requested setting of the flatfile as a number; None if it is not in the file.

        Raises:
            VdbenchFormatError: It is not a number.
        """
        text = self.columns.get(column)
        return None if text is None else number(text, f"{self.name}: {column}")

    @property
    def interval_s(self) -> int:
        """Length of an interval in s, which vdbench only has in whole seconds.

        Raises:
            VdbenchFormatError: It follows neither from the times of rows nor from the options.
        """
        gaps = [
            (after.second - before.second) % _DAY_S
            for before, after in zip(self.intervals, self.intervals[1:], strict=False)
        ]
        if gaps:
            return max(1, round(median(gaps)))
        last = self.average.last
        if asked := sum(map(int, _ELAPSED.findall(self.starting))):
            return max(1, round(asked / last))
        if self.second is None:
            raise VdbenchFormatError(self.name, "has no times from which the interval follows")
        return max(1, round((self.average.second - self.second) % _DAY_S / last))

    def lengths_s(self) -> list[float]:
        """Return the length of each averaged interval in s; the last one may be shorter."""
        lengths = [float(self.interval_s)] * (self.average.last - self.average.first + 1)
        if len(self.intervals) > 1 and self.intervals[-1].last == self.average.last:
            gap = (self.intervals[-1].second - self.intervals[-2].second) % _DAY_S
            if 0 < gap < _PARTIAL * self.interval_s:
                lengths[-1] = gap
        return lengths

    def averaged(self) -> list[Row]:
        """Return the rows of the averaged intervals; empty unless the report has all of them."""
        first, last = self.average.first, self.average.last
        rows = [row for row in self.intervals if first <= row.first <= last]
        whole = [row.first for row in rows] == list(range(first, last + 1))
        return rows if whole else []

    def started(self) -> datetime | None:
        """Return the local time at which the run started; None if the report has no date."""
        second = self.second
        if second is None and self.intervals:
            second = self.intervals[0].second - self.interval_s
        if self.day is None or second is None:
            return None
        return datetime.combine(self.day, datetime.min.time()) + timedelta(seconds=second)


def is_flatfile(text: str) -> bool:
    """Return whether a text is vdbench's flatfile."""
    return _FLAT_MARK in text[:2000] or _FLAT_HEAD.search(text[:20_000]) is not None


def is_printed(text: str) -> bool:
    """Return whether a text is a summary, the totals, the log or the console of vdbench."""
    head = text[:2000]
    if "Starting RD=" not in text or _DETAIL.search(head):
        return False
    return _SUMMARY_MARK in head or _AVERAGE_ROW.search(text) is not None


def form_of(text: str) -> str:
    """Return which of vdbench's reports a text is: flatfile, summary, totals or log."""
    if is_flatfile(text):
        return "flatfile"
    head = text[:2000]
    names = {"summary": _SUMMARY_MARK, "totals": "Run totals\n"}
    return next((name for name, mark in names.items() if mark in head), "log")


def version_in(text: str) -> str:
    """Return the version of vdbench that its log or console states."""
    found = _VERSION.search(text)
    return found[1] if found else "unknown"


def lines_of(text: str) -> list[str]:
    """Return the lines of a file of vdbench without HTML tags."""
    return [_TAG.sub("", line).rstrip() for line in text.splitlines()]


def read_reports(text: str) -> list[Report]:
    """Parse all runs of a report, including those that did not end and have no averages.

    Raises:
        VdbenchFormatError: There is no run, or a row is cut short or malformed.
    """
    lines = lines_of(text)
    reports = _read_flatfile(lines) if is_flatfile(text) else _read_printed(lines)
    if not reports:
        raise VdbenchFormatError("Starting RD=", "is missing: the report has no run")
    return reports


def _read_flatfile(lines: Sequence[str]) -> list[Report]:
    head: list[str] = []
    reports: list[Report] = []
    for number, line in enumerate(lines, 1):
        words = line.split()
        if not words or line.lstrip().startswith("*"):
            continue
        if words[0] == "tod":
            head = [word.lower() for word in words]
        elif head and re.match(r"\d\d:\d\d:\d\d", words[0]):
            if len(words) != len(head):
                what = f"has {len(words)} values, but the head of the table {len(head)}"
                raise VdbenchFormatError(f"line {number}", what)
            _add_flat(reports, dict(zip(head, words, strict=True)))
    return reports


def _add_flat(reports: list[Report], cells: Mapping[str, str]) -> None:
    values = {
        _FLAT_NAMES.get(name, name): value
        for name, text in cells.items()
        if name not in ("tod", "timestamp", "run", "interval", *_SETTINGS)
        and (value := _bounds(text, _FLAT_ERROR)) is not None
    }
    row = _row(cells["tod"], cells["interval"], values)
    before = reports[-1] if reports else None
    if (
        before is None
        or before.averages is not None
        or before.name != cells["run"]
        or (before.intervals and row.first <= before.intervals[-1].first and row.first == row.last)
    ):
        reports.append(Report(cells["run"]))
    report = reports[-1]
    if not report.columns:
        report.columns = {n: cells[n] for n in _SETTINGS if cells.get(n, "n/a") != "n/a"}
        report.day = _day(cells.get("timestamp", "")[:10], "%m/%d/%Y")
    _add(report, row, cells["interval"])


def _read_printed(lines: Sequence[str]) -> list[Report]:
    reports: list[Report] = []
    columns: list[str] = []
    heads = ""
    day, offset = None, None
    for line in lines:
        if heads:
            columns, heads = _columns(heads, line), ""
        elif found := _CREATED.search(line):
            offset = _offset(*found.groups())
        elif found := _START.search(line):
            report = Report(found[2], starting=found[3], second=_second(found[1]))
            report.utc_offset = offset
            before = reports[-1].second if reports else None
            if day and before is not None and report.second is not None:
                day += timedelta(days=report.second < before)
            report.day = day
            reports.append(report)
        elif found := _HEAD.fullmatch(line):
            heads = found[2]
            day = _day(found[1] or "", "%b %d, %Y") or day
            if reports and not reports[-1].intervals:
                reports[-1].day = day
        elif reports and columns and (found := _ROW.fullmatch(line)):
            _add_printed(reports[-1], columns, *found.groups())
    return reports


def _columns(heads: str, below: str) -> list[str]:
    """Return the names of columns from both lines of heads."""
    tops = [word.strip(".").lower() for word in heads.split()]
    unders = below.lower().split()
    names: list[str] = []
    for top in tops:
        single = "reqstdops" not in tops or (top, "".join(unders[:1])) in _SINGLE
        own, unders = unders[: 1 if single else 2], unders[1 if single else 2 :]
        names += [f"{top} {under}" for under in own]
    return names


def _add_printed(
    report: Report, columns: Sequence[str], tod: str, interval: str, rest: str
) -> None:
    words = rest.split()
    found = [_bounds(word) for word in words[: len(columns)]]
    if len(words) < len(columns):
        if not interval.startswith("avg"):
            return  # a message of the log that begins with a number
        raise VdbenchFormatError(f"{report.name} {interval}", "is cut short")
    values = {
        _PRINTED_NAMES.get(name, name.replace(" ", "_")): value
        for name, value in zip(columns, found, strict=True)
        if value is not None
    }
    if "rate" not in values:
        return
    if "mb/sec 1000**2" in columns:
        report.mb_bytes = MB
    _add(report, _row(tod, interval, values), interval)


def _add(report: Report, row: Row, interval: str) -> None:
    if interval.startswith("avg"):
        report.averages = row
    else:
        report.intervals.append(row)


def _row(tod: str, interval: str, values: Mapping[str, Bounds]) -> Row:
    averaged = _AVERAGE.fullmatch(interval)
    if averaged is None and not interval.isdigit():
        raise VdbenchFormatError("Interval", f'is "{interval}", not a number')
    first, last = (averaged[1], averaged[2]) if averaged else (interval, interval)
    return Row(int(first), int(last), _second(tod), values)


def _bounds(text: str, error: float | None = None) -> Bounds | None:
    """Return the bounds of a printed number; None for ``n/a``, ``NaN`` and other words."""
    if not re.fullmatch(r"-?\d+(?:\.\d+)?", text):
        return None
    value = float(text)
    if error is None:
        error = 0.5 * 10.0 ** -len(text.partition(".")[2])
    return Bounds(value - error, value + error)


def number(text: str, field: str) -> float:
    """Parse a finite number; raise VdbenchFormatError, which names the field, for other texts."""
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not math.isfinite(value):
        raise VdbenchFormatError(field, f'is "{text}", not a number')
    return value


def _second(tod: str) -> float:
    hours, minutes, seconds = tod.split(":")
    return 3600 * int(hours) + 60 * int(minutes) + float(seconds)


def _day(text: str, form: str) -> date | None:
    try:
        return datetime.strptime(text, form).date()
    except ValueError:  # the name of the month is in another language
        return None


def _offset(local: str, utc: str) -> timedelta | None:
    try:
        moments = [datetime.strptime(text, "%H:%M:%S %b %d %Y") for text in (local, utc)]
    except ValueError:
        return None
    return moments[0] - moments[1]
