"""Meter ``csv``: power or energy that another program logged to a CSV file during the run.

Examples are logs of a power analyser or exports of a PDU. Their times are from another clock, so
the study must declare its offset in ``clock_offset``, which is added to them. The study must also
set columns, unit and time format; the meter guesses none of them.
"""

from __future__ import annotations

import csv
import math
import re
from collections.abc import Callable, Iterable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Literal

from pydantic import Field, model_validator

from storlab.base.clock import monotonic_ns, wall_at_ns
from storlab.base.errors import FieldProblems, MeterError, Problem
from storlab.base.nearest import suggest
from storlab.base.units import J_PER_WH, NS_PER_S, parse_duration
from storlab.contracts.meter import Discovered
from storlab.meters.options import MeterOptions, read_options
from storlab.model.power import Boundary, Reading, Sampling, SensorInfo
from storlab.model.result import RunOutcome
from storlab.model.study import MeterSpec, Target

BOUNDARY: Boundary = "device"  # unless the study states another
_MARGIN_NS = 3_600 * NS_PER_S  # margin on both sides of a window, for idle power
_STEP_NS = 10_000_000  # smaller changes of the wall clock are normal under NTP
_EPOCH_UNITS = {"epoch": NS_PER_S, "epoch_ms": 1_000_000, "epoch_us": 1_000, "epoch_ns": 1}
_MULTIPLES = {"W": 1.0, "mW": 1e-3, "kW": 1e3, "J": 1.0, "Wh": J_PER_WH, "kWh": 1000 * J_PER_WH}


class CsvOptions(MeterOptions):
    """Fields of a meter with ``kind = "csv"``."""

    path: str = Field(min_length=1)
    time_column: str = Field(min_length=1)
    time_format: Literal["epoch", "epoch_ms", "epoch_us", "epoch_ns", "iso", "monotonic"]
    clock_offset: str | float  # added to logged times: "-1.5s", "250ms", or a number of seconds
    clock_uncertainty: str | float = 0.0
    columns: list[str] = Field(min_length=1)  # each column is one sensor
    unit: Literal["W", "mW", "kW", "J", "Wh", "kWh"] = "W"
    sampling: Sampling | None = None  # default: instantaneous for power, counter for energy
    interval: str | float | None = None  # interval over which means are taken
    counter_max: float | None = Field(default=None, gt=0)  # in the unit of the column
    delimiter: str = Field(default=",", min_length=1, max_length=1)
    comment: str = "#"

    @model_validator(mode="after")
    def _fits_together(self) -> CsvOptions:
        problems = []
        for name in ("clock_offset", "clock_uncertainty", "interval"):
            try:
                size = signed_ns(getattr(self, name) or 0)
                if name == "interval" and self.interval is not None and size <= 0:
                    raise ValueError(f"{self.interval} is not a positive duration")
            except ValueError as error:
                problems.append(Problem((name,), str(error), f'for example {name} = "250ms"'))
        counts = self.unit in ("J", "Wh", "kWh")
        if self.sampling is not None and counts != (self.sampling == "counter"):
            problems.append(
                Problem(
                    ("sampling",),
                    f"{self.sampling} does not go with {self.unit}",
                    "energy is a counter; power is instantaneous or interval_mean",
                )
            )
        if problems:
            raise FieldProblems(problems)
        return self

    @property
    def how(self) -> Sampling:
        """Kind of values: instantaneous power, means over an interval, or an energy counter."""
        return self.sampling or ("counter" if self.unit in ("J", "Wh", "kWh") else "instantaneous")


def signed_ns(value: str | float) -> int:
    """Convert a duration with sign, such as ``"-1.5s"``, or a number of seconds to nanoseconds.

    Raises:
        ValueError: The value is not a duration.
    """
    if isinstance(value, str):
        text = value.strip()
        size = parse_duration(text.lstrip("+-"))
        return -size if text.startswith("-") else size
    if not math.isfinite(value):
        raise ValueError(f"{value} is not a duration")
    return round(value * NS_PER_S)


def time_reader(time_format: str) -> Callable[[str], int]:
    """Return a function that parses a time stamp to ns since 1970, or of CLOCK_MONOTONIC.

    The function raises ValueError for malformed text.

    Args:
        time_format: Value of the field ``time_format`` in the study.
    """
    if time_format == "iso":
        return _iso_ns
    unit = _EPOCH_UNITS.get(time_format, NS_PER_S)
    return lambda text: _decimal_ns(text, unit)


def _decimal_ns(text: str, unit_ns: int) -> int:
    match = re.fullmatch(r"\s*(-?)(\d+)(?:\.(\d+))?\s*", text)
    if match is None:  # other digits convert exactly; a float cannot hold ns since 1970
        return round(float(text) * unit_ns)
    sign, whole, part = match.groups(default="")
    size = int(whole) * unit_ns + (int(part) * unit_ns // 10 ** len(part) if part else 0)
    return -size if sign else size


def _iso_ns(text: str) -> int:
    moment = datetime.fromisoformat(text.strip())
    if moment.tzinfo is None:
        raise ValueError("the time has no zone; log it in UTC, with Z or +00:00")
    since = moment.astimezone(UTC) - datetime(1970, 1, 1, tzinfo=UTC)
    return (since.days * 86_400 + since.seconds) * NS_PER_S + since.microseconds * 1_000


def _finite(text: str) -> float:
    value = float(text)
    if not math.isfinite(value):
        raise ValueError(f"{text} is not a finite number")
    return value


def _whole(lines: Iterable[str]) -> Iterator[str]:
    """Yield lines, except a last line without a newline, whose numbers may be cut off."""
    return (line for line in lines if line.endswith(("\n", "\r")))


class CsvMeter:
    """Meter that reads another program's log after a run, and keeps the values around the run."""

    periodic = False  # the log grows independently

    def __init__(self, options: CsvOptions, where: str) -> None:
        self._options = options
        self._where = where
        self._path = Path(options.path)
        self._offset_ns = signed_ns(options.clock_offset)
        self._notes: list[str] = []
        self._relation_ns = wall_at_ns(0)
        self._columns()

    def describe(self) -> list[SensorInfo]:
        """Return one sensor per column; their values are added up only if ``part_of`` is set."""
        options = self._options
        counts = options.how == "counter"
        factor = _MULTIPLES[options.unit]
        return [
            options.info(
                sensor=f"csv:{column}",
                description=f"logged elsewhere, column {column} of {self._path.name}",
                sampling=options.how,
                unit="J" if counts else "W",
                counter_max=None if options.counter_max is None else options.counter_max * factor,
                sensor_interval_ns=None
                if options.interval is None
                else signed_ns(options.interval),
                clock_uncertainty_ns=abs(signed_ns(options.clock_uncertainty)),
            )
            for column in options.columns
        ]

    def sample(self) -> list[Reading]:
        """Return no readings: the log is read after the run."""
        return []

    def after_run(self, outcome: RunOutcome) -> list[Reading]:
        """Return the values logged from an hour before the window to an hour after it.

        Raises:
            MeterError: The log or one of its rows cannot be read.
        """
        self._note_a_step()
        start, end = outcome.window_start_ns - _MARGIN_NS, outcome.window_end_ns + _MARGIN_NS
        return list(self._readings(start, end))

    def notes(self) -> list[str]:
        """Return the warnings about the CSV file since the last call, and clear them."""
        notes, self._notes = self._notes, []
        return notes

    def close(self) -> None:
        """Do nothing: no resource is held."""

    def _note_a_step(self) -> None:
        now = wall_at_ns(0)
        moved = now - self._relation_ns
        if abs(moved) > _STEP_NS and self._options.time_format != "monotonic":
            self._notes.append(
                f"csv: this machine's wall clock was set by {moved / NS_PER_S:+.3f} s since the "
                "log was opened; the log's times are converted with the present clock"
            )
        self._relation_ns = now

    def _columns(self) -> list[str]:
        for header in self._rows():
            names = [name.strip() for name in header[1]]
            for wanted in (self._options.time_column, *self._options.columns):
                if wanted not in names:
                    fix = suggest(wanted, names)
                    raise self._bad(f"has no column {wanted}", fix)
            return names
        raise self._bad("has no complete row", "write the names of the columns in the first row")

    def _rows(self) -> Iterator[tuple[int, list[str]]]:
        comment = self._options.comment
        try:
            with self._path.open(newline="", encoding="utf-8-sig") as file:
                reader = csv.reader(_whole(file), delimiter=self._options.delimiter)
                for row in reader:
                    if row and not (comment and row[0].startswith(comment)):
                        yield reader.line_num, row
        except (OSError, UnicodeDecodeError, csv.Error) as error:
            reason = getattr(error, "strerror", None) or error
            raise self._bad(
                f"cannot be read: {reason}", "start the program that logs it before the run"
            ) from None

    def _readings(self, start_ns: int, end_ns: int) -> Iterator[Reading]:
        names = self._columns()
        at = names.index(self._options.time_column)
        wanted = [(f"csv:{name}", names.index(name)) for name in self._options.columns]
        to_ns = time_reader(self._options.time_format)
        shift = self._offset_ns
        if self._options.time_format != "monotonic":
            now = monotonic_ns()
            shift -= wall_at_ns(now) - now
        factor = _MULTIPLES[self._options.unit]
        rows = self._rows()
        next(rows)
        for line, row in rows:
            if len(row) < len(names):
                continue  # incomplete row
            try:
                time_ns = to_ns(row[at]) + shift
                if not start_ns <= time_ns <= end_ns:
                    continue  # values outside the run are not parsed
                values = [(name, row[i].strip()) for name, i in wanted]
                yield from (Reading(n, time_ns, _finite(v) * factor) for n, v in values if v)
            except (ValueError, OverflowError) as error:
                raise self._bad(f"line {line}: {error}", "check columns and time_format") from None

    def _bad(self, what: str, fix: str) -> MeterError:
        return MeterError(self._where, f"{self._path} {what}", fix)


def discover() -> list[Discovered]:
    """Return one entry for ``storlab meters``: the meter works everywhere, with any log."""
    return [
        Discovered(
            kind="csv",
            sensor="csv",
            available=True,
            rate="as logged",
            accuracy="give accuracy_percent and clock_uncertainty",
            privilege="none",
            how='meters = [{ kind = "csv", boundary = "wall", path = "log.csv", time_column = "t", '
            'time_format = "epoch", clock_offset = 0, columns = ["watts"] }]',
        )
    ]


def open_meter(spec: MeterSpec, target: Target) -> CsvMeter:
    """Open the log that a study names.

    Raises:
        StudyError: A field is wrong.
        MeterError: The log or a column does not exist.
    """
    where = f'target "{target.name}": csv meter'
    return CsvMeter(read_options(CsvOptions, spec, target), where)
