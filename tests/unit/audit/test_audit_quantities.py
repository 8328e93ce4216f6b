"""Meaning of names and units, possible values of printed numbers, and parsing of tables."""

from __future__ import annotations

from pathlib import Path

import pytest

from storlab.audit import RULES, audit_table, rule_summaries
from storlab.audit.intervals import Interval, printed_interval, shown, si_interval
from storlab.audit.quantities import operation_of, quantity, quantity_of, size_bytes
from storlab.audit.table import PublishedTable, load_published, read_table
from storlab.audit.units import parse_unit
from storlab.base.errors import ResultError, UsageError
from storlab.model.published import COLUMNS, published_dir, published_names
from support.audit_tables import cell, claim, fact, headline, table


@pytest.mark.parametrize(
    ("metric", "unit", "name", "statistic", "factor"),
    [
        ("throughput_mb_s", "", "throughput", "", 1e6),
        ("bandwidth", "GiB/s", "throughput", "", 2.0**30),
        ("tput", "MBps", "throughput", "", 1e6),
        ("bw_gib_s", "", "throughput", "", 2.0**30),
        ("throughput", "Gb/s", "throughput", "", 1.25e8),
        ("throughput", "IOPS", "iops", "", 1.0),
        ("iops", "K", "iops", "", 1e3),
        ("iops", "", "iops", "", 1.0),
        ("latency_mean", "us", "latency", "avg", 1e-6),
        ("lat_p99_ms", "", "latency", "p99", 1e-3),
        ("latency_p99_9", "µs", "latency", "p999", 1e-6),
        ("clat_p99.99_us", "", "latency", "p9999", 1e-6),
        ("99th_percentile_latency", "ms", "latency", "p99", 1e-3),
        ("median_latency", "ms", "latency", "p50", 1e-3),
        ("readLatencyAvg", "ms", "latency", "avg", 1e-3),
        ("time_to_first_byte", "ms", "ttfb", "", 1e-3),
        ("power_w", "", "power", "", 1.0),
        ("watts", "", "power", "", 1.0),
        ("power_avg", "kW", "power", "avg", 1e3),
        ("energy_wh", "", "energy", "", 3600.0),
        ("energy", "kWh", "energy", "", 3.6e6),
        ("throughput_per_watt", "MB/s/W", "power_efficiency", "", 1e6),
        ("MB/s/W", "", "power_efficiency", "", 1e6),
        ("power_efficiency", "MB/s per W", "power_efficiency", "", 1e6),
        ("TB/kWh", "", "energy_efficiency", "", 1e12 / 3.6e6),
        ("tb_per_kwh", "", "energy_efficiency", "", 1e12 / 3.6e6),
        ("throughput_per_tb", "GB/s/TB", "throughput_per_tb", "", 1e-3),
        ("iops_per_tb", "IOPS/TB", "iops_per_tb", "", 1e-12),
        ("rated_capacity", "TB", "capacity", "", 1e12),
        ("total_cost", "USD", "price", "", 1.0),
    ],
)
def test_quantities(metric: str, unit: str, name: str, statistic: str, factor: float) -> None:
    found = quantity(metric, unit)
    assert (found.name, found.statistic, found.form) == (name, statistic, "value")
    assert found.unit is not None
    assert found.unit.factor == pytest.approx(factor)


@pytest.mark.parametrize(
    ("metric", "unit", "name", "form"),
    [
        ("throughput_ratio", "x", "throughput", "ratio"),
        ("iops_speedup", "x", "iops", "ratio"),
        ("time_increase", "%", "duration", "increase"),
        ("slower_throughput", "%", "throughput", "slower"),
        ("latency_p99_ratio", "x", "latency", "ratio"),
        ("max_power_reduction", "%", "power", "reduction"),
        ("faster_time", "%", "duration", "faster"),
        ("bw_improvement", "%", "throughput", "better"),
    ],
)
def test_claims(metric: str, unit: str, name: str, form: str) -> None:
    assert (quantity(metric, unit).name, quantity(metric, unit).form) == (name, form)


def test_ends_of_ranges_are_no_statistics() -> None:
    assert quantity("throughput_ratio_max", "x").bound == "max"
    assert quantity("throughput_ratio_max", "x").statistic == ""
    (row,) = table(headline("ttfb_min", "3", "ms", "range_min")).rows
    assert (quantity_of(row).bound, quantity_of(row).statistic) == ("min", "")
    (row,) = table(cell("latency_min", "3", "ms")).rows
    assert quantity_of(row).statistic == "min"


@pytest.mark.parametrize("text", ["bananas", "MB/banana", "", "MT/s"])
def test_unknown_units_stay_unknown(text: str) -> None:
    assert parse_unit(text) is None


def test_sizes_in_si_letters_may_mean_either() -> None:
    assert size_bytes("4 KB") == (4000.0, 4096.0)
    assert size_bytes("256KiB") == (262144.0,)
    assert size_bytes("large") == ()


@pytest.mark.parametrize(
    ("op", "metric", "expected"),
    [("GET", "throughput", "get"), ("Read+Write", "iops", "total"), ("", "write_iops", "write")],
)
def test_operations(op: str, metric: str, expected: str) -> None:
    assert operation_of(table(cell(metric, "1", "", op=op)).rows[0]) == expected


@pytest.mark.parametrize(
    ("printed", "value", "low", "high"),
    [
        ("3.1", "3.1", 3.05, 3.2),
        ("1,606.80", "1606.8", 1606.795, 1606.81),
        ("5.2 million", "5200000", 5_150_000, 5_300_000),
        ("45x–56x", "56", 55.5, 57),
        ("12,000", "12000", 11_500, 12_500),
        ("112 GB/s", "112", 111.5, 113),
        ("", "1687.0", 1686.5, 1688),
        ("", "0.64", 0.635, 0.65),
    ],
)
def test_what_a_printed_number_stands_for(
    printed: str, value: str, low: float, high: float
) -> None:
    (row,) = table(cell("throughput", printed, "MB/s", value=value)).rows
    found = printed_interval(row)
    assert found is not None
    assert (found.low, found.high) == pytest.approx((low, high))


def test_qualifiers_open_or_widen() -> None:
    def interval(qualifier: str, printed: str = "50") -> Interval | None:
        return printed_interval(table(claim("x_ratio", printed, qualifier=qualifier)).rows[0])

    assert interval("approx") == Interval(49, 51)
    assert interval("more_than") == Interval(49.5, float("inf"))
    assert interval("below") == Interval(float("-inf"), 50.5)
    assert interval("up_to") == Interval(float("-inf"), 51)
    assert interval("exact", "≈ 58") == Interval(57, 59)


def test_units_of_one_quantity_meet() -> None:
    rows = table(fact("ramp", "300", "s"), fact("ramp", "5", "min"), fact("a_b", "x", "")).rows
    first, second, third = (si_interval(row) for row in rows)
    assert first is not None
    assert second is not None
    assert first.meets(second)
    assert third is None


def test_interval_arithmetic_at_its_edges() -> None:
    around = Interval(-1, 1)
    assert Interval(1, 2) / around == Interval(float("-inf"), float("inf"))
    assert Interval(1, 2) / Interval(0, 1) == Interval(1, float("inf"))
    assert Interval(1, 2).below(Interval(3, 4))
    assert not Interval(1, 2).below(Interval(2, 4))
    assert shown(1234.5678) == "1,235"
    assert shown(0.0001234) == "0.0001234"


def _write(place: Path, text: str) -> Path:
    path = place / "t.csv"
    path.write_text(text, encoding="utf-8")
    return path


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "has no column"),
        ("config,metric,valeu\n", 'rename "valeu"'),
        ("config,metric,value\na,b\n", "line 2"),
        ("id,config,metric,value\n1,a,b,2\n1,a,c,2\n", "is already in line 2"),
        ("config,config,metric,value\n", "twice"),
        ('config,metric,value\n"a,b,1\n', "line"),
    ],
)
def test_a_damaged_table_names_the_place(tmp_path: Path, text: str, words: str) -> None:
    with pytest.raises(ResultError, match=words):
        read_table(_write(tmp_path, text))


def test_files_that_are_no_table(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_bytes(b"config,metric,value\n\xff\xfe,a,1\n")
    with pytest.raises(ResultError, match="UTF-8"):
        read_table(tmp_path / "t.csv")
    with pytest.raises(ResultError, match="No such file"):
        load_published(tmp_path / "none.csv")


def test_optional_columns_and_further_ones(tmp_path: Path) -> None:
    head = "\ufeffmetric,config,value,compare_config,mood\n"
    text = f"{head}iops_ratio,A,2.5,B,fine\nkernel,A,5.15-2,,\n"
    rows = read_table(_write(tmp_path, text)).rows
    assert [(r.id, r.kind, r.value, r.printed) for r in rows] == [
        ("001", "ratio_claim", 2.5, "2.5"),
        ("002", "measured", None, "5.15-2"),
    ]


def test_selecting() -> None:
    found = table(cell("iops", "1", ""), cell("iops", "2", "", "B"), cell("bw", "3", "MB/s"))
    assert [r.id for r in found.select(config="A", metric=("iops", "bw"))] == ["001", "003"]
    first, *_ = found.rows
    assert (first.x, first.decimals, first.is_measured) == (8.0, 0, True)


@pytest.mark.parametrize("name", published_names())
def test_shipped_tables_are_read_whole(name: str) -> None:
    found = load_published(name)
    assert len(found.rows) > 50
    header = (published_dir() / f"{name}.csv").read_text(encoding="utf-8").splitlines()[0]
    assert header == ",".join(COLUMNS)
    units = {r.unit for r in found.rows if r.kind == "measured"}
    assert all(parse_unit(unit) is not None for unit in units)


def test_every_rule_has_a_summary_and_a_page() -> None:
    page = (Path(__file__).parents[3] / "docs" / "audit.md").read_text(encoding="utf-8")
    for name, summary in rule_summaries().items():
        assert summary
        assert "\n" not in summary
        assert f"| `{name}` |" in page


def test_rules_are_chosen_by_name_and_findings_come_sorted() -> None:
    found = table(
        cell("ttfb", "3", "ms"),
        cell("ttfb", "289", "ms", "B"),
        claim("ttfb_ratio", "96"),
        claim("slower_throughput", "135", "%"),
    )
    names = ("ratio_arithmetic", "percent_language")
    assert [f.severity for f in audit_table(found, names)] == ["error", "note"]
    assert audit_table(found, ["totals"]) == []
    with pytest.raises(UsageError, match="percent_language"):
        audit_table(found, ["percent_langage"])


def test_a_table_of_nothing_has_no_findings() -> None:
    assert audit_table(PublishedTable("empty", "", ()), list(RULES)[:7]) == []
