"""Rack, density and cost arithmetic, and the declared facts behind it."""

from __future__ import annotations

import pytest

from storlab.analysis import density
from storlab.analysis.density import RackFit, scaled
from storlab.base.errors import StudyError
from storlab.base.units import parse_power
from storlab.lab.study.file import parse_study
from storlab.model.decision import Interval
from storlab.model.rack_and_cost import Cost
from storlab.model.study import StudyBase, Target

STUDY = """
[study]
name = "facts"
{header}

[[target]]
name = "one"
path = "null:"
capacity = "256TB"
rack_units = 2
{target}

[[workload]]
kind = "block"
access = "random"
block_size = "4KiB"
{rack}
"""


def read(*, header: str = "", target: str = "", rack: str = "") -> StudyBase:
    return parse_study(STUDY.format(header=header, target=target, rack=rack))


def fitting(by_height: int | None, by_power: int | None) -> RackFit:
    return RackFit("one", 256.0, 2.0, 200.0, True, "measured", None, "wall (AC)", 100.0, by_height,
                   by_power)  # fmt: skip


@pytest.mark.parametrize(
    ("by_height", "by_power", "count", "limit"),
    [
        (21, 64, 21, "height"),
        (21, 7, 7, "power"),
        (21, 21, 21, "both"),
        (21, None, 21, "height"),
        (None, 7, None, ""),
    ],
)
def test_the_smaller_number_limits_the_rack(
    by_height: int | None, by_power: int | None, count: int | None, limit: str
) -> None:
    found = fitting(by_height, by_power)
    assert found.count == count
    assert found.limit == limit


@pytest.mark.parametrize(("part", "times"), [(0.1, 420), (0.25, 168), (2, 21), (5, 8), (43, 0)])
def test_parts_fit_whole(part: float, times: int) -> None:
    assert density._times(42.0, part) == times


def test_an_interval_scales_with_its_bounds() -> None:
    assert scaled(Interval(10.0, 8.0, 12.0, 3), 0.5) == Interval(5.0, 4.0, 6.0, 3)
    assert scaled(Interval(10.0, None, None, 1), 2.0) == Interval(20.0, None, None, 1)
    assert scaled(None, 2.0) is None
    assert scaled(Interval(10.0, 8.0, 12.0, 3), None) is None


def test_the_storage_price_is_the_price() -> None:
    base = Target(name="one", path="null:", price=500.0, cost=Cost(servers=100.0))
    assert density.costs(base) == [("servers", 100.0), ("storage", 500.0)]
    own = Target(name="one", path="null:", cost=Cost(storage=70.0))
    assert own.storage_price == 70.0
    assert density.costs(Target(name="one", path="null:", price=500.0)) == []


def test_a_study_takes_rack_cost_and_published() -> None:
    study = read(
        header='published = ["micron-6600-ion-vs-16-hdd-fio"]\naccept_unequal_boundaries = true',
        target="cost = { servers = 9000, network = 2400.5 }",
        rack='[rack]\nunits = 48\npower_budget = "15kW"',
    )
    assert study.study.published == ["micron-6600-ion-vs-16-hdd-fio"]
    assert study.study.accept_unequal_boundaries
    assert study.target[0].cost == Cost(servers=9000.0, network=2400.5)
    assert study.rack is not None
    assert (study.rack.units, study.rack.power_budget) == (48, 15_000.0)
    assert read().rack is None


@pytest.mark.parametrize(
    ("more", "message"),
    [
        ({"rack": '[rack]\npower_budget = "15kV"'}, 'unknown unit "kV"'),
        ({"rack": "[rack]\nunits = 0"}, "units"),
        ({"target": "cost = {}"}, "the table is empty"),
        ({"target": "price = 5\ncost = { storage = 6 }"}, "the price of the target is 5"),
        ({"target": "cost = { server = 6 }"}, "servers"),
    ],
)
def test_wrong_facts_are_named(more: dict[str, str], message: str) -> None:
    with pytest.raises(StudyError) as caught:
        read(**more)
    assert message in str(caught.value) + str(caught.value.problems)


@pytest.mark.parametrize(
    ("text", "power_w"),
    [("15kW", 15_000.0), ("800 W", 800.0), ("2.5MW", 2.5e6), ("40mW", 0.04), (12, 12.0), ("7", 7)],
)
def test_power_reads_with_its_unit(text: str | float, power_w: float) -> None:
    assert parse_power(text) == power_w


@pytest.mark.parametrize("text", ["15 KW", "-1W", "watt", True, -3, float("nan"), None])
def test_what_is_no_power_is_refused(text: object) -> None:
    with pytest.raises(ValueError, match=r"power|unit"):
        parse_power(text)  # type: ignore[arg-type]
