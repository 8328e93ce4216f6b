"""Headlines against the cells."""

from __future__ import annotations

import pytest

from support.audit_tables import cell, claim, fact, findings, headline, severities

RULE = "headlines"
Row = dict[str, str]
MIXES = ("30/70", "50/50", "90/10")


def _cells(metric: str, first: list[str], other: list[str], unit: str, **more: str) -> list[Row]:
    """Return one pair of cells per mix."""
    return [
        cell(metric, value, unit, config, rw_mix=mix, **more)
        for config, values in (("A", first), ("B", other))
        for mix, value in zip(MIXES, values, strict=True)
    ]


THROUGHPUT = _cells("throughput", ["4,500", "5,300", "8,473"], ["100", "100", "187"], "MB/s")
TTFB = _cells("ttfb", ["5.0", "3.0", "3.0"], ["180", "196", "289"], "ms")


def test_the_highest_cell_supports_up_to() -> None:
    found = findings(RULE, *THROUGHPUT, headline("throughput_ratio", "53"))
    assert [f.severity for f in found] == ["note"]  # the range is not stated
    assert "3 cells" in found[0].recomputed


def test_a_range_says_what_a_maximum_leaves_out() -> None:
    rows = [
        headline("throughput_ratio", "53"),
        headline("throughput_ratio_min", "45", qualifier="range_min"),
        headline("throughput_ratio_max", "53", qualifier="range_max"),
    ]
    assert severities(RULE, *THROUGHPUT, *rows) == []


@pytest.mark.parametrize("metric", ["throughput_ratio", "throughput_speedup", "throughput_factor"])
def test_a_headline_beyond_every_cell_is_an_error(metric: str) -> None:
    found = findings(RULE, *THROUGHPUT, headline(metric, "60"))
    assert [f.severity for f in found] == ["error"]
    assert "53" in found[0].recomputed


def test_rounding_up_past_the_nearest_number_is_named() -> None:
    rows = _cells("iops", ["5,224", "4,000", "3,000"], ["100.0", "100.0", "100.0"], "IOPS")
    found = findings(RULE, *rows, headline("iops_ratio", "53"))
    assert [f.severity for f in found] == ["error"]
    assert "rounded up" in found[0].why


def test_a_table_that_leaves_cells_out_gives_a_warning() -> None:
    elsewhere = cell("latency_avg", "3.0", "ms", rw_mix="70/30")
    assert severities(RULE, *THROUGHPUT, elsewhere, headline("throughput_ratio", "60")) == [
        "warning"
    ]
    tried = [fact("jobs_tested", n, "count", "") for n in ("4", "8")]
    assert severities(RULE, *THROUGHPUT, *tried, headline("throughput_ratio", "60")) == ["warning"]


def test_cells_outside_of_a_range_give_a_warning() -> None:
    high = headline("throughput_ratio_max", "50", qualifier="range_max")
    low = headline("throughput_ratio_min", "49", qualifier="range_min")
    assert severities(RULE, *THROUGHPUT, high) == ["warning"]
    assert severities(RULE, *THROUGHPUT, low) == ["warning"]


def test_latency_ratios_count_the_other_way_round() -> None:
    ranges = [
        headline("ttfb_ratio_min", "36", qualifier="range_min"),
        headline("ttfb_ratio_max", "96", qualifier="range_max"),
    ]
    assert severities(RULE, *TTFB, *ranges, headline("ttfb_ratio", "96")) == []
    assert severities(RULE, *TTFB, headline("ttfb_ratio", "120")) == ["error"]


@pytest.mark.parametrize(
    ("metric", "printed", "qualifier", "expected"),
    [
        ("ttfb_min", "3", "range_min", []),
        ("ttfb_max", "5", "range_max", []),
        ("ttfb_max", "4.0", "range_max", ["warning"]),
        ("ttfb_min", "1.0", "range_min", ["error"]),
        ("ttfb", "6", "below", []),
        ("ttfb", "4", "less_than", ["error"]),
    ],
)
def test_values_of_one_configuration(
    metric: str, printed: str, qualifier: str, expected: list[str]
) -> None:
    stated = headline(metric, printed, "ms", qualifier, compare_config="")
    assert severities(RULE, *TTFB, stated) == expected


def test_percentages_rest_on_claims_about_one_cell() -> None:
    claims = [
        claim("throughput_increase", value, "%", rw_mix=mix)
        for mix, value in zip(MIXES, ("30", "42", "147"), strict=True)
    ]
    up_to = headline("throughput_increase", "147", "%", kind="ratio_claim")
    assert severities(RULE, *claims, up_to) == ["note"]
    wrong = headline("throughput_increase", "200", "%", kind="ratio_claim")
    assert severities(RULE, *claims, wrong) == ["error"]


def test_throughput_may_follow_from_throughput_per_tb() -> None:
    rows = [
        fact("capacity", "245", "TB", "A"),
        fact("capacity", "256", "TB", "B"),
        *_cells("throughput_per_tb", ["17.0", "21.4", "34.6"], ["0.32", "0.37", "0.73"], "MB/s/TB"),
        headline("throughput_ratio_max", "56", qualifier="range_max"),
    ]
    assert severities(RULE, *rows) == []
    rows[-1] = headline("throughput_ratio_max", "75", qualifier="range_max")
    assert severities(RULE, *rows) == ["warning"]


def test_a_headline_without_cells_is_a_note_once() -> None:
    rows = [headline("energy_ratio", "3"), headline("energy_ratio", "3", qualifier="headline")]
    found = findings(RULE, *rows)
    assert [(f.severity, f.rows) for f in found] == [("note", ["001", "002"])]


def test_a_maximum_is_not_below_one_of_its_points() -> None:
    rows = [cell("iops", "6.6", "MIOPS", at=at) for at in ("max_over_depths", "16")]
    assert severities(RULE, *rows) == []
    higher = cell("iops", "6.9", "MIOPS", at="32")
    assert severities(RULE, *rows, higher) == ["error"]


def test_one_cell_is_no_maximum_over_many() -> None:
    pair = [cell("throughput", v, "MB/s", c) for c, v in (("A", "530"), ("B", "100"))]
    assert severities(RULE, *pair, headline("throughput_ratio", "5.3")) == []


def _sizes() -> list[Row]:
    """Return 4.1x at 256 KB and 14.8x at 4 MB; 4 MB of A over 256 KB of B is 16x."""
    values = {("A", "256KB"): "410", ("B", "256KB"): "100", ("A", "4MB"): "1,600"}
    values["B", "4MB"] = "108"
    return [
        cell("throughput", value, "MB/s", config, block_size=size)
        for (config, size), value in values.items()
    ]


def test_a_gain_between_two_block_sizes_is_named() -> None:
    (found,) = findings(RULE, *_sizes(), headline("throughput_ratio", "16"))
    assert "between two block sizes: 1,600 MB/s at 4MB and 100 MB/s at 256KB" in found.why
    (found,) = findings(RULE, *_sizes(), headline("throughput_ratio", "19"))
    assert "block sizes" not in found.why


def test_a_gain_of_one_cell_is_tried_between_block_sizes_too() -> None:
    found = findings(
        "ratio_arithmetic", *_sizes(), claim("throughput_ratio", "16", block_size="256KB")
    )
    assert [f.severity for f in found] == ["error"]
    assert "between two block sizes" in found[0].why
    fine = claim("throughput_ratio", "14.8", block_size="4MB")
    assert findings("ratio_arithmetic", *_sizes(), fine) == []
