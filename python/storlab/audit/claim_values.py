"""Recomputation of the metric that a claim compares, from the stored runs of one target."""

from __future__ import annotations

import re
from base64 import b64decode
from collections.abc import Sequence
from statistics import median

from storlab.analysis.columns import FAMILY_DISTRIBUTIONS, PERCENTS, TIMES
from storlab.analysis.dataset import merge
from storlab.analysis.stats import mean_interval
from storlab.base.units import NS_PER_S
from storlab.model.result import RunRecord

_PERCENTILE = re.compile(rf"({'|'.join(TIMES)})_({'|'.join(PERCENTS)})_ns\.(\w+)")


def is_percentile(metric: str) -> bool:
    """Return whether a metric is a time percentile, which is read from merged histograms."""
    return _PERCENTILE.fullmatch(metric) is not None


def estimate(metric: str, records: Sequence[RunRecord], values: Sequence[float]) -> float:
    """Return the estimate of a metric over several runs, in SI base units.

    Percentiles are taken over the operations of all runs, or are the median of ``values`` if a run
    has no histogram; other metrics are the mean of ``values``.
    """
    again = percentile(metric, records)
    if again is not None:
        return again
    return median(values) if is_percentile(metric) else mean_interval(values).estimate


def percentile(metric: str, records: Sequence[RunRecord]) -> float | None:
    """Return a percentile of the runs' merged histograms in seconds.

    None for metrics that are not percentiles, or if a run has no histogram.
    """
    match = _PERCENTILE.fullmatch(metric)
    if match is None:
        return None
    time, statistic, operation = match.groups()
    if time in FAMILY_DISTRIBUTIONS:
        time, operation = "latency", FAMILY_DISTRIBUTIONS[time].operation
    encoded = [record.histograms.get(time, {}).get(operation) for record in records]
    merged = merge([b64decode(text) for text in encoded if text])
    if merged is None or not merged.count or None in encoded:
        return None
    return float(merged.percentile(PERCENTS[statistic])) / NS_PER_S
