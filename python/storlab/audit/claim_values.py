"""What the runs of one side of a claim say of its metric, computed once more."""

from __future__ import annotations

import re
from base64 import b64decode
from collections.abc import Sequence

from storlab.analysis.columns import OWN_TIMES, PERCENTS, TIMES
from storlab.analysis.dataset import merge
from storlab.analysis.stats import Interval, mean_interval
from storlab.base.units import NS_PER_S
from storlab.model.result import RunRecord

_PERCENTILE = re.compile(rf"({'|'.join(TIMES)})_({'|'.join(PERCENTS)})_ns\.(\w+)")


def is_percentile(metric: str) -> bool:
    """Whether a metric is a percentile of times: it is read from merged histograms."""
    return _PERCENTILE.fullmatch(metric) is not None


def estimate(metric: str, records: Sequence[RunRecord], values: Sequence[float]) -> float:
    """Of all runs together, in SI base units: their mean, or the percentile of all operations."""
    again = percentile(metric, records)
    return mean_interval(values).estimate if again is None else again


def percentile(metric: str, records: Sequence[RunRecord]) -> float | None:
    """In s, of the histograms that the runs recorded; None of another metric, and without them."""
    match = _PERCENTILE.fullmatch(metric)
    if match is None:
        return None
    time, statistic, operation = match.groups()
    if time in OWN_TIMES:
        time, operation = "latency", OWN_TIMES[time].operation
    encoded = [record.histograms.get(time, {}).get(operation) for record in records]
    merged = merge([b64decode(text) for text in encoded if text])
    if merged is None or not merged.count or None in encoded:
        return None
    return float(merged.percentile(PERCENTS[statistic])) / NS_PER_S


def widened(interval: Interval, to: float) -> Interval:
    """The interval around another estimate, which it holds."""
    if interval.low is None or interval.high is None:
        return Interval(to, interval.low, interval.high, interval.n)
    return Interval(to, min(interval.low, to), max(interval.high, to), interval.n)


def scaled(ratio: Interval, share: float) -> Interval:
    """A ratio of what is divided by a declared fact."""
    low = None if ratio.low is None else ratio.low * share
    high = None if ratio.high is None else ratio.high * share
    return Interval(ratio.estimate * share, low, high, ratio.n)
