"""What the histograms of samples say, read off their encodings: columns of ``samples.parquet``."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple


class LatencyColumns(NamedTuple):
    """Of each sample, in ns."""

    mean: Sequence[float]
    p50: Sequence[int]
    p99: Sequence[int]
    most: Sequence[int]


def latencies_of(histograms: Iterable[bytes]) -> LatencyColumns:
    """Of V2 encodings; all zeros where nothing was counted. Raises ``ValueError`` for damage."""
    from storlab._native import latency_columns

    return LatencyColumns(*latency_columns([*histograms]))
