"""Implied watts: an outlier of a family is reported; families that vary are not."""

from __future__ import annotations

import pytest

from unit.audit.audit_rows import check, row, setting

MIXES = ("30/70", "50/50", "70/30", "90/10")


def cells(
    config: str,
    watts: list[float],
    *,
    names: tuple[str, str] = ("throughput", "power_efficiency"),
    units: tuple[str, str] = ("MB/s", "MB/s/W"),
    mixes: tuple[str, ...] = MIXES,
    x: str = "",
) -> list[dict[str, str]]:
    """Return throughput and an efficiency that implies ``watts`` per mix; 8 jobs by default."""
    made = []
    for place, (mix, power) in enumerate(zip(mixes, watts, strict=True)):
        rate = 2003 + 701 * place
        common = {"config": config, "workload": "mixed", "rw_mix": mix, "block_size": "256KB"}
        common |= {"op": "read+write", "kind": "measured"}
        at = {"x_name": "numjobs", "x_value": 8} if x else {}
        fields = {"x_name": "numjobs", "x_value": x} if x else {}
        made.append(row(**common, **at, metric=names[0], value=rate, unit=units[0]))
        value = f"{rate / power:.2f}"
        made.append(row(**common, **fields, metric=names[1], value=value, unit=units[1]))
    return made


def test_a_mix_far_below_its_neighbours_is_named() -> None:
    found = check("implied_watts", cells("array A", [25.0, 15.5, 20.0, 21.0]))
    assert [f.rows for f in found] == [["003", "004"]]
    assert found[0].severity == "warning"
    assert "15.5" in found[0].recomputed
    assert "50/50" not in found[0].recomputed  # the family consists of the others
    assert "90/10" in found[0].recomputed


def test_a_cell_far_from_a_tight_family_is_named_though_its_point_is_not_stated() -> None:
    rows = cells("disks", [228, 231, 226, 158], x="not_stated")
    assert [f.rows for f in check("implied_watts", rows)] == [["007", "008"]]


def test_other_spellings() -> None:
    rows = cells("A", [25, 15.5, 20, 21], names=("bw", "MB/s/W"), units=("MB/s", "MB/s/W"))
    assert len(check("implied_watts", rows)) == 1
    rows = cells("A", [25, 15.5, 20, 21], names=("tput", "throughput_per_watt"))
    assert len(check("implied_watts", rows)) == 1


def test_throughput_may_follow_from_throughput_per_tb() -> None:
    rows = [setting("rated_capacity", 100, "TB", "A")]
    for mix, watts in zip(MIXES, (25, 15.5, 20, 21), strict=True):
        common = {"config": "A", "rw_mix": mix, "op": "total", "kind": "measured"}
        rows.append(row(**common, metric="throughput_per_tb", value="30.0", unit="MB/s/TB"))
        value = f"{3000 / watts:.1f}"
        rows.append(row(**common, metric="power_efficiency", value=value, unit="MB/s/W"))
    assert [f.rows for f in check("implied_watts", rows)] == [["004", "001", "005"]]


def test_energy_over_time_is_power_as_well() -> None:
    rows = []
    for name, joules in (("a", 10_000), ("b", 10_100), ("c", 9_900), ("d", 17_000), ("e", 10_050)):
        common = {"config": "A", "rw_mix": "50/50", "block_size": name, "kind": "measured"}
        rows.append(row(**common, metric="energy", value=joules, unit="J"))
        rows.append(row(**common, metric="completion_time", value=500, unit="s"))
    assert [f.rows for f in check("implied_watts", rows)] == [["007", "008"]]


@pytest.mark.parametrize(
    "watts",
    [
        [25.0, 23.0, 21.0, 20.0],  # falls with the share of reads, as usual
        [20.0, 18.0, 20.0, 19.0],  # ordinary scatter
        [10.0, 20.0, 40.0, 80.0],  # no family
        [228.0, 228.0, 150.0, 150.0],  # two of four: not a family either
    ],
)
def test_ordinary_families_are_left_alone(watts: list[float]) -> None:
    assert check("implied_watts", cells("A", watts)) == []


def test_a_point_that_would_fit_is_the_authors_right() -> None:
    """Check that there is no finding if the watts fit at another printed point."""
    rows = cells("A", [228, 231, 226, 158], x="not_stated")
    other = dict(rows[6], x_value="4", value="5900", printed="5900")
    assert check("implied_watts", [*rows, other]) == []


def test_reads_are_no_siblings_of_writes() -> None:
    mixes = ("100/0", "100/0 ", "0/100", "50/50")
    assert check("implied_watts", cells("A", [10, 10, 20, 16], mixes=mixes)) == []


def gains(
    throughput: float, efficiency: float, power: float, x: object = 256
) -> list[dict[str, str]]:
    """Return three claims of A against B in percent: throughput, efficiency, power."""
    common = {"config": "A", "compare_config": "B", "kind": "ratio_claim", "unit": "%"}
    at = {"block_size": "4KB", "x_name": "workers", "x_value": x, "qualifier": "exact"}
    return [
        row(**common, **at, metric="throughput_increase", value=throughput),
        row(**common, **at, metric="power_efficiency_increase", value=efficiency),
        row(**common, metric="max_power_reduction", value=power),
    ]


def test_gains_that_imply_more_power_where_less_is_claimed() -> None:
    found = check("implied_watts", gains(147, 104, 20))
    assert [(f.severity, f.rows) for f in found] == [("note", ["001", "002", "003"])]
    assert "21 % more" in found[0].recomputed


def test_gains_that_agree_with_the_claim_about_power() -> None:
    assert check("implied_watts", gains(30, 62, 20)) == []
    assert check("implied_watts", gains(30, 30, 20)) == []  # equal power is not a contradiction
    assert check("implied_watts", gains(147, 104, 20)[:2]) == []
    other_point = gains(147, 104, 20)
    other_point[1]["x_value"] = "512"
    assert check("implied_watts", other_point) == []
