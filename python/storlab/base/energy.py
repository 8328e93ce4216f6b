"""Energy from readings of power, and from energy counters: pure functions on arrays.

Times are integers of ns on one clock, ascending; power is in W, energy in J. What each formula is
for and where it comes from stands in ``docs/method.md``.
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
"""Readings further apart than so many of their usual distances, and than 1 s, leave a gap."""

WRAP_RATE = 100
"""A wrap explains no more power than so many times the most that was counted without one."""

Floats = NDArray[np.float64]
Times = NDArray[np.int64]


def tb_per_kwh(mb_per_j: float) -> float:
    """TB/kWh from MB/J (= MB/s/W)."""
    return TB_KWH_PER_MB_J * mb_per_j


def mb_per_joule(moved_bytes: float, energy_j: float) -> float:
    """MB/J, which is MB/s per W. Raises ValueError where there is no energy to divide by."""
    if not energy_j > 0:
        raise ValueError(f"{energy_j} J is no energy to divide by")
    return moved_bytes / MB / energy_j


def wh_from_j(energy_j: float) -> float:
    """Wh from J."""
    return energy_j / J_PER_WH


def unwrap_counter(values: Sequence[float], counter_max: float | None, step: float) -> Floats:
    """A counter that wraps behind ``counter_max``, as if it did not: the same differences.

    After ``counter_max`` comes 0, one ``step`` (its resolution) later, so differences are taken
    modulo ``counter_max + step``. It must be read more often than it can wrap. Raises ValueError
    when a counter without a maximum goes back: it was reset, and the energy is lost.
    """
    raw = np.asarray(values, dtype=np.float64)
    if raw.size < 2:
        return np.array(raw)
    differences = np.diff(raw)
    if counter_max is not None:
        differences = np.where(differences < 0, differences + counter_max + step, differences)
    if np.any(differences < 0):
        raise ValueError("the counter went back without having a maximum to wrap at")
    return np.asarray(raw[0] + np.concatenate(([0.0], np.cumsum(differences))), dtype=np.float64)


@dataclass(frozen=True, slots=True)
class PowerLine:
    """Power over time: straight lines between its corners; jumps are two corners at one time.

    ``times_ns`` never falls. ``gaps`` are the stretches ``[from, to)`` that no reading speaks for.
    """

    times_ns: Times
    watts: Floats
    gaps: tuple[tuple[int, int], ...] = ()

    @property
    def start_ns(self) -> int:
        """Where it begins."""
        return int(self.times_ns[0])

    @property
    def end_ns(self) -> int:
        """Where it ends."""
        return int(self.times_ns[-1])

    def scaled(self, factor: float) -> PowerLine:
        """The same line, every power times ``factor``."""
        return PowerLine(self.times_ns, self.watts * factor, self.gaps)


def line_of_moments(
    times_ns: Sequence[int], watts: Sequence[float], period_ns: int | None = None
) -> PowerLine:
    """From the power at single moments: between two of them it changes at a constant rate.

    ``period_ns`` is how far apart readings were meant to be. Raises ValueError below two readings.
    """
    times, values = _checked(times_ns, watts)
    return PowerLine(times, values, _gaps(times, period_ns))


def line_of_means(
    times_ns: Sequence[int],
    watts: Sequence[float],
    interval_ns: int | None,
    period_ns: int | None = None,
) -> PowerLine:
    """From means over the sensor's own interval, each stamped at its interval's end.

    A mean holds for its interval, but never before the reading that came before it; without an
    interval, for all the time since that reading. Between two intervals power is interpolated.
    Raises ValueError below two readings.
    """
    times, values = _checked(times_ns, watts)
    before = np.concatenate(([times[0]], times[:-1]))
    starts = before if interval_ns is None else np.maximum(times - interval_ns, before)
    if interval_ns is not None:
        starts[0] = times[0] - interval_ns
    corners = np.stack((starts, times), axis=1).reshape(-1)
    heights = np.repeat(values, 2)
    if interval_ns is None:  # the first reading only says where the second one's time begins
        corners, heights = corners[2:], heights[2:]
    return PowerLine(corners, heights, _gaps(times, period_ns))


def line_of_counter(
    times_ns: Sequence[int], energy_j: Sequence[float], counter_max: float | None, step: float
) -> PowerLine:
    """From an energy counter: between two readings, their difference at constant power.

    A pause between readings loses nothing, unless the counter may have wrapped in it more than
    once. Raises ValueError below two readings, for a counter that was reset, and as
    :func:`unwrap_counter`.
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
    """A device that begins anew has its counter at 0, too: that is no wrap, and the energy is lost.

    A counter is far from its maximum then, so that a wrap would have taken much more power than the
    rest. Where all readings are wraps nothing tells.
    """
    if not wrapped.any() or wrapped.all():
        return
    usual = max(float(watts[~wrapped].max()), step * NS_PER_S / float(spacing.min()))
    if float(watts[wrapped].max()) > WRAP_RATE * usual:
        raise ValueError("the counter went back by more than a wrap explains: it was reset")


def _checked(times_ns: Sequence[int], values: Sequence[float]) -> tuple[Times, Floats]:
    times = np.asarray(times_ns, dtype=np.int64)
    given = np.asarray(values, dtype=np.float64)
    if times.shape != given.shape:
        raise ValueError(f"{times.size} times for {given.size} values")
    if times.size < 2:
        raise ValueError("two readings are needed at least")
    if np.any(np.diff(times) <= 0):
        raise ValueError("the times do not ascend")
    if not np.all(np.isfinite(given)):
        raise ValueError("a reading is not a finite number")
    return times, given


def _gaps(times: Times, period_ns: int | None) -> tuple[tuple[int, int], ...]:
    spacing = np.diff(times)
    usual = max(float(np.median(spacing)), float(period_ns or 0))
    wide = np.flatnonzero(spacing > max(GAP_PERIODS * usual, LEAST_GAP_NS))
    return tuple((int(times[i]), int(times[i + 1])) for i in wide)


def line_sum(lines: Sequence[PowerLine]) -> PowerLine:
    """The sum of several lines where all of them exist; a gap in one is a gap in the sum.

    Raises ValueError where there is no line, or they do not overlap in time.
    """
    if not lines:
        raise ValueError("no line to add up")
    start = max(line.start_ns for line in lines)
    end = min(line.end_ns for line in lines)
    if end <= start:
        raise ValueError("the lines do not overlap in time")
    cut = [_cut(line, start, end) for line in lines]
    moments = np.unique(np.concatenate([line.times_ns for line in cut]))
    left = sum(_side(line, moments, "left") for line in cut)
    right = sum(_side(line, moments, "right") for line in cut)
    times = np.repeat(moments, 2)
    watts = np.stack((np.asarray(left), np.asarray(right)), axis=1).reshape(-1)
    gaps = sorted({gap for line in lines for gap in line.gaps})
    return PowerLine(times[1:-1], watts[1:-1], tuple(gaps))


def _side(line: PowerLine, moments: Times, side: Any) -> Floats:
    """The line's value at each moment as seen from its left or its right (they differ at jumps)."""
    times, watts = line.times_ns, line.watts
    at = np.searchsorted(times, moments, side=side)
    low = np.clip(at - 1, 0, times.size - 1)
    high = np.clip(at, 0, times.size - 1)
    span = times[high] - times[low]
    part = np.divide(moments - times[low], span, out=np.zeros(moments.size), where=span > 0)
    # At a corner itself, "left" has it as the end of the stretch before, "right" as a beginning.
    return np.asarray(watts[low] + (watts[high] - watts[low]) * part, dtype=np.float64)


def _cut(line: PowerLine, start_ns: int, end_ns: int) -> PowerLine:
    """The line from ``start_ns`` to ``end_ns``, edges interpolated, ends held where it is short."""
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
    coverage: float  # share of the window that readings span, 0 to 1


def window_energy(line: PowerLine, start_ns: int, end_ns: int) -> WindowEnergy:
    """Integrate over a window, its edges interpolated.

    Where readings do not reach the window's edges the nearest power is held, and ``coverage`` says
    how much of the window that is. Raises ValueError for an empty window.
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
    """The smallest value that ``percent`` of the weight lies at or below."""
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
    """Standard uncertainty of an energy, in J.

    ``u^2 = (gain E)^2 + (offset T)^2 + sum (dt q / sqrt 12)^2 + 2 (step x sync)^2``, where ``gain``
    (relative) and ``offset_w`` are standard uncertainties of the sensor, ``quantum_w`` its smallest
    step, ``spacings_s`` the times that single readings stand for, ``step_w`` how far power changes
    at the window's edges, and ``sync_s`` the standard uncertainty of the two clocks.
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
    """Likewise for a counter: only the first and the last reading are quantised."""
    quantisation = math.sqrt(2 / 12) * quantum_j
    edges = math.sqrt(2) * step_w * sync_s
    return math.hypot(gain * energy_j, offset_w * duration_s, quantisation, edges)


def quotient_uncertainty(value: float, *relative: float) -> float:
    """Standard uncertainty of a product or quotient of independent factors.

    ``(u/x)^2`` is the sum of the squared relative uncertainties of the factors.
    """
    return abs(value) * math.sqrt(math.fsum(part * part for part in relative))


def standard_from_limit(limit: float) -> float:
    """Standard uncertainty of a value known to lie within ``+- limit`` (rectangular)."""
    return limit / math.sqrt(3)
