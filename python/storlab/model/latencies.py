"""Latency columns of ``samples.parquet``, computed from encoded histograms."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple


class LatencyColumns(NamedTuple):
    """Latency statistics of each sample, in ns."""

    mean: Sequence[float]
    p50: Sequence[int]
    p99: Sequence[int]
    most: Sequence[int]


def latencies_of(histograms: Iterable[bytes]) -> LatencyColumns:
    """Compute latency statistics from HdrHistogram V2 encodings; zeros for an empty histogram.

    Raises:
        ValueError: An encoding is damaged.
    """
    from storlab._native import latency_columns

    return LatencyColumns(*latency_columns([*histograms]))
