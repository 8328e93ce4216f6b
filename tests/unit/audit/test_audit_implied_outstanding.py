"""Little's law: latencies that are impossible at the configured load."""

from __future__ import annotations

import pytest

from unit.audit.audit_rows import check, row, setting


def cell(
    rate: float,
    latency_ms: float,
    *,
    x: tuple[str, object] = ("numjobs", 8),
    latency_x: object = "",
    names: tuple[str, str, str] = ("iops", "latency_avg", "ms"),
) -> list[dict[str, str]]:
    """Return random reads of one configuration: a rate and its mean latency."""
    common = {"config": "A", "workload": "randread", "rw_mix": "100/0", "block_size": "4KiB"}
    common |= {"op": "read", "kind": "measured", "x_name": x[0]}
    at = latency_x or x[1]
    scale = {"ms": 1, "us": 1e3, "s": 1e-3}[names[2]]
    return [
        row(**common, x_value=x[1], metric=names[0], value=rate, unit="IOPS"),
        row(**common, x_value=at, metric=names[1], value=latency_ms * scale, unit=names[2]),
    ]


def test_far_less_in_flight_than_configured() -> None:
    found = check("implied_outstanding", [setting("iodepth", 64), *cell(16_000, 0.5)])
    assert len(found) == 1
    assert found[0].severity == "warning"
    assert set(found[0].rows) == {"001", "002", "003"}
    assert "512 configured" in found[0].recomputed
    assert "Little" in found[0].why


def test_far_more_in_flight_than_configured() -> None:
    assert len(check("implied_outstanding", [setting("queue_depth", 16), *cell(2800, 700)])) == 1


def test_agreement_within_a_factor_of_two_is_left_alone() -> None:
    assert check("implied_outstanding", [setting("iodepth", 64), *cell(16_000, 32)]) == []
    assert check("implied_outstanding", [setting("iodepth", 64), *cell(16_000, 17)]) == []


def test_other_spellings_and_units() -> None:
    names = ("read_iops", "lat_mean", "us")
    assert len(check("implied_outstanding", [setting("qd", 64), *cell(16_000, 0.5, names=names)]))
    assert not check("implied_outstanding", [setting("qd", 64), *cell(16_000, 32, names=names)])


def test_depth_may_be_the_swept_parameter() -> None:
    rows = [setting("numjobs", 8), *cell(16_000, 0.5, x=("iodepth", 64))]
    assert len(check("implied_outstanding", rows)) == 1


def test_streams_hold_one_request_each() -> None:
    assert len(check("implied_outstanding", cell(16_000, 0.5, x=("concurrency", 512)))) == 1
    assert check("implied_outstanding", cell(16_000, 32, x=("concurrency", 512))) == []


def test_jobs_of_each_client_multiply() -> None:
    load = [setting("clients", 12), setting("numjobs_per_client", 32)]
    rows = [*load, *cell(1_000_000, 1.5, x=("iodepth", 4))]
    assert check("implied_outstanding", rows) == []
    rows = [*load, *cell(1_000_000, 0.1, x=("iodepth", 4))]
    assert len(check("implied_outstanding", rows)) == 1


@pytest.mark.parametrize("latency_ms", [0.001, 32.0, 700.0])
def test_nothing_is_said_where_the_load_is_not_stated(latency_ms: float) -> None:
    assert check("implied_outstanding", cell(16_000, latency_ms, x=("", ""))) == []


def test_jobs_without_a_depth_are_a_lower_bound() -> None:
    assert check("implied_outstanding", cell(16_000, 700)) == []
    assert len(check("implied_outstanding", cell(16_000, 0.1))) == 1


def test_a_depth_without_jobs_is_a_lower_bound() -> None:
    low = [setting("iodepth", 64), *cell(16_000, 0.5, x=("", ""))]
    high = [setting("iodepth", 64), *cell(16_000, 500, x=("", ""))]
    assert len(check("implied_outstanding", low)) == 1
    assert check("implied_outstanding", high) == []  # unstated jobs may explain it


def test_a_latency_without_its_point_may_be_of_any_printed_one() -> None:
    fits_at_one = [
        setting("iodepth", 64),
        *cell(16_000, 4.0, x=("numjobs", 1), latency_x="not_stated"),
        cell(40_000, 0, x=("numjobs", 8))[0],
    ]
    assert check("implied_outstanding", fits_at_one) == []
    fits_nowhere = [dict(r, value=r["value"].replace("4.0", "0.1")) for r in fits_at_one]
    assert len(check("implied_outstanding", fits_nowhere)) == 1


def test_a_mix_needs_both_latencies() -> None:
    common = {"config": "A", "rw_mix": "50/50", "block_size": "1MiB", "kind": "measured"}
    common |= {"x_name": "numjobs", "x_value": 1}
    rows = [
        setting("iodepth", 64),
        row(**common, op="read+write", metric="throughput", value=1000, unit="MiB/s"),
        row(**common, op="read", metric="latency_avg", value=2, unit="ms"),
    ]
    assert check("implied_outstanding", rows) == []  # the writes may account for the other 63
    rows.append(row(**common, op="write", metric="latency_avg", value=3, unit="ms"))
    found = check("implied_outstanding", rows)
    assert len(found) == 1
    assert "in flight, 64 configured" in found[0].recomputed
