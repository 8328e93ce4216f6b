"""Summarise power readings: power and energy of a run for each sensor and power boundary."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

from storlab.base.energy import (
    PowerLine,
    WindowEnergy,
    counter_uncertainty_j,
    energy_uncertainty_j,
    line_of_counter,
    line_of_means,
    line_of_moments,
    line_sum,
    standard_from_limit,
    window_energy,
)
from storlab.base.units import NS_PER_S, format_duration
from storlab.model.power import Boundary, PowerSummary, Reading, SensorInfo
from storlab.model.types import Provenance

LEAST_COVERAGE = 0.95  # share of a window that readings must cover to give an energy
LEAST_READINGS = 2  # fewest readings inside a window that give a power
STALE_READINGS = 10  # number of equal readings in a row that causes a note
STEP_SLACK = 0.01  # tolerance when a counter's step is inferred
LEAST_STEPS = 10  # of a counter; with fewer, power is mostly quantisation

_WEAKER: tuple[Provenance, ...] = ("measured", "emulated", "published", "declared", "modelled")

Stretch = tuple[int, int]
"""Start and end of a time range, in ns of the run's clock."""


@dataclass(frozen=True, slots=True)
class Spans:
    """Measure window of one run, and the idle pauses before and after it (None if missing)."""

    window: Stretch
    idle_before: Stretch | None = None
    idle_after: Stretch | None = None

    @property
    def whole(self) -> Stretch:
        """Return the time from the earliest start to the latest end of window and pauses."""
        every = [span for span in (self.window, self.idle_before, self.idle_after) if span]
        return min(span[0] for span in every), max(span[1] for span in every)


@dataclass(frozen=True, slots=True)
class SensorRun:
    """Readings of one sensor during one run."""

    info: SensorInfo
    readings: list[Reading]
    period_ns: int
    ended: tuple[int, str] | None = None  # time and reason if the sensor stopped
    idle_w: float | None = None  # declared idle power


@dataclass(frozen=True, slots=True)
class BoundaryPower:
    """Power of a target at one power boundary, from one sensor or a sum of several."""

    boundary: Boundary
    sensors: tuple[str, ...]
    provenance: Provenance
    energy_j: float
    energy_uncertainty_j: float | None
    duration_s: float
    mean_w: float
    p95_w: float | None  # None if a counter's steps are too coarse
    peak_w: float | None
    idle_w: float | None  # mean of the idle pauses before and after the run
    idle_uncertainty_w: float | None = None  # standard uncertainty; None if no accuracy is stated


def power_line(
    info: SensorInfo, readings: Sequence[Reading], period_ns: int | None = None
) -> PowerLine:
    """Return a sensor's power over time, scaled by the target's share of it.

    Args:
        info: Description of the sensor.
        readings: Readings in time order without duplicates, as :func:`distinct` returns them.
        period_ns: Intended time between readings, if known.

    Raises:
        ValueError: There are too few readings, or they are malformed.
    """
    if info.sampling == "counter":
        readings = _apart(readings)
    times = [reading.time_ns for reading in readings]
    values = [reading.value for reading in readings]
    if info.sampling == "counter":
        line = line_of_counter(times, values, info.counter_max, info.quantum or 0.0)
    elif info.sampling == "interval_mean":
        line = line_of_means(times, values, info.sensor_interval_ns, period_ns)
    else:
        line = line_of_moments(times, values, period_ns)
    return line.scaled(info.share)


def distinct(readings: Sequence[Reading]) -> list[Reading]:
    """Return readings in time order, without those with the same time or sensor time stamp."""
    by_time = {reading.time_ns: reading for reading in readings}
    kept: list[Reading] = []
    for _, reading in sorted(by_time.items()):
        if (
            kept
            and reading.sensor_time is not None
            and (reading.sensor_time, reading.value) == (kept[-1].sensor_time, kept[-1].value)
        ):
            continue
        kept.append(reading)
    return kept


def _apart(readings: Sequence[Reading]) -> list[Reading]:
    """Drop readings of an energy counter that follow another one too closely.

    The power between two close readings would mostly be the counter's quantisation. No energy is
    lost by dropping them, because the counter accumulates.
    """
    if len(readings) <= 2:
        return list(readings)
    spacings = sorted(b.time_ns - a.time_ns for a, b in pairwise(readings))
    least_ns = spacings[len(spacings) // 2] / 2
    kept = [readings[0]]
    for reading in readings[1:-1]:
        if reading.time_ns - kept[-1].time_ns >= least_ns:
            kept.append(reading)
    last = readings[-1]
    if len(kept) > 1 and last.time_ns - kept[-1].time_ns < least_ns:
        kept.pop()
    return [*kept, last]


def summarise(run: SensorRun, spans: Spans) -> tuple[PowerSummary, PowerLine | None]:
    """Summarise a sensor's readings over the measure window and the idle pauses.

    Returns:
        The summary, and the power over time; the latter is None if energy could not be measured.
    """
    start, end = spans.window
    readings = distinct(run.readings)
    inside = [r for r in readings if start <= r.time_ns <= end]
    notes = _stale_notes(run, spans.window)
    line, why = _line(run, readings, inside, end)
    taken = window_energy(line, start, end) if line is not None else None
    if not why and taken is not None and taken.coverage < LEAST_COVERAGE:
        why = f"readings span only {100 * taken.coverage:.0f} % of the window"
    if why:
        notes.append(f"not measured: {why}")
    measured = None if why else taken
    coarse = measured is not None and _is_coarse(run.info, inside, measured, (start, end))
    idles = [_idle(line, readings, span, run) for span in (spans.idle_before, spans.idle_after)]
    before, after = (idle.watts for idle in idles)
    summary = PowerSummary(
        info=run.info,
        readings=len(inside),
        energy_j=measured.energy_j if measured else None,
        energy_uncertainty_j=(
            stated_uncertainty_j(run.info, measured, inside, spans.window, [before, after])
            if measured
            else None
        ),
        mean_w=measured.mean_w if measured else None,
        p95_w=measured.p95_w if measured and not coarse else None,
        peak_w=measured.peak_w if measured and not coarse else None,
        idle_before_w=before,
        idle_after_w=after,
        idle_step_w=max(idle.step_w for idle in idles),
        coverage=taken.coverage if taken else 0.0,
        notes=notes,
    )
    return summary, None if why else line


def _line(
    run: SensorRun, readings: list[Reading], inside: list[Reading], end_ns: int
) -> tuple[PowerLine | None, str]:
    why = ""
    if run.ended is not None and run.ended[0] < end_ns:
        why = f"the sensor stopped answering: {run.ended[1]}"
    elif len(inside) < LEAST_READINGS:
        why = (
            f"{len(inside)} readings inside the window, but {LEAST_READINGS} are needed: make "
            "runtime longer, or rate_hz higher"
        )
    elif run.info.sampling == "counter" and len({reading.value for reading in inside}) == 1:
        why = "the counter did not change"
    try:
        line = power_line(run.info, readings, run.period_ns)
    except ValueError as error:
        return None, why or str(error)
    return line, why


def _stale_notes(run: SensorRun, window: Stretch) -> list[str]:
    """Return a note if many readings in a row are equal, because the sensor may hang."""
    if run.info.provenance == "declared":
        return []
    longest, current, since = 0, 1, 0
    inside = [r for r in run.readings if window[0] <= r.time_ns <= window[1]]
    stretch_ns = 0
    for index in range(1, len(inside)):
        before, other = inside[index - 1], inside[index]
        same = (before.value, before.sensor_time) == (other.value, other.sensor_time)
        current, since = (current + 1, since) if same else (1, index)
        if current > longest:
            longest, stretch_ns = current, other.time_ns - inside[since].time_ns
    if longest <= STALE_READINGS or (
        inside[0].sensor_time is None and 2 * stretch_ns < window[1] - window[0]
    ):
        return []
    return [
        f"{longest} readings in a row, over {format_duration(stretch_ns)}, were the same: the "
        "sensor may be stale"
    ]


@dataclass(frozen=True, slots=True)
class _Idle:
    """Mean power over an idle pause; ``step_w`` is a counter's step / length of the pause."""

    watts: float | None = None
    step_w: float = 0.0


def _idle(
    line: PowerLine | None, readings: list[Reading], span: Stretch | None, run: SensorRun
) -> _Idle:
    """Return a sensor's mean power over an idle pause.

    Readings within one averaging interval of the sensor after the load are skipped, because they
    still contain power of the load.
    """
    if run.idle_w is not None:
        return _Idle(run.idle_w * run.info.share)
    if line is None or span is None:
        return _Idle()
    settled = span[0] + (run.info.sensor_interval_ns or 0)
    within = [r for r in readings if settled <= r.time_ns <= span[1]]
    if len(within) < LEAST_READINGS:
        return _Idle()
    # Integrate from the first to the last reading, not to the pause's edges, where power would be
    # interpolated between pause and load.
    stretch = within[0].time_ns, within[-1].time_ns
    taken = window_energy(line, *stretch)
    step_j = _step_j(run.info, within)
    if taken.coverage < LEAST_COVERAGE or taken.energy_j < LEAST_STEPS * step_j:
        return _Idle()
    return _Idle(taken.mean_w, step_j * NS_PER_S / (stretch[1] - stretch[0]))


def _step_j(info: SensorInfo, readings: Sequence[Reading]) -> float:
    """Return the smallest step of an energy counter in J, times the target's share; 0 if unknown.

    If the sensor does not state its step, it is inferred: some readings must be equal, and all
    changes must be multiples of the smallest one, which is then the step.
    """
    if info.sampling != "counter" or info.provenance == "declared":
        return 0.0
    if info.quantum is not None:
        return info.quantum * info.share
    moves = [after.value - before.value for before, after in pairwise(readings)]
    if 0 not in moves:
        return 0.0  # no two readings are equal, so no step can be inferred
    step = min((move for move in moves if move > 0), default=math.inf)
    whole = all(abs(move / step - round(move / step)) <= STEP_SLACK for move in moves)
    return step * info.share if whole else 0.0


def _is_coarse(
    info: SensorInfo, inside: Sequence[Reading], taken: WindowEnergy, window: Stretch
) -> bool:
    """Return whether an energy counter changes by too few steps per reading to show peak power."""
    if not inside:
        return False
    read_ns = (inside[-1].time_ns - inside[0].time_ns) / max(1, len(inside) - 1)
    moved_j = taken.energy_j * read_ns / (window[1] - window[0])
    return moved_j < LEAST_STEPS * _step_j(info, inside)


def stated_uncertainty_j(
    info: SensorInfo,
    taken: WindowEnergy,
    inside: Sequence[Reading],
    window: Stretch,
    idle_w: Sequence[float | None],
    edge_ns: float = 0.0,
) -> float | None:
    """Return the standard uncertainty in J of the energy that a sensor measured over a window.

    Args:
        info: Description of the sensor.
        taken: Energy over the window.
        inside: Readings in the window.
        window: Start and end of the window in ns.
        idle_w: Idle power before and after the window in W; None if unknown.
        edge_ns: Uncertainty of the window's edges in addition to that of the clocks.

    Returns:
        The uncertainty; None if the sensor's accuracy is not stated.
    """
    if info.gain_accuracy is None and info.offset_accuracy_w is None:
        return None
    idle = [power for power in idle_w if power is not None]
    # Step of power at the window's edges; a step from 0 is assumed if idle power is unknown.
    step_w = taken.mean_w - min(idle) if idle else taken.mean_w
    sync_ns = info.clock_uncertainty_ns + edge_ns
    spacings = [b.time_ns - a.time_ns for a, b in pairwise(inside)]
    interval_ns = info.sensor_interval_ns or 0
    if info.sampling == "interval_mean" and spacings and interval_ns > max(spacings):
        sync_ns += interval_ns / 2  # a rolling mean lags by up to half its interval
    duration_s = (window[1] - window[0]) / NS_PER_S
    gain = standard_from_limit(info.gain_accuracy or 0.0)
    offset_w = standard_from_limit(info.offset_accuracy_w or 0.0) * info.share
    quantum = (info.quantum or 0.0) * info.share
    sync_s = standard_from_limit(sync_ns / NS_PER_S)
    if info.sampling == "counter":
        return counter_uncertainty_j(
            taken.energy_j,
            duration_s,
            gain=gain,
            offset_w=offset_w,
            quantum_j=quantum,
            step_w=step_w,
            sync_s=sync_s,
        )
    return energy_uncertainty_j(
        taken.energy_j,
        duration_s,
        gain=gain,
        offset_w=offset_w,
        quantum_w=quantum,
        spacings_s=[spacing / NS_PER_S for spacing in spacings],
        step_w=step_w,
        sync_s=sync_s,
    )


def parts_at(summaries: Sequence[PowerSummary], boundary: Boundary) -> list[PowerSummary]:
    """Return the summaries of the sensors whose sum is the power at a power boundary."""
    parts = {info.sensor for info in parts_of([s.info for s in summaries], boundary)}
    return [summary for summary in summaries if summary.info.sensor in parts]


def parts_of(sensors: Sequence[SensorInfo], boundary: Boundary) -> list[SensorInfo]:
    """Return the sensors whose sum is the power at a power boundary.

    These are the first sensor at the boundary, and all others of its group (``whole``), such as the
    outlets of one machine. Further sensors measure the same power in another way, so they are not
    added.
    """
    at = [info for info in sensors if info.boundary == boundary]
    if not at or not at[0].whole:
        return at[:1]
    return [info for info in at if info.whole == at[0].whole]


def boundary_power(
    summaries: Sequence[PowerSummary], lines: Mapping[str, PowerLine], window: Stretch
) -> list[BoundaryPower]:
    """Return the power at each power boundary, in the order of the study.

    A boundary is left out if one of the sensors that are added up was not measured.
    """
    powers = []
    for boundary in dict.fromkeys(summary.info.boundary for summary in summaries):
        parts = parts_at(summaries, boundary)
        total = _total(parts, [lines.get(part.info.sensor) for part in parts], window)
        if total is not None:
            powers.append(total)
    return powers


def _total(
    parts: Sequence[PowerSummary], lines: Sequence[PowerLine | None], window: Stretch
) -> BoundaryPower | None:
    known = [line for line in lines if line is not None]
    if len(known) < len(parts):
        return None
    try:
        taken = window_energy(line_sum(known) if len(known) > 1 else known[0], *window)
    except ValueError:
        return None  # the sensors' readings do not overlap in time
    if not taken.energy_j > 0 or taken.coverage < LEAST_COVERAGE:
        # Each sensor alone may cover enough, but the time that all cover at once is too short.
        return None
    # Uncertainties are added, because errors of sensors of one make may have the same sign.
    uncertainties = [part.energy_uncertainty_j for part in parts]
    stated = [u for u in uncertainties if u is not None]
    coarse = any(part.peak_w is None for part in parts)
    return BoundaryPower(
        boundary=parts[0].info.boundary,
        sensors=tuple(part.info.sensor for part in parts),
        provenance=weakest_provenance(part.info.provenance for part in parts),
        energy_j=taken.energy_j,
        energy_uncertainty_j=math.fsum(stated) if len(stated) == len(parts) else None,
        duration_s=(window[1] - window[0]) / NS_PER_S,
        mean_w=taken.mean_w,
        p95_w=None if coarse else taken.p95_w,
        peak_w=None if coarse else taken.peak_w,
        idle_w=_whole_idle_w(parts),
        idle_uncertainty_w=idle_uncertainty_w(parts),
    )


def weakest_provenance(parts: Iterable[Provenance]) -> Provenance:
    """Return the provenance of a sum: the weakest of its parts, such as declared below measured."""
    return max(parts, key=_WEAKER.index)


def _whole_idle_w(parts: Sequence[PowerSummary]) -> float | None:
    """Return the mean idle power before and after a run, summed over sensors; None if unknown."""
    watts = []
    for name in ("idle_before_w", "idle_after_w"):
        values = [getattr(part, name) for part in parts]
        if all(value is not None for value in values):
            watts.append(math.fsum(values))
    return math.fsum(watts) / len(watts) if watts else None


def idle_uncertainty_w(parts: Sequence[PowerSummary]) -> float | None:
    """Return the standard uncertainty in W of the idle power summed over several sensors.

    Each sensor contributes its gain and offset error, the difference of idle power before and after
    the run, and the quantisation of an energy counter at both ends of the pause. The uncertainties
    of the sensors are added, as for energies.

    Returns:
        The uncertainty; None if a sensor has no stated accuracy or no idle power.
    """
    uncertainties = []
    for part in parts:
        info = part.info
        idle = [w for w in (part.idle_before_w, part.idle_after_w) if w is not None]
        if not idle or (info.gain_accuracy is None and info.offset_accuracy_w is None):
            return None
        gain = standard_from_limit(info.gain_accuracy or 0.0) * math.fsum(idle) / len(idle)
        offset = standard_from_limit(info.offset_accuracy_w or 0.0) * info.share
        drift = (max(idle) - min(idle)) / math.sqrt(12)
        steps = math.sqrt(2 / 12) * part.idle_step_w
        uncertainties.append(math.hypot(gain, offset, drift, steps))
    return math.fsum(uncertainties) if uncertainties else None
