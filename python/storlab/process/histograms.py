"""Conversion of single latencies, recorded by other programs, to histograms and summaries."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from storlab._native import Histogram
from storlab.model.result import LatencySummary

Ints = npt.NDArray[np.int64]


def histogram(values_ns: Ints) -> Histogram:
    """Return a histogram of latencies in ns; values below 1 ns count as 1 ns."""
    result = Histogram()
    values, counts = np.unique(np.maximum(values_ns, 1), return_counts=True)
    for value, count in zip(values.tolist(), counts.tolist(), strict=True):
        result.record(value, count)
    return result


def summary(values_ns: Ints) -> LatencySummary | None:
    """Return a summary of latencies in ns, or None if there are none.

    Mean, minimum, maximum and deviation are exact.
    """
    if not len(values_ns):
        return None
    merged = histogram(values_ns)
    return LatencySummary(
        count=len(values_ns),
        mean_ns=float(values_ns.mean()),
        min_ns=int(values_ns.min()),
        p50_ns=merged.percentile(50),
        p90_ns=merged.percentile(90),
        p99_ns=merged.percentile(99),
        p999_ns=merged.percentile(99.9),
        p9999_ns=merged.percentile(99.99),
        max_ns=int(values_ns.max()),
        stdev_ns=float(values_ns.std()),
    )
