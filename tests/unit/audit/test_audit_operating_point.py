"""Efficiency and performance, or sides of a ratio, at different operating points."""

from __future__ import annotations

from unit.audit.audit_rows import check, row, setting


def value(config: str, metric: str, number: float, unit: str, x: object = "") -> dict[str, str]:
    return row(
        config=config,
        rw_mix="70/30",
        block_size="1MB",
        op="read+write",
        metric=metric,
        value=number,
        unit=unit,
        x_name="numjobs",
        x_value=x,
        kind="measured",
    )


def claim(metric: str, number: float, unit: str, x: object, **more: object) -> dict[str, str]:
    known: dict[str, object] = {
        "config": "A",
        "compare_config": "B",
        "rw_mix": "70/30",
        "block_size": "1MB",
        "x_name": "numjobs",
        "kind": "ratio_claim",
    }
    return row(**{**known, **more}, metric=metric, value=number, unit=unit, x_value=x)


def test_efficiency_without_a_point_beside_throughput_with_several() -> None:
    rows = [value("A", "bandwidth", 1000 * j, "MB/s", j) for j in (1, 8)]
    rows.append(value("A", "power_efficiency", 150, "MB/s/W", "not_stated"))
    rows.append(value("A", "energy_efficiency", 540, "TB/kWh", "not_stated"))
    found = check("operating_point", rows)
    assert [(f.severity, f.rows) for f in found] == [("warning", ["003", "004"])]
    assert "1, 8" in found[0].recomputed


def test_efficiency_at_a_point_of_its_own() -> None:
    rows = [value("A", "tput", 1000, "MB/s", 8), value("A", "MB/s/W", 150, "MB/s/W", 2)]
    assert [f.rows for f in check("operating_point", rows)] == [["002", "001"]]


def test_efficiency_at_the_point_of_its_throughput() -> None:
    rows = [value("A", "throughput", 1000 * j, "MB/s", j) for j in (1, 8)]
    assert check("operating_point", [*rows, value("A", "power_efficiency", 9, "MB/s/W", 8)]) == []


def test_a_table_with_one_point_needs_no_name_for_it() -> None:
    rows = [value("A", "throughput", 1000, "MB/s"), value("A", "power_efficiency", 9, "MB/s/W")]
    assert check("operating_point", rows) == []


def test_gains_read_at_different_points() -> None:
    rows = [
        claim("throughput_increase", 42, "%", 128),
        claim("power_efficiency_increase", 36, "%", 64),
    ]
    found = check("operating_point", rows)
    assert [(f.severity, f.rows) for f in found] == [("warning", ["001", "002"])]


def test_gains_read_at_one_point() -> None:
    rows = [
        claim("throughput_increase", 42, "%", 128),
        claim("power_efficiency_increase", 36, "%", 128),
        claim("power_efficiency_increase", 38, "%", 64),
    ]
    assert check("operating_point", rows) == []


def test_a_gain_away_from_best_performance_is_a_note() -> None:
    best = setting("workers_at_max_performance", 512, config="A / B")
    best["block_size"] = "1MB"
    found = check("operating_point", [best, claim("throughput_increase", 147, "%", 256)])
    assert [(f.severity, f.rows) for f in found] == [("note", ["002", "001"])]
    assert check("operating_point", [best, claim("throughput_increase", 40, "%", 512)]) == []


def test_a_ratio_of_values_at_different_points() -> None:
    rows = [
        *(value("A", "throughput", v, "MB/s", j) for j, v in ((1, 2000), (8, 6000))),
        *(value("B", "throughput", v, "MB/s", j) for j, v in ((1, 500), (8, 1000))),
    ]
    across = claim("throughput_ratio", 12.0, "x", "", op="read+write", printed="12.0x")
    found = check("operating_point", [*rows, across])
    assert [f.rows for f in found] == [["005", "002", "003"]]
    fair = claim("throughput_ratio", 6.0, "x", "", op="read+write", printed="6.0x")
    assert check("operating_point", [*rows, fair]) == []


def test_maxima_at_different_loads_are_one_note() -> None:
    rows = [value("A", "iops", 5e6, "IOPS", 8), value("B", "iops", 6e6, "IOPS", 16)]
    found = check("operating_point", rows)
    assert [(f.severity, f.rows) for f in found] == [("note", ["001", "002"])]
    rows[0]["x_value"] = "8,16"
    assert check("operating_point", rows) == []
