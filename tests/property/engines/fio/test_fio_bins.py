"""fio's bins as histograms: no count is lost, and none moves by more than a bucket."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from storlab.engines.fio import result as fio_result
from storlab.engines.fio.result import Figures, Latency

bins = st.dictionaries(st.integers(1, 3_600_000_000_000 - 1), st.integers(1, 10**6), min_size=1)
latencies = st.builds(
    lambda b: Latency(
        "lat",
        sum(b.values()),
        sum(k * n for k, n in b.items()) / sum(b.values()),
        min(b),
        max(b),
        0.0,
        {},
        b,
    ),
    bins,
)


@given(bins)
def test_counts_stay_and_values_move_less_than_a_thousandth(found: dict[int, int]) -> None:
    histogram = fio_result.histogram(found)
    assert histogram.count == sum(found.values())
    for percent in (0.0, 50.0, 99.0, 100.0):
        value = histogram.percentile(percent)
        nearest = min(found, key=lambda middle: abs(middle - value))
        assert abs(value - nearest) <= max(1, nearest // 1000)


@given(latencies)
def test_summaries_are_ordered_and_within_the_extremes(latency: Latency) -> None:
    summary = fio_result.summary(latency)
    assert summary is not None
    inner = [summary.p50_ns, summary.p90_ns, summary.p99_ns, summary.p999_ns, summary.p9999_ns]
    assert [summary.min_ns, *inner, summary.max_ns] == sorted(
        [summary.min_ns, *inner, summary.max_ns]
    )


@given(st.lists(latencies, min_size=2, max_size=4))
def test_merging_jobs_adds_counts_and_pools_moments(parts: list[Latency]) -> None:
    figures = [
        Figures({"read": fio_result.Direction(p.count, p.count, 0, 1, p)}, 0.0, 0.0, 1, 0, None)
        for p in parts
    ]
    merged = fio_result.merge(figures).directions["read"].latency
    assert merged is not None
    assert merged.count == sum(p.count for p in parts) == sum(merged.bins.values())
    assert merged.min_ns == min(p.min_ns for p in parts)
    assert merged.max_ns == max(p.max_ns for p in parts)
    low, high = min(p.mean_ns for p in parts), max(p.mean_ns for p in parts)
    assert low * (1 - 1e-9) <= merged.mean_ns <= high * (1 + 1e-9)
