"""Integration of power over a window, against sums computed by hand."""

from __future__ import annotations

import math

import numpy as np
import pytest

from storlab.base.energy import (
    counter_uncertainty_j,
    energy_uncertainty_j,
    line_of_counter,
    line_of_means,
    line_of_moments,
    line_sum,
    mb_per_joule,
    quotient_uncertainty,
    tb_per_kwh,
    unwrap_counter,
    weighted_percentile,
    wh_from_j,
    window_energy,
)

S = 1_000_000_000


def test_a_trapezoid_with_edges_between_readings() -> None:
    line = line_of_moments([0, 1 * S, 2 * S, 3 * S], [10, 20, 40, 40])
    whole = window_energy(line, 0, 3 * S)
    assert whole.energy_j == pytest.approx(15 + 30 + 40)
    assert whole.mean_w == pytest.approx(85 / 3)
    assert whole.peak_w == 40
    assert whole.coverage == 1
    part = window_energy(line, S // 2, 3 * S // 2)
    assert part.energy_j == pytest.approx((15 + 20) / 2 * 0.5 + (20 + 30) / 2 * 0.5)


def test_where_readings_end_early_the_last_power_is_held_and_said_to_be_missing() -> None:
    line = line_of_moments([1 * S, 2 * S, 3 * S], [10, 10, 20])
    taken = window_energy(line, 0, 4 * S)
    assert taken.energy_j == pytest.approx(10 + 10 + 15 + 20)
    assert taken.coverage == pytest.approx(0.5)


def test_a_hole_in_the_readings_is_not_covered() -> None:
    times = [*range(0, 11 * S, S), *range(30 * S, 41 * S, S)]
    line = line_of_moments(times, [5.0] * len(times))
    assert line.gaps == ((10 * S, 30 * S),)
    taken = window_energy(line, 0, 40 * S)
    assert taken.coverage == pytest.approx(0.5)
    assert window_energy(line, 5 * S, 35 * S).coverage == pytest.approx(1 / 3)


def test_means_hold_for_their_own_interval() -> None:
    line = line_of_means([2 * S, 4 * S], [10, 30], 2 * S)
    assert window_energy(line, 0, 4 * S).energy_j == pytest.approx(20 + 60)
    assert window_energy(line, 1 * S, 3 * S).energy_j == pytest.approx(10 + 30)
    assert window_energy(line, 1 * S, 3 * S).peak_w == 30


def test_a_mean_that_comes_late_replaces_nothing_that_came_before() -> None:
    rolling = line_of_means([S, 2 * S, 3 * S], [10, 20, 40], 5 * S)
    assert window_energy(rolling, S, 3 * S).energy_j == pytest.approx(20 + 40)


def test_means_without_an_interval_hold_since_the_reading_before() -> None:
    line = line_of_means([0, 2 * S, 3 * S], [99, 10, 30], None)
    assert line.start_ns == 0
    assert window_energy(line, 0, 3 * S).energy_j == pytest.approx(50)


def test_between_two_short_means_power_is_interpolated() -> None:
    line = line_of_means([1 * S, 3 * S], [10, 30], S)
    assert window_energy(line, 0, 3 * S).energy_j == pytest.approx(10 + 20 + 30)


def test_a_counter_and_its_wrap() -> None:
    line = line_of_counter([0, S, 2 * S, 4 * S], [96, 99, 1, 21], counter_max=99, step=1)
    assert window_energy(line, 0, 4 * S).energy_j == pytest.approx(3 + 2 + 20)
    assert window_energy(line, S // 2, 3 * S).energy_j == pytest.approx(1.5 + 2 + 10)
    assert window_energy(line, 0, 4 * S).peak_w == pytest.approx(10)


def test_a_counter_that_goes_back_without_a_maximum_was_reset() -> None:
    assert list(unwrap_counter([5, 7, 7], None, 0)) == [5, 7, 7]
    with pytest.raises(ValueError, match="was reset"):
        unwrap_counter([5, 7, 1], None, 0)


@pytest.mark.parametrize("bits", [32, 64])
def test_a_counter_that_was_reset_has_not_wrapped(bits: int) -> None:
    watt_hours = [5000 + t for t in range(5)]
    counter_max = 3600.0 * (2**bits - 1)
    times = [t * S for t in range(10)]
    with pytest.raises(ValueError, match="was reset"):
        line_of_counter(times, [3600.0 * v for v in [*watt_hours, *range(5)]], counter_max, 3600)


def test_a_coarse_counter_may_wrap() -> None:
    counter_max = 3600.0 * 99
    values = [3600.0 * v for v in (98, 98, 98, 99, 99, 0, 0, 1)]
    line = line_of_counter([t * S for t in range(8)], values, counter_max, 3600)
    assert window_energy(line, 0, 7 * S).energy_j == pytest.approx(3 * 3600)


def test_a_pause_of_a_counter_loses_nothing_unless_it_may_have_wrapped() -> None:
    times = [*range(0, 11 * S, S), *range(20 * S, 31 * S, S)]
    values = [t / S * 5 % 1000 for t in times]
    assert line_of_counter(times, values, 999, 1).gaps == ()
    small = [t / S * 5 % 40 for t in times]
    line = line_of_counter(times, small, 39, 1)
    assert line.gaps == ((10 * S, 20 * S),)
    assert window_energy(line, 0, 30 * S).coverage == pytest.approx(2 / 3)
    assert window_energy(line, 0, 10 * S).energy_j == pytest.approx(50)


def test_the_sum_of_lines_is_taken_where_all_of_them_are() -> None:
    moments = line_of_moments([0, 2 * S, 4 * S], [0, 20, 0])
    steps = line_of_counter([S, 2 * S, 3 * S], [0, 5, 7], None, 0)
    total = line_sum([moments, steps])
    assert (total.start_ns, total.end_ns) == (S, 3 * S)
    assert window_energy(total, S, 3 * S).energy_j == pytest.approx(15 + 15 + 7)
    assert window_energy(total, S, 3 * S).peak_w == pytest.approx(25)
    with pytest.raises(ValueError, match="overlap"):
        line_sum([moments, line_of_moments([5 * S, 6 * S], [1, 1])])
    with pytest.raises(ValueError, match="no power series"):
        line_sum([])


@pytest.mark.parametrize(
    ("times", "values", "message"),
    [
        ([0], [1], "two readings"),
        ([0, 0], [1, 1], "ascend"),
        ([0, S], [1, math.nan], "finite"),
        ([0, S], [1], "2 times"),
    ],
)
def test_readings_that_make_no_line(times: list[int], values: list[float], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        line_of_moments(times, values)


def test_an_empty_window_has_no_energy() -> None:
    with pytest.raises(ValueError, match="empty"):
        window_energy(line_of_moments([0, S], [1, 1]), S, S)


def test_p95_leaves_out_the_highest_twentieth_of_the_time() -> None:
    times = [i * S for i in range(101)]
    watts = [100.0 if 40 < i < 46 else 10.0 for i in range(101)]
    taken = window_energy(line_of_moments(times, watts), 0, 100 * S)
    assert (taken.p95_w, taken.peak_w) == (55.0, 100.0)
    values = np.arange(1.0, 101.0)
    assert weighted_percentile(values, np.ones(100), 95) == 95
    assert weighted_percentile(values[::-1].copy(), np.ones(100), 95) == 95


def test_uncertainty_by_its_parts() -> None:
    nothing = {"gain": 0.0, "offset_w": 0.0, "quantum_w": 0.0, "step_w": 0.0, "sync_s": 0.0}

    def of(**changes: float) -> float:
        return energy_uncertainty_j(1000, 60, spacings_s=[1.0] * 60, **{**nothing, **changes})

    assert of() == 0
    assert of(gain=0.01) == pytest.approx(10)
    assert of(offset_w=0.5) == pytest.approx(30)
    assert of(quantum_w=1) == pytest.approx(math.sqrt(60 / 12))
    assert of(step_w=50, sync_s=0.1) == pytest.approx(math.sqrt(2) * 5)
    together = of(gain=0.01, offset_w=0.5, quantum_w=1, step_w=50, sync_s=0.1)
    assert together == pytest.approx(math.sqrt(100 + 900 + 5 + 50))


def test_a_counter_is_quantised_twice_only() -> None:
    found = counter_uncertainty_j(
        1000, 60, gain=0, offset_w=0, quantum_j=6, step_w=0, sync_s=0
    )  # fmt: skip
    assert found == pytest.approx(math.sqrt(2 * 36 / 12))
    assert quotient_uncertainty(10, 0.03, 0.04) == pytest.approx(0.5)


def test_units_of_efficiency() -> None:
    assert mb_per_joule(500 * 10**6, 50) == 10
    assert tb_per_kwh(10) == 36
    assert wh_from_j(7200) == 2
    with pytest.raises(ValueError, match="above 0"):
        mb_per_joule(1, 0)
