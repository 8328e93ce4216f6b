"""Laws that hold for the energy of any readings."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from storlab.base.energy import (
    WRAP_RATE,
    energy_uncertainty_j,
    line_of_counter,
    line_of_means,
    line_of_moments,
    line_sum,
    mb_per_joule,
    tb_per_kwh,
    unwrap_counter,
    window_energy,
)

S = 1_000_000_000
powers = st.floats(min_value=0, max_value=1e6)
spacings = st.integers(min_value=1_000, max_value=10 * S)


@st.composite
def traces(draw: st.DrawFn, least: int = 2) -> tuple[list[int], list[float]]:
    steps = draw(st.lists(spacings, min_size=least - 1, max_size=40))
    times = [draw(st.integers(0, 10**15))]
    for step in steps:
        times.append(times[-1] + step)
    watts = draw(st.lists(powers, min_size=len(times), max_size=len(times)))
    return times, watts


@given(st.integers(1, 10**18), st.floats(1e-9, 1e12))
def test_tb_kwh_is_3_6_times_mb_j(moved_bytes: int, energy_j: float) -> None:
    mb_j = mb_per_joule(moved_bytes, energy_j)
    assert tb_per_kwh(mb_j) == 3.6 * mb_j
    exact = Fraction(moved_bytes, 10**12) / (Fraction(energy_j) / 3_600_000)
    assert tb_per_kwh(mb_j) == pytest.approx(float(exact), rel=1e-14)


@given(traces(), st.data())
def test_a_window_cut_in_two_has_the_same_energy(
    trace: tuple[list[int], list[float]], data: st.DataObject
) -> None:
    times, watts = trace
    line = line_of_moments(times, watts)
    cut = data.draw(st.integers(times[0] + 1, times[-1] - 1))
    whole = window_energy(line, times[0], times[-1])
    parts = window_energy(line, times[0], cut), window_energy(line, cut, times[-1])
    assert sum(p.energy_j for p in parts) == pytest.approx(whole.energy_j, rel=1e-9, abs=1e-9)
    assert max(p.peak_w for p in parts) == pytest.approx(whole.peak_w)
    # The mean is a quotient of sums, so it may differ from a constant power by rounding.
    assert min(watts) - 1e-6 <= whole.mean_w <= whole.peak_w * (1 + 1e-9)
    assert whole.p95_w <= whole.peak_w


@given(
    st.lists(st.floats(0.001, 10), min_size=2, max_size=50),
    st.floats(0, 1000),
    st.floats(-20, 20),
)
def test_the_trapezoid_is_exact_for_straight_lines(
    steps: list[float], level: float, slope: float
) -> None:
    times = np.cumsum([0, *(round(step * S) for step in steps)]).tolist()
    duration_s = times[-1] / S
    watts = [level + slope * t / S for t in times]
    exact = level * duration_s + slope * duration_s**2 / 2
    taken = window_energy(line_of_moments(times, watts), 0, times[-1])
    assert taken.energy_j == pytest.approx(exact, rel=1e-9, abs=1e-6)


@given(st.floats(1, 500), st.floats(0, 400), st.floats(0.2, 3), st.floats(20, 60))
def test_a_wave_sampled_often_enough_has_its_analytic_energy(
    level: float, swing: float, omega: float, duration_s: float
) -> None:
    step_s = 0.01
    times = [round(i * step_s * S) for i in range(int(duration_s / step_s) + 2)]
    watts = [level + swing * math.sin(omega * t / S) for t in times]
    end = round(duration_s * S)
    exact = level * duration_s + swing / omega * (1 - math.cos(omega * duration_s))
    # Error bound of the trapezoid rule.
    bound = swing * omega**2 * duration_s * step_s**2 / 12 * 1.01 + 1e-6
    taken = window_energy(line_of_moments(times, watts), 0, end)
    assert abs(taken.energy_j - exact) <= bound + 1e-9 * abs(exact) + swing * step_s**2


@given(
    st.integers(10, 10**9),
    st.lists(st.integers(0, 9), min_size=1, max_size=60),
    st.integers(0, 10**9),
    st.data(),
)
def test_wraps_of_a_counter_do_not_matter(
    counter_max: int, tenths: list[int], start: int, data: st.DataObject
) -> None:
    added = [tenth * counter_max // 10 for tenth in tenths]
    true = np.cumsum([start, *added])
    shown = [int(value) % (counter_max + 1) for value in true]
    assert list(np.diff(unwrap_counter(shown, counter_max, 1))) == added
    times = np.cumsum([0, *data.draw(st.lists(spacings, min_size=len(added), max_size=len(added)))])
    rates = np.asarray(added) / np.diff(times)
    assume(rates.max() <= WRAP_RATE * rates.min())  # otherwise a wrap may pass for a reset
    line = line_of_counter(times.tolist(), shown, counter_max, 1)
    taken = window_energy(line, 0, int(times[-1]))
    assert taken.energy_j == pytest.approx(sum(added), rel=1e-9, abs=1e-6)


@given(traces(least=3))
def test_means_that_tile_the_time_are_a_sum_of_rectangles(
    trace: tuple[list[int], list[float]],
) -> None:
    times, watts = trace
    line = line_of_means(times, watts, None)
    exact = math.fsum(
        watts[i] * (times[i] - times[i - 1]) / S for i in range(1, len(times))
    )  # fmt: skip
    taken = window_energy(line, times[0], times[-1])
    assert taken.energy_j == pytest.approx(exact, rel=1e-9, abs=1e-9)


@given(traces(), st.floats(0, 10), st.floats(0, 10))
def test_the_sum_of_shares_is_a_share_of_the_sum(
    trace: tuple[list[int], list[float]], first: float, other: float
) -> None:
    line = line_of_moments(*trace)
    start, end = trace[0][0], trace[0][-1]
    together = window_energy(line_sum([line.scaled(first), line.scaled(other)]), start, end)
    alone = window_energy(line, start, end)
    assert together.energy_j == pytest.approx((first + other) * alone.energy_j, rel=1e-9, abs=1e-6)
    assert together.coverage == alone.coverage


@given(
    st.floats(0, 1e9),
    st.floats(0.1, 1e5),
    st.floats(0, 0.2),
    st.floats(0, 10),
    st.floats(0, 5),
    st.floats(0, 1e3),
    st.floats(0, 1),
)
def test_uncertainty_is_no_smaller_than_any_of_its_parts(
    energy_j: float,
    duration_s: float,
    gain: float,
    offset_w: float,
    quantum_w: float,
    step_w: float,
    sync_s: float,
) -> None:
    found = energy_uncertainty_j(
        energy_j,
        duration_s,
        gain=gain,
        offset_w=offset_w,
        quantum_w=quantum_w,
        spacings_s=[duration_s],
        step_w=step_w,
        sync_s=sync_s,
    )
    parts = [
        gain * energy_j,
        offset_w * duration_s,
        quantum_w * duration_s / math.sqrt(12),
        math.sqrt(2) * step_w * sync_s,
    ]
    least = 1e-300  # smaller doubles lose relative accuracy
    assert max(parts) * (1 - 1e-9) - least <= found <= sum(parts) * (1 + 1e-9) + least
