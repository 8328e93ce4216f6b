"""Latency ratios whose sides had different numbers of operations in flight."""

from __future__ import annotations

from unit.audit.audit_rows import check, row


def side(config: str, rate: float, read_ms: float, write_ms: float | None) -> list[dict[str, str]]:
    """Return one configuration at 50/50: total rate and mean latencies."""
    common = {"config": config, "workload": "mixed", "rw_mix": "50/50", "block_size": "64KiB"}
    common |= {"kind": "measured"}
    rows = [row(**common, op="total", metric="iops", value=rate, unit="IOPS")]
    for op, value in (("read", read_ms), ("write", write_ms)):
        if value is not None:
            rows.append(row(**common, op=op, metric="latency_mean", value=value, unit="ms"))
    return rows


def ratio(metric: str = "latency_ratio", printed: str = "100x") -> dict[str, str]:
    return row(
        config="A",
        compare_config="B",
        workload="mixed",
        rw_mix="50/50",
        block_size="64KiB",
        op="read",
        metric=metric,
        value=100,
        unit="x",
        kind="ratio_claim",
        printed=printed,
    )


def test_a_claimed_ratio_at_different_concurrency_is_a_warning() -> None:
    rows = [*side("A", 10_000, 0.5, 0.5), *side("B", 10_000, 50.0, 50.0), ratio()]
    found = check("effective_concurrency", rows)
    assert [f.severity for f in found] == ["warning"]
    assert "007" in found[0].rows
    assert {"001", "002", "003", "004", "005", "006"} <= set(found[0].rows)
    assert "different effective concurrency" in found[0].why
    assert "100x" in found[0].printed


def test_latencies_side_by_side_without_a_claim_are_a_note() -> None:
    rows = [*side("A", 10_000, 0.5, 0.5), *side("B", 10_000, 50.0, 50.0)]
    assert [f.severity for f in check("effective_concurrency", rows)] == ["note"]


def test_the_same_concurrency_is_left_alone() -> None:
    rows = [*side("A", 100_000, 0.5, 0.5), *side("B", 1_000, 50.0, 50.0), ratio()]
    assert check("effective_concurrency", rows) == []


def test_rounding_is_allowed_for() -> None:
    rows = [*side("A", 100_000, 0.1, 0.1), *side("B", 1_000, 11.0, 11.0), ratio()]
    assert check("effective_concurrency", rows) == []


def test_one_operation_is_enough_when_only_it_is_printed() -> None:
    rows = [*side("A", 10_000, 0.5, None), *side("B", 10_000, 50.0, None), ratio("lat_speedup")]
    assert len(check("effective_concurrency", rows)) == 1


def test_without_rates_nothing_is_said() -> None:
    rows = [*side("A", 10_000, 0.5, 0.5)[1:], *side("B", 10_000, 50.0, 50.0)[1:], ratio()]
    assert check("effective_concurrency", rows) == []


def test_points_are_compared_with_themselves() -> None:
    """Check that equal operating points are compared: 8 with 8 and 64 with 64 in flight."""
    rows = []
    for config, rate in (("A", 100_000.0), ("B", 1_000.0)):
        for jobs in (1, 8):
            made = side(config, rate, 8e3 * jobs / rate, 8e3 * jobs / rate)
            rows += [dict(cells, x_name="numjobs", x_value=str(jobs)) for cells in made]
    assert check("effective_concurrency", rows) == []
