"""Energy from power readings and from energy counters: pure functions on arrays.

Times are ascending integers of ns on one clock; power is in W, energy in J. The formulas and
their sources are in ``docs/method/README.md``.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from storlab.base.units import J_PER_WH, MB, NS_PER_S, TB_KWH_PER_MB_J

GAP_PERIODS = 4
LEAST_GAP_NS = NS_PER_S
"""Gap criterion: a spacing above this multiple of the usual one and above 1 s is a gap."""

WRAP_RATE = 100
"""Limit for the power implied by a counter wrap, as a multiple of the highest other power."""

Floats = NDArray[np.float64]
Times = NDArray[np.int64]


def tb_per_kwh(mb_per_j: float) -> float:
    """Convert MB/J (= MB/s/W) to TB/kWh."""
    return TB_KWH_PER_MB_J * mb_per_j


def mb_per_joule(moved_bytes: float, energy_j: float) -> float:
    """Return MB/J, which equals MB/s per W. Raises ValueError unless energy is positive."""
    if not energy_j > 0:
        raise ValueError(f"{energy_j} J is not above 0, so nothing can be divided by it")
    return moved_bytes / MB / energy_j


def wh_from_j(energy_j: float) -> float:
    """Convert J to Wh."""
    return energy_j / J_PER_WH


def unwrap_counter(values: Sequence[float], counter_max: float | None, step: float) -> Floats:
    """Return a wrapping counter as a monotonic one with the same differences.

    After ``counter_max``, the counter continues at 0 after one ``step`` (its resolution), so
    differences are taken modulo ``counter_max + step``. Readings must be more frequent than wraps.

    Args:
        values: The readings in order of time.
        counter_max: The largest value, or None if the counter never wraps.
        step: The resolution of the counter.

    Raises:
        ValueError: A counter without a maximum decreases: it was reset, and energy is lost.
    """
    raw = np.asarray(values, dtype=np.float64)
    if raw.size < 2:
        return np.array(raw)
    differences = np.diff(raw)
    if counter_max is not None:
        differences = np.where(differences < 0, differences + counter_max + step, differences)
    if np.any(differences < 0):
        raise ValueError("the counter decreased, but it has no maximum at which it could wrap")
    return np.asarray(raw[0] + np.concatenate(([0.0], np.cumsum(differences))), dtype=np.float64)


@dataclass(frozen=True, slots=True)
class PowerLine:
    """Power over time as a piecewise linear function; a jump is two points at the same time.

    ``times_ns`` never decreases. ``gaps`` are intervals ``[from, to)`` that no reading covers.
    """

    times_ns: Times
    watts: Floats
    gaps: tuple[tuple[int, int], ...] = ()

    @property
    def start_ns(self) -> int:
        """Time of the first point."""
        return int(self.times_ns[0])

    @property
    def end_ns(self) -> int:
        """Time of the last point."""
        return int(self.times_ns[-1])

    def scaled(self, factor: float) -> PowerLine:
        """Return the function with every power multiplied by ``factor``."""
        return PowerLine(self.times_ns, self.watts * factor, self.gaps)


def line_of_moments(
    times_ns: Sequence[int], watts: Sequence[float], period_ns: int | None = None
) -> PowerLine:
    """Build a power line from instantaneous readings, interpolated linearly.

    Args:
        times_ns: The times of the readings.
        watts: The readings.
        period_ns: The intended interval between readings, for the detection of gaps.

    Raises:
        ValueError: There are fewer than two readings, or they are malformed.
    """
    times, values = _checked(times_ns, watts)
    return PowerLine(times, values, _gaps(times, period_ns))


def line_of_means(
    times_ns: Sequence[int],
    watts: Sequence[float],
    interval_ns: int | None,
    period_ns: int | None = None,
) -> PowerLine:
    """Build a power line from means over the sensor's interval, stamped at its end.

    A mean is valid for its interval, but not before the preceding reading. Power between two
    intervals is interpolated.

    Args:
        times_ns: The times of the readings.
        watts: The readings.
        interval_ns: The averaging interval; None for all the time since the preceding reading.
        period_ns: The intended interval between readings, for the detection of gaps.

    Raises:
        ValueError: There are fewer than two readings, or they are malformed.
    """
    times, values = _checked(times_ns, watts)
    before = np.concatenate(([times[0]], times[:-1]))
    starts = before if interval_ns is None else np.maximum(times - interval_ns, before)
    if interval_ns is not None:
        starts[0] = times[0] - interval_ns
    corners = np.stack((starts, times), axis=1).reshape(-1)
    heights = np.repeat(values, 2)
    if interval_ns is None:  # the first reading only marks where the second one's interval begins
        corners, heights = corners[2:], heights[2:]
    return PowerLine(corners, heights, _gaps(times, period_ns))


def line_of_counter(
    times_ns: Sequence[int], energy_j: Sequence[float], counter_max: float | None, step: float
) -> PowerLine:
    """Build a power line from an energy counter, with constant power between two readings.

    A pause between readings loses no energy unless the counter may have wrapped more than once.

    Args:
        times_ns: The times of the readings.
        energy_j: The readings.
        counter_max: The largest value, or None if the counter never wraps.
        step: The resolution of the counter.

    Raises:
        ValueError: There are fewer than two readings, they are malformed, or the counter was reset.
    """
    times, given = _checked(times_ns, energy_j)
    counted = unwrap_counter(energy_j, counter_max, step)
    spacing = np.diff(times)
    watts = np.diff(counted) * NS_PER_S / spacing
    _check_wraps(watts, spacing, np.diff(given) < 0, step)
    corners = np.stack((times[:-1], times[1:]), axis=1).reshape(-1)
    gaps: tuple[tuple[int, int], ...] = ()
    if counter_max is not None:
        could_count = float(np.median(watts)) * spacing / NS_PER_S
        wide = np.flatnonzero(could_count > counter_max)
        gaps = tuple((int(times[i]), int(times[i + 1])) for i in wide)
    return PowerLine(corners, np.repeat(watts, 2), gaps)


def _check_wraps(watts: Floats, spacing: Times, wrapped: NDArray[np.bool_], step: float) -> None:
    """Raise ValueError if a decrease of the counter is a reset rather than a wrap.

    A restarted device also starts its counter at 0. The counter is then usually far from its
    maximum, so a wrap would imply much more power than the other readings. If all readings are
    wraps, this cannot be decided.
    """
    if not wrapped.any() or wrapped.all():
        return
    usual = max(float(watts[~wrapped].max()), step * NS_PER_S / float(spacing.min()))
    if float(watts[wrapped].max()) > WRAP_RATE * usual:
        raise ValueError("the counter decreased by more than a wrap explains: it was reset")


def _checked(times_ns: Sequence[int], values: Sequence[float]) -> tuple[Times, Floats]:
    times = np.asarray(times_ns, dtype=np.int64)
    given = np.asarray(values, dtype=np.float64)
    if times.shape != given.shape:
        raise ValueError(f"{times.size} times for {given.size} values")
    if times.size < 2:
        raise ValueError("at least two readings are needed")
    if np.any(np.diff(times) <= 0):
        raise ValueError("the times are not in ascending order")
    if not np.all(np.isfinite(given)):
        raise ValueError("a reading is not a finite number")
    return times, given


def _gaps(times: Times, period_ns: int | None) -> tuple[tuple[int, int], ...]:
    spacing = np.diff(times)
    usual = max(float(np.median(spacing)), float(period_ns or 0))
    wide = np.flatnonzero(spacing > max(GAP_PERIODS * usual, LEAST_GAP_NS))
    return tuple((int(times[i]), int(times[i + 1])) for i in wide)


def line_sum(lines: Sequence[PowerLine]) -> PowerLine:
    """Return the sum of power lines over the time that all of them cover.

    A gap in one line is a gap in the sum.

    Raises:
        ValueError: There is no line, or the power series do not overlap in time.
    """
    if not lines:
        raise ValueError("there are no power series to add up")
    start = max(line.start_ns for line in lines)
    end = min(line.end_ns for line in lines)
    if end <= start:
        raise ValueError("the power series do not overlap in time")
    cut = [_cut(line, start, end) for line in lines]
    moments = np.unique(np.concatenate([line.times_ns for line in cut]))
    left = sum(_side(line, moments, "left") for line in cut)
    right = sum(_side(line, moments, "right") for line in cut)
    times = np.repeat(moments, 2)
    watts = np.stack((np.asarray(left), np.asarray(right)), axis=1).reshape(-1)
    gaps = sorted({gap for line in lines for gap in line.gaps})
    return PowerLine(times[1:-1], watts[1:-1], tuple(gaps))


def _side(line: PowerLine, moments: Times, side: Any) -> Floats:
    """Return the line's left or right limit at each time; they differ at jumps."""
    times, watts = line.times_ns, line.watts
    at = np.searchsorted(times, moments, side=side)
    low = np.clip(at - 1, 0, times.size - 1)
    high = np.clip(at, 0, times.size - 1)
    span = times[high] - times[low]
    part = np.divide(moments - times[low], span, out=np.zeros(moments.size), where=span > 0)
    # At a point itself, "left" treats it as the end of a segment, "right" as the beginning of the
    # next.
    return np.asarray(watts[low] + (watts[high] - watts[low]) * part, dtype=np.float64)


def _cut(line: PowerLine, start_ns: int, end_ns: int) -> PowerLine:
    """Return the line between two times; edges are interpolated, or held if the line is shorter."""
    inside = (line.times_ns > start_ns) & (line.times_ns < end_ns)
    edges = np.asarray([start_ns, end_ns], dtype=np.int64)
    first = _side(line, edges[:1], "right")
    last = _side(line, edges[1:], "left")
    times = np.concatenate((edges[:1], line.times_ns[inside], edges[1:]))
    return PowerLine(times, np.concatenate((first, line.watts[inside], last)), line.gaps)


@dataclass(frozen=True, slots=True)
class WindowEnergy:
    """Energy and power over one window ``[start, end]``."""

    energy_j: float
    mean_w: float
    p95_w: float
    peak_w: float
    coverage: float  # share of the window that readings cover, 0 to 1


def window_energy(line: PowerLine, start_ns: int, end_ns: int) -> WindowEnergy:
    """Integrate power over a window, with interpolated edges.

    If readings do not reach an edge of the window, the nearest power is held, which lowers
    ``coverage``. Raises ValueError for an empty window.
    """
    if end_ns <= start_ns:
        raise ValueError("the window is empty")
    part = _cut(line, start_ns, end_ns)
    seconds = np.diff(part.times_ns) / NS_PER_S
    mids = (part.watts[:-1] + part.watts[1:]) / 2
    energy_j = float(np.sum(mids * seconds))
    return WindowEnergy(
        energy_j=energy_j,
        mean_w=energy_j * NS_PER_S / (end_ns - start_ns),
        p95_w=weighted_percentile(mids, seconds, 95),
        peak_w=float(np.max(part.watts)),
        coverage=1 - _uncovered_ns(line, start_ns, end_ns) / (end_ns - start_ns),
    )


def _uncovered_ns(line: PowerLine, start_ns: int, end_ns: int) -> int:
    missing = [(start_ns, line.start_ns), *line.gaps, (line.end_ns, end_ns)]
    total = reached = 0
    for begin, end in sorted(missing):
        low, high = max(begin, start_ns, reached), min(end, end_ns)
        if high > low:
            total += high - low
            reached = high
    return total


def weighted_percentile(values: Floats, weights: Floats, percent: float) -> float:
    """Return the smallest value such that ``percent`` of the weight is at or below it."""
    order = np.argsort(values, kind="stable")
    reached = np.cumsum(weights[order])
    at = np.searchsorted(reached, reached[-1] * percent / 100 * (1 - 1e-12))
    return float(values[order][min(int(at), values.size - 1)])


def energy_uncertainty_j(
    energy_j: float,
    duration_s: float,
    *,
    gain: float,
    offset_w: float,
    quantum_w: float,
    spacings_s: Sequence[float],
    step_w: float,
    sync_s: float,
) -> float:
    """Return the standard uncertainty of an energy from power readings, in J.

    ``u^2 = (gain E)^2 + (offset T)^2 + sum (dt q / sqrt 12)^2 + 2 (step x sync)^2``

    Args:
        energy_j: The energy E.
        duration_s: The length T of the window.
        gain: Relative standard uncertainty of the sensor.
        offset_w: Constant standard uncertainty of the sensor.
        quantum_w: Smallest step q of the sensor.
        spacings_s: The times dt that single readings represent.
        step_w: The change of power at the window's edges.
        sync_s: Standard uncertainty of the offset between the two clocks.
    """
    quantisation = quantum_w / math.sqrt(12) * math.hypot(*spacings_s)
    edges = math.sqrt(2) * step_w * sync_s
    return math.hypot(gain * energy_j, offset_w * duration_s, quantisation, edges)


def counter_uncertainty_j(
    energy_j: float,
    duration_s: float,
    *,
    gain: float,
    offset_w: float,
    quantum_j: float,
    step_w: float,
    sync_s: float,
) -> float:
    """Return the standard uncertainty of an energy from a counter, in J.

    Like ``energy_uncertainty_j``, but only the first and the last reading contribute quantisation.

    Args:
        energy_j: The energy.
        duration_s: The length of the window.
        gain: Relative standard uncertainty of the sensor.
        offset_w: Constant standard uncertainty of the sensor, as power.
        quantum_j: Smallest step of the counter.
        step_w: The change of power at the window's edges.
        sync_s: Standard uncertainty of the offset between the two clocks.
    """
    quantisation = math.sqrt(2 / 12) * quantum_j
    edges = math.sqrt(2) * step_w * sync_s
    return math.hypot(gain * energy_j, offset_w * duration_s, quantisation, edges)


def quotient_uncertainty(value: float, *relative: float) -> float:
    """Return the standard uncertainty of a product or quotient of independent factors.

    ``(u/x)^2`` is the sum of the squared relative uncertainties of the factors.
    """
    return abs(value) * math.sqrt(math.fsum(part * part for part in relative))


def standard_from_limit(limit: float) -> float:
    """Return the standard uncertainty of a value within ``+- limit`` (rectangular distribution)."""
    return limit / math.sqrt(3)
