"""Open the power meters of a campaign, read them, and summarise the power of every run.

All meters are read all the time, even while another target is loaded, because the idle pause before
a run is also the pause after the previous run.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pyarrow as pa

from storlab.base.clock import monotonic_ns
from storlab.base.energy import PowerLine, line_sum, window_energy
from storlab.base.errors import MeterError, StorlabError, StudyError
from storlab.base.units import NS_PER_S
from storlab.contracts.meter import Meter
from storlab.contracts.registry import get_meter
from storlab.model.power import Boundary, PowerSummary, Reading, SensorInfo, SpanPower
from storlab.model.result import RunOutcome, RunRecord
from storlab.model.study import MeterSpec, Target
from storlab.power.meter_thread import MeterThread
from storlab.power.spans import span_power
from storlab.power.summary import (
    BoundaryPower,
    SensorRun,
    Spans,
    Stretch,
    boundary_power,
    distinct,
    parts_at,
    parts_of,
    power_line,
    summarise,
)
from storlab.stores.reachability import Absence

_DEFAULT_RATE_HZ = 1.0


@dataclass(frozen=True, slots=True)
class MeteredRun:
    """Power and energy of one run."""

    summaries: list[PowerSummary] = field(default_factory=list)
    totals: list[BoundaryPower] = field(default_factory=list)
    readings: list[Reading] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    # power boundary of each sensor, in the order of the study
    boundaries: list[Boundary] = field(default_factory=list)
    spans: list[SpanPower] = field(default_factory=list)


def headline_boundary(target: Target, boundaries: Sequence[Boundary]) -> Boundary | None:
    """Return the power boundary (device, host, ...) whose power is reported for a target.

    It is the target's ``power_boundary``, or else the boundary of all its sensors. The result is
    None if there are no sensors, or several boundaries of which the study chooses none.
    """
    known = list(dict.fromkeys(boundaries))
    if known and target.power_boundary is not None:
        return target.power_boundary
    return known[0] if len(known) == 1 else None


def open_thread(spec: MeterSpec, target: Target, base: Path) -> MeterThread:
    """Create the thread that will read a meter of a study; it does not open the meter yet.

    Args:
        spec: Table of the meter in the study.
        target: Target to which the meter belongs.
        base: Directory to which a relative ``path`` of the meter refers.

    Raises:
        StudyError: The kind of the meter is unknown.
    """
    module = get_meter(spec.kind)
    given = _with_place(spec, base)
    rate = (spec.model_extra or {}).get("rate_hz", _DEFAULT_RATE_HZ)
    usable = isinstance(rate, (int, float)) and not isinstance(rate, bool) and rate > 0

    def opener() -> Meter:
        return module.open_meter(given, target)

    name = f"{target.name}: {spec.kind}"
    return MeterThread(name, opener, rate if usable else _DEFAULT_RATE_HZ)


def _with_place(spec: MeterSpec, base: Path) -> MeterSpec:
    """Make a meter's relative ``path`` absolute, since a resumed campaign may start elsewhere."""
    path = (spec.model_extra or {}).get("path")
    if not isinstance(path, str) or Path(path).is_absolute():
        return spec
    return MeterSpec.model_validate({**spec.model_dump(), "path": str(base / path)})


@dataclass(slots=True)
class _Metered:
    """One meter of one target, with the names of its sensors in the result."""

    spec: MeterSpec
    thread: MeterThread
    names: dict[str, str] = field(default_factory=dict)
    infos: list[SensorInfo] = field(default_factory=list)  # descriptions when the meter was opened


class Metering:
    """Context manager that opens all meters of a campaign, and closes them at the end.

    Entering raises MeterError if a meter cannot be opened, and StudyError if the table of a meter
    or a power boundary is invalid.
    """

    def __init__(self, targets: Sequence[Target], base: Path) -> None:
        self._targets = [target for target in targets if target.meters]
        self._base = base
        self._meters: dict[str, list[_Metered]] = {}
        self._idle_start_ns = monotonic_ns()
        self._idle_before: Stretch | None = None

    def __enter__(self) -> Metering:
        try:
            for target in self._targets:
                self._meters[target.name] = []
                for spec in target.meters:
                    self._meters[target.name].append(self._open(target, spec))
                check_boundaries(target, self.boundaries(target))
        except StorlabError:
            self.close()
            raise
        self.idle_begins()
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close all meters."""
        for meters in self._meters.values():
            for meter in meters:
                meter.thread.close()
        self._meters = {}

    def boundaries(self, target: Target) -> list[Boundary]:
        """Return the power boundary of each sensor of a target, in the order of the study."""
        meters = self._meters.get(target.name, [])
        return [info.boundary for meter in meters for info in meter.infos]

    def reads(self, target: Target) -> bool:
        """Return whether a target has meters."""
        return bool(self._meters.get(target.name))

    @property
    def any(self) -> bool:
        """Return whether any target of the campaign has meters."""
        return bool(self._meters)

    def power_now(self, target: Target) -> tuple[Boundary, float] | None:
        """Return a target's present power in W, with its boundary; callable from any thread.

        Sensors that measure parts, such as several drives, are added up. The result is None if the
        target has no meter, or a sensor has no recent reading.
        """
        meters = self._meters.get(target.name, [])
        sensors = [
            (info.model_copy(update={"sensor": meter.names[info.sensor]}), info.sensor, meter)
            for meter in meters
            for info in meter.infos
        ]
        boundary = headline_boundary(target, [info.boundary for info, _, _ in sensors])
        if boundary is None:
            return None
        parts = {part.sensor for part in parts_of([info for info, _, _ in sensors], boundary)}
        watts = [
            _watts_now(info, meter.thread.last(own, _lately(info, meter.thread)))
            for info, own, meter in sensors
            if info.sensor in parts
        ]
        known = [reading for reading in watts if reading is not None]
        return (boundary, math.fsum(known)) if known and len(known) == len(watts) else None

    def idle_begins(self) -> None:
        """Mark the start of an idle pause: from now on no target is loaded."""
        self._idle_start_ns = monotonic_ns()

    def absences(self, target: Target) -> list[Absence]:
        """Reopen a target's meters that have stopped; return those that still do not answer."""
        found = [self._revive(meter) for meter in self._meters.get(target.name, [])]
        return [absence for absence in found if absence is not None]

    def load_begins(self) -> None:
        """Mark the start of a run, which ends the idle pause that began at ``idle_begins``."""
        now = monotonic_ns()
        self._idle_before = (self._idle_start_ns, now)
        for meters in self._meters.values():
            for meter in meters:  # no later run needs readings from before this pause
                meter.thread.take(self._idle_start_ns - 2 * meter.thread.period_ns)

    def finish(self, target: Target, outcome: RunOutcome) -> MeteredRun:
        """Summarise the power of a run; must be called after the idle pause that follows the run.

        :meth:`idle_begins` must be called at the start of that pause. Errors of meters become notes
        of the run instead of exceptions, because the run itself is valid.
        """
        meters = self._meters.get(target.name, [])
        if not meters:
            return MeteredRun()
        for meter in meters:
            with suppress(MeterError):  # a hanging meter has too few readings, which is noted
                meter.thread.read_now()
        window = (outcome.window_start_ns, outcome.window_end_ns)
        after = (max(self._idle_start_ns, window[1]), monotonic_ns())
        spans = Spans(window=window, idle_before=self._idle_before, idle_after=after)
        runs: list[SensorRun] = []
        notes: list[str] = []
        for meter in meters:
            runs += _sensor_runs(meter, spans, outcome, notes)
        if outcome.status != "finished" or window[1] <= window[0]:
            boundaries = [run.info.boundary for run in runs]
            return MeteredRun(readings=_readings(runs), notes=notes, boundaries=boundaries)
        stretches = [(span.start_ns, span.end_ns) for span in outcome.spans]
        return _sum_up(runs, spans, notes, stretches)

    def _open(self, target: Target, spec: MeterSpec) -> _Metered:
        thread = open_thread(spec, target, self._base)
        meter = _Metered(spec, thread, infos=thread.open())
        taken = {name for other in self._meters[target.name] for name in other.names.values()}
        for info in meter.infos:
            meter.names[info.sensor] = _free_name(info.sensor, taken)
        return meter

    def _revive(self, meter: _Metered) -> Absence | None:
        ended = meter.thread.ended
        if ended is None:
            return None
        target = next(t for t in self._targets if meter in self._meters[t.name])
        meter.thread.close()
        thread = open_thread(meter.spec, target, self._base)
        try:
            thread.open()
        except StorlabError as error:
            return Absence(thread.name, error.what)
        meter.thread = thread
        return None


def _lately(info: SensorInfo, thread: MeterThread) -> int:
    """Return the time in ns from which on a reading counts as recent: a few periods ago."""
    return monotonic_ns() - max(5 * NS_PER_S, 3 * thread.period_ns, info.sensor_interval_ns or 0)


def _watts_now(info: SensorInfo, readings: Sequence[Reading]) -> float | None:
    """Return a sensor's present power in W, scaled by its share.

    It is the last reading, or for an energy counter the mean over all given readings. The result
    is None if there are too few readings.
    """
    if not readings:
        return None
    if info.sampling != "counter":
        return readings[-1].value * info.share
    try:
        line = power_line(info, distinct(readings))
    except ValueError:  # a single reading, or a counter that was reset
        return None
    return window_energy(line, line.start_ns, line.end_ns).mean_w


def _free_name(name: str, taken: set[str]) -> str:
    number, free = 1, name
    while free in taken:
        number += 1
        free = f"{name}#{number}"
    taken.add(free)
    return free


def _sensor_runs(
    meter: _Metered, spans: Spans, outcome: RunOutcome, notes: list[str]
) -> list[SensorRun]:
    thread = meter.thread
    ended = None if thread.ended is None else (thread.ended.time_ns, thread.ended.why)
    infos, idle_w, late = meter.infos, None, []
    try:
        infos = thread.describe()
        idle_w = thread.idle_w()
        late = thread.after_run(outcome)
        notes += thread.notes()
    except StorlabError as error:
        ended = ended or (spans.window[0], error.what)
    first, last = spans.whole
    margin = 2 * thread.period_ns
    readings = [
        Reading(meter.names.get(r.sensor, r.sensor), r.time_ns, r.value, r.sensor_time)
        for r in (*thread.take(first - margin), *late)
        if first - margin <= r.time_ns <= last + margin
    ]
    period_ns = thread.period_ns if thread.is_periodic else 0
    runs = []
    for info in infos:
        name = meter.names.get(info.sensor, info.sensor)
        own = [reading for reading in readings if reading.sensor == name]
        renamed = info.model_copy(update={"sensor": name})
        runs.append(SensorRun(renamed, own, period_ns, ended, idle_w))
    return runs


def _sum_up(
    runs: Sequence[SensorRun], spans: Spans, notes: list[str], stretches: Sequence[Stretch]
) -> MeteredRun:
    summaries: list[PowerSummary] = []
    lines: dict[str, PowerLine] = {}
    for run in runs:
        summary, line = summarise(run, spans)
        summaries.append(summary)
        notes += [f"{run.info.sensor}: {note}" for note in summary.notes]
        if line is not None:
            lines[run.info.sensor] = line
    totals = boundary_power(summaries, lines, spans.window)
    boundaries = [summary.info.boundary for summary in summaries]
    of_spans = span_power(runs, summaries, lines, stretches)
    return MeteredRun(summaries, totals, _readings(runs), notes, boundaries, of_spans)


def _readings(runs: Sequence[SensorRun]) -> list[Reading]:
    return [reading for run in runs for reading in run.readings]


def power_over_time(
    record: RunRecord, readings: pa.Table, boundary: Boundary | None = None
) -> tuple[list[int], list[float]]:
    """Return the power of a run over time, as the sum of the sensors at one power boundary.

    Args:
        record: Record of the run.
        readings: The run's ``power.parquet``.
        boundary: Power boundary; None for the one whose power is reported for the target.

    Returns:
        Times in ns on the run's clock, and power in W. For instantaneous sensors, power is that at
        each time; for counters and interval means, that from each time to the next. Both lists are
        empty if a sensor has too few readings.
    """
    wanted = boundary or record.power_boundary
    parts = [] if wanted is None else parts_at(record.power, wanted)
    own = _by_sensor(readings)
    try:
        lines = [power_line(part.info, own.get(part.info.sensor, [])) for part in parts]
    except ValueError:
        return [], []
    if not lines:
        return [], []
    try:
        total = line_sum(lines) if len(lines) > 1 else lines[0]
    except ValueError:
        return [], []
    keep = np.concatenate((np.diff(total.times_ns) > 0, [True]))
    return total.times_ns[keep].tolist(), total.watts[keep].tolist()


def power_gaps(record: RunRecord, readings: pa.Table) -> list[tuple[int, int]]:
    """Return the parts of the measure window in which readings of a sensor are missing.

    Start and end are in ns of the run's clock. If a sensor has too few readings, the result is the
    whole window.
    """
    own = _by_sensor(readings)
    gaps = []
    for part in record.power:
        try:
            line = power_line(part.info, own.get(part.info.sensor, []))
        except ValueError:
            return [(record.window_start_ns, record.window_end_ns)]
        before, after = (record.window_start_ns, line.start_ns), (line.end_ns, record.window_end_ns)
        gaps += [(start, end) for start, end in (before, *line.gaps, after) if start < end]
    return gaps


def _by_sensor(readings: pa.Table) -> dict[str, list[Reading]]:
    """Return the readings by sensor in time order; if several have the same time, the last one."""
    by_sensor: dict[str, dict[int, Reading]] = {}
    for row in readings.to_pylist():
        own = by_sensor.setdefault(row["sensor"], {})
        own[row["time_ns"]] = Reading(row["sensor"], row["time_ns"], row["value"])
    return {sensor: [own[time] for time in sorted(own)] for sensor, own in by_sensor.items()}


def check_boundaries(target: Target, boundaries: Sequence[Boundary]) -> None:
    """Check that the power boundary whose power is reported for a target is unambiguous.

    Raises:
        StudyError: The meters measure at several boundaries and the study chooses none, or no meter
            measures at the chosen one.
    """
    known = list(dict.fromkeys(boundaries))
    if target.power_boundary is None and len(known) > 1:
        raise StudyError(
            f'target "{target.name}": power_boundary',
            f"the meters of this target measure at {len(known)} boundaries: {', '.join(known)}",
            f'choose the one to report: power_boundary = "{known[0]}"',
        )
    if known and target.power_boundary is not None and target.power_boundary not in known:
        raise StudyError(
            f'target "{target.name}": power_boundary',
            f"no meter of this target measures at the boundary {target.power_boundary}",
            f'set power_boundary = "{known[0]}", or correct the boundary of the meter',
        )
