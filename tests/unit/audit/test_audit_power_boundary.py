"""Power compared across unequal or unstated boundaries."""

from __future__ import annotations

import pytest

from unit.audit.audit_rows import check, row, setting


def ratio(metric: str = "power_efficiency_ratio", unit: str = "x") -> dict[str, str]:
    return row(
        config="A",
        compare_config="B",
        metric=metric,
        value=48,
        unit=unit,
        kind="ratio_claim",
        printed="48",
    )


def boundary(config: str, words: str, metric: str = "power_boundary") -> dict[str, str]:
    made = setting(metric, words, "", config)
    made["printed"] = words
    return made


@pytest.mark.parametrize(
    ("first", "other"),
    [
        ("device", "enclosure"),
        ("at the SSD", "with its JBOD"),
        ("drive only", "whole server"),
        ("device", "wall"),
    ],
)
def test_unequal_boundaries_are_a_warning(first: str, other: str) -> None:
    found = check("power_boundary", [boundary("A", first), boundary("B", other), ratio()])
    assert [f.severity for f in found] == ["warning"]
    assert found[0].rows == ["003", "001", "002"]


@pytest.mark.parametrize("metric", ["energy_increase", "throughput_per_watt_increase"])
def test_other_claims_about_power_count_as_well(metric: str) -> None:
    rows = [boundary("A", "device"), boundary("B", "enclosure"), ratio(metric, "%")]
    assert [f.severity for f in check("power_boundary", rows)] == ["warning"]


def test_the_boundary_may_stand_in_the_metric() -> None:
    rows = [
        row(config="A", metric="drive_power", value=20, unit="W", kind="measured"),
        row(config="B", metric="enclosure_power", value=240, unit="W", kind="measured"),
        ratio(),
    ]
    assert [f.severity for f in check("power_boundary", rows)] == ["warning"]


def test_equal_boundaries_are_left_alone() -> None:
    rows = [boundary("A", "enclosure"), boundary("B", "the shelf with its drives"), ratio()]
    assert check("power_boundary", rows) == []
    assert check("power_boundary", [boundary("", "server", "power_measured_at"), ratio()]) == []


def test_no_boundary_at_all_is_one_note() -> None:
    found = check("power_boundary", [ratio(), ratio("energy_efficiency_ratio")])
    assert [(f.severity, f.rows) for f in found] == [("note", ["001", "002"])]


def test_one_boundary_unstated_is_a_note() -> None:
    found = check("power_boundary", [boundary("A", "device"), ratio()])
    assert [f.severity for f in found] == ["note"]
    assert "A: device" in found[0].recomputed
    assert "B" in found[0].recomputed


def test_tables_without_claims_about_measured_power_are_left_alone() -> None:
    limits = [setting("power_limit", 20, "W", "A"), setting("power_limit", 25, "W", "B")]
    less = ratio("max_power_reduction", "%")  # of the limits: nothing was metered
    assert check("power_boundary", [*limits, less, ratio("throughput_ratio")]) == []
