"""Energy accounts: sums before quotients, correct intervals, and like compared with like."""

from __future__ import annotations

import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import t as student

from storlab.analysis.efficiency import (
    Account,
    RunEnergy,
    Spread,
    ratio_of_sums,
    spread_ratio,
    unequal,
)
from storlab.analysis.stats import ratio_interval


def entry(energy_j: float, moved_mb: float, **more: Any) -> RunEnergy:
    fields: dict[str, Any] = {
        "run_id": f"r{energy_j}",
        "energy_j": energy_j,
        "uncertainty_j": None,
        "net_j": None,
        "net_uncertainty_j": None,
        "window_s": 10.0,
        "moved_bytes": moved_mb * 1e6,
        "operations": moved_mb * 4,
        "read_off": {},
        **more,
    }
    return RunEnergy(**fields)


def account(*entries: RunEnergy, **more: Any) -> Account:
    fields: dict[str, Any] = {
        "boundary": "wall",
        "supply": "AC",
        "provenance": "measured",
        "entries": entries,
        "runs": len(entries),
        "lost": "",
        "sensors": ("pdu:1",),
        "share_rules": (),
        **more,
    }
    return Account(**fields)


def test_bytes_and_joules_are_summed_before_they_are_divided() -> None:
    summed = account(entry(100, 1000), entry(300, 1000))
    found = summed.value("efficiency_mb_s_w")
    assert found is not None
    assert found.estimate == pytest.approx(2000 / 400)
    assert found.estimate != pytest.approx((10 + 1000 / 300) / 2)
    assert summed.repeats("efficiency_mb_s_w") == pytest.approx([10, 1000 / 300])


def test_work_that_moves_no_bytes_has_no_data_per_joule_and_a_repeat_may_stall() -> None:
    trims = account(*(entry(j, 0, operations=10.0, net_j=j - 50) for j in (100, 300)))
    for name in ("efficiency_mb_s_w", "efficiency_tb_kwh", "efficiency_net_mb_s_w"):
        assert trims.value(name) is None
        assert trims.repeats(name) == []
    rate = trims.value("iops_w")
    assert rate is not None
    assert rate.estimate == pytest.approx(20 / 400)
    stalled = account(entry(100, 0), entry(300, 1000)).value("efficiency_mb_s_w")
    assert stalled is not None
    assert stalled.estimate == pytest.approx(1000 / 400)


def test_the_interval_of_a_ratio_of_sums_is_that_of_the_textbook() -> None:
    above, below = [10.0, 12.0, 11.5], [2.0, 2.2, 2.1]
    found = ratio_of_sums(above, below)
    assert found is not None
    ratio = sum(above) / sum(below)
    left = sum((a - ratio * b) ** 2 for a, b in zip(above, below, strict=True)) / 2
    error = math.sqrt(left / 3) / (sum(below) / 3)
    # On a logarithmic scale, like all positive quantities.
    half = student.ppf(0.975, 2) * error / ratio
    interval = found.interval()
    assert interval.estimate == pytest.approx(ratio)
    assert interval.low == pytest.approx(ratio * math.exp(-half))
    assert interval.high == pytest.approx(ratio * math.exp(half))


def test_the_meter_widens_the_interval_and_does_not_average_out() -> None:
    same = [entry(100, 1000, uncertainty_j=2.0) for _ in range(4)]
    found = account(*same).value("efficiency_mb_s_w")
    assert found is not None
    assert found.low is not None
    # Without spread only the meter's 2 % remain at any number of repeats (normal quantile);
    # differences of repeats below their resolution are negligible.
    assert found.low == pytest.approx(10 * math.exp(-1.959964 * 0.02), rel=1e-4)
    many = account(*same, *same, *same).value("efficiency_mb_s_w")
    assert many is not None
    assert many.low == pytest.approx(found.low)
    # Of two repeats, the bounds are the two values, widened by the meter.
    two = account(*(entry(j, 1000, uncertainty_j=0.02 * j) for j in (100, 125)))
    power = two.value("efficiency_mb_s_w")
    assert power is not None
    assert power.low == pytest.approx(8 * math.exp(-1.959964 * 0.02), rel=1e-4)
    assert power.high == pytest.approx(10 * math.exp(1.959964 * 0.02), rel=1e-4)
    # A meter that is wrong by more than it measures leaves no bounds.
    vague = account(*(entry(j, 1000, uncertainty_j=900 * j) for j in (100, 125)))
    unbounded = vague.value("efficiency_mb_s_w")
    assert unbounded is not None
    assert not unbounded.is_known


def test_one_repeat_gives_no_bounds_and_none_gives_nothing() -> None:
    found = account(entry(100, 1000, uncertainty_j=1.0)).value("efficiency_tb_kwh")
    assert found is not None
    assert found.estimate == pytest.approx(36)
    assert not found.is_known
    assert account().value("efficiency_mb_s_w") is None
    assert account(entry(100, 1000)).value("efficiency_net_mb_s_w") is None
    assert ratio_of_sums([1.0], [0.0]) is None


def test_a_meter_that_states_no_accuracy_has_none() -> None:
    assert account(entry(100, 1, uncertainty_j=1.0), entry(100, 1)).meter_relative() is None
    assert account(entry(100, 1, uncertainty_j=1.0)).meter_relative() == pytest.approx(0.01)


def test_idle_subtracted_stands_beside_gross() -> None:
    repeats = account(
        entry(100, 1000, net_j=40.0, net_uncertainty_j=2.0), entry(100, 1000, net_j=40.0)
    )
    net, gross = repeats.value("efficiency_net_mb_s_w"), repeats.value("efficiency_mb_s_w")
    assert net is not None
    assert gross is not None
    assert net.estimate == pytest.approx(25)
    assert gross.estimate == pytest.approx(10)


def test_power_is_joules_over_seconds_and_energy_their_mean() -> None:
    repeats = account(entry(100, 1, window_s=10.0), entry(900, 1, window_s=30.0))
    power, energy = repeats.value("power_w"), repeats.value("energy_j")
    assert power is not None
    assert power.estimate == pytest.approx(25)
    assert energy is not None
    assert energy.estimate == pytest.approx(500)


def test_values_that_are_read_off_are_not_made_up() -> None:
    repeats = account(entry(1, 1, read_off={"idle_power_w": 5.0}), entry(1, 1))
    idle = repeats.value("idle_power_w")
    assert idle is not None
    assert idle.estimate == 5.0
    assert repeats.value("power_p95_w") is None


positive = st.floats(1e-3, 1e9)


@given(st.lists(st.tuples(positive, positive), min_size=1, max_size=6))
def test_tb_per_kwh_is_always_3_6_times_mb_per_joule(pairs: list[tuple[float, float]]) -> None:
    repeats = account(*(entry(energy, moved) for energy, moved in pairs))
    mb_j, tb_kwh = repeats.value("efficiency_mb_s_w"), repeats.value("efficiency_tb_kwh")
    assert mb_j is not None
    assert tb_kwh is not None
    assert tb_kwh.estimate == pytest.approx(3.6 * mb_j.estimate, rel=1e-12)
    if mb_j.low is not None and mb_j.high is not None:
        assert tb_kwh.low == pytest.approx(3.6 * mb_j.low, rel=1e-9)
        assert tb_kwh.high == pytest.approx(3.6 * mb_j.high, rel=1e-9)


spreads = st.builds(Spread, positive, st.floats(0, 0.5), st.none() | st.floats(0, 0.3),
                    st.integers(2, 9))  # fmt: skip


@given(spreads, spreads)
def test_a_ratio_and_its_inverse_say_the_same(first: Spread, other: Spread) -> None:
    there, back = spread_ratio(first, other), spread_ratio(other, first)
    assert there.low is not None
    assert there.high is not None
    assert back.low is not None
    assert there.low <= there.estimate <= there.high
    assert back.estimate == pytest.approx(1 / there.estimate)
    assert back.low == pytest.approx(1 / there.high)


def test_a_ratio_without_meters_is_close_to_the_log_welch_interval() -> None:
    above, below, joules = [98.0, 101.0, 100.0, 102.0], [49.0, 51.0, 50.5, 50.0], [1.0] * 4
    first, other = ratio_of_sums(above, joules), ratio_of_sums(below, joules)
    assert first is not None
    assert other is not None
    ratio, welch = spread_ratio(first, other), ratio_interval(above, below)
    assert ratio.estimate == pytest.approx(welch.estimate, rel=1e-3)
    assert ratio.low == pytest.approx(welch.low, rel=5e-3)
    assert ratio.high == pytest.approx(welch.high, rel=5e-3)


def test_one_repeat_on_a_side_leaves_a_ratio_without_bounds() -> None:
    found = spread_ratio(Spread(4.0, None, 0.1, 1), Spread(2.0, 0.1, None, 5))
    assert (found.estimate, found.low, found.high, found.n) == (2.0, None, None, 1)
    with pytest.raises(ValueError, match="above 0"):
        spread_ratio(Spread(0.0, 0.1, None, 3), Spread(2.0, 0.1, None, 3))


@pytest.mark.parametrize(
    ("first", "other", "message"),
    [
        (("wall", "AC"), ("wall", "AC"), ""),
        (("wall", "AC"), ("wall", ""), ""),
        (("device", "DC"), ("wall", "AC"), "device (DC) against wall (AC)"),
        (("host", "DC"), ("host", "AC"), "host (DC) against host (AC)"),
        (("device", ""), ("enclosure", ""), "device against enclosure"),
    ],
)
def test_unequal_boundaries_and_supplies_are_told(
    first: tuple[str, str], other: tuple[str, str], message: str
) -> None:
    sides = [account(entry(1, 1), boundary=b, supply=s) for b, s in (first, other)]
    assert unequal(*sides) == message
