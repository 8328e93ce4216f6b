"""Compute energy from power readings and energy counters, by pure functions on arrays.

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
"""A time between two readings is a gap if it exceeds this multiple of the usual one, and 1 s."""

WRAP_RATE = 100
"""A counter decrease is a reset if a wrap would imply more than this multiple of other powers."""

Floats = NDArray[np.float64]
Times = NDArray[np.int64]


def tb_per_kwh(mb_per_j: float) -> float:
    """Convert MB/J (= MB/s/W) to TB/kWh."""
    return TB_KWH_PER_MB_J * mb_per_j


def mb_per_joule(moved_bytes: float, energy_j: float) -> float:
    """Return transferred bytes per energy in MB/J, which equals MB/s per W.

    Raises:
        ValueError: The energy is not positive.
    """
    if not energy_j > 0:
        raise ValueError(f"energy is {energy_j} J, but must be above 0 to compute MB/J")
    return moved_bytes / MB / energy_j


def wh_from_j(energy_j: float) -> float:
    """Convert J to Wh."""
    return energy_j / J_PER_WH


def unwrap_counter(values: Sequence[float], counter_max: float | None, step: float) -> Floats:
    """Convert readings of a counter that wraps to a series that only increases.

    The counter goes from ``counter_max`` to 0 within one ``step``, so differences are taken modulo
    ``counter_max + step``. There must be a reading between any two wraps.

    Args:
        values: The readings in order of time.
        counter_max: The largest value, or None if the counter never wraps.
        step: The resolution of the counter.

    Raises:
        ValueError: A counter without a maximum decreased: it was reset, and energy is lost.
    """
    raw = np.asarray(values, dtype=np.float64)
    if raw.size < 2:
        return np.array(raw)
    differences = np.diff(raw)
    if counter_max is not None:
        differences = np.where(differences < 0, differences + counter_max + step, differences)
    if np.any(differences < 0):
        raise ValueError("the energy counter was reset: it decreased and has no maximum to wrap at")
    return np.asarray(raw[0] + np.concatenate(([0.0], np.cumsum(differences))), dtype=np.float64)


@dataclass(frozen=True, slots=True)
class PowerLine:
    """Power over time as a piecewise linear function.

    ``times_ns`` never decreases; two points at the same time are a jump. ``gaps`` are intervals
    ``[from, to)`` in ns that no reading covers.
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
        """Return a copy with every power multiplied by ``factor``."""
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
    """Build a power line from readings that are averages over the interval before their time.

    An interval that begins before the preceding reading is cut there. Power between two intervals
    is interpolated.

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

    A long time between readings is a gap only if the counter may have wrapped more than once in it.

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
    """Check that each decrease of an energy counter was a wrap, and not a reset to 0.

    A device that restarts resets its counter, usually far below the maximum, so a wrap would imply
    much more power than the other readings. If the counter decreased at every reading, there is
    nothing to compare with, and no error is raised.

    Raises:
        ValueError: The counter was reset.
    """
    if not wrapped.any() or wrapped.all():
        return
    usual = max(float(watts[~wrapped].max()), step * NS_PER_S / float(spacing.min()))
    if float(watts[wrapped].max()) > WRAP_RATE * usual:
        raise ValueError("the energy counter was reset: it decreased too far below its maximum")


def _checked(times_ns: Sequence[int], values: Sequence[float]) -> tuple[Times, Floats]:
    times = np.asarray(times_ns, dtype=np.int64)
    given = np.asarray(values, dtype=np.float64)
    if times.shape != given.shape:
        raise ValueError(f"there are {times.size} times but {given.size} values")
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
    """Return the power at each time; at a jump, that before (``left``) or after (``right``) it."""
    times, watts = line.times_ns, line.watts
    at = np.searchsorted(times, moments, side=side)
    low = np.clip(at - 1, 0, times.size - 1)
    high = np.clip(at, 0, times.size - 1)
    span = times[high] - times[low]
    part = np.divide(moments - times[low], span, out=np.zeros(moments.size), where=span > 0)
    return np.asarray(watts[low] + (watts[high] - watts[low]) * part, dtype=np.float64)


def _cut(line: PowerLine, start_ns: int, end_ns: int) -> PowerLine:
    """Return the part of a power line between two times.

    Power at the edges is interpolated; beyond the line's ends it equals that of the nearest point.
    """
    inside = (line.times_ns > start_ns) & (line.times_ns < end_ns)
    edges = np.asarray([start_ns, end_ns], dtype=np.int64)
    first = _side(line, edges[:1], "right")
    last = _side(line, edges[1:], "left")
    times = np.concatenate((edges[:1], line.times_ns[inside], edges[1:]))
    return PowerLine(times, np.concatenate((first, line.watts[inside], last)), line.gaps)


@dataclass(frozen=True, slots=True)
class WindowEnergy:
    """Energy and power over one time window."""

    energy_j: float
    mean_w: float
    p95_w: float
    peak_w: float
    coverage: float  # share of the window that readings cover, 0 to 1


def window_energy(line: PowerLine, start_ns: int, end_ns: int) -> WindowEnergy:
    """Integrate power over a window, with interpolation at its edges.

    If readings do not reach an edge of the window, the nearest reading is used there, and
    ``coverage`` is below 1.

    Raises:
        ValueError: The window is empty.
    """
    if end_ns <= start_ns:
        raise ValueError("the window is empty: its end is not after its start")
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
    """Return the smallest value with at least ``percent`` of the weight at or below it."""
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
