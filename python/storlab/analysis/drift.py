"""Tests of whether the repeats of a point depend on their order in time.

Burst credits that run out, caches that fill and drives that heat up change a target between the
repeats. The mean over the repeats then describes none of the target's states. Two tests are applied
to the logarithms of the repeats, in the order in which they ran:

- a **step**: the largest two-sample t statistic of the repeats before and after each position,
  against Bonferroni's bound for the number of positions (Worsley 1979);
- a **trend**: the t statistic of the least-squares line through the repeats.

Both are exact for independent normal or log-normal noise of any size; together they have the error
probability ``ERROR``. Permutation tests would not need that assumption, but cannot reach 1 % with
five repeats: their smallest two-sided p-value is 2/120 for a trend and 2/10 for a step of two
against three.

With three repeats only one degree of freedom is left and the t test has no power. A step is then
reported by a fixed rule (``CLEAR_STEP`` and ``CLEAR_GAP``), which keeps its error rate for noise of
up to 10 %; percentiles scatter more, and are not tested with three repeats.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import datetime
from typing import Literal

from storlab.analysis.stats import RESOLUTION, t_quantile
from storlab.contracts.page import Page

DRIFT = "drift-between-repeats"
"""Kind of the flag for a point whose repeats depend on their order."""
ERROR = 0.01
"""Probability of reporting a drift if there is none, over all quantities of a point together."""
LEAST_CHANGE = 0.05
"""Smallest relative change that is reported, however significant smaller ones are."""
CLEAR_STEP = 0.25
"""Smallest change reported if one side is a single repeat, which may be an outlier."""
CLEAR_GAP = 20
"""Smallest reported step of three repeats, as a multiple of the difference of the other two."""
FEWEST = 3


@dataclass(frozen=True, slots=True)
class OrderEffect:
    """Step or trend found in the order of the repeats."""

    kind: Literal["step", "trend"]
    change: float  # later over earlier; for a trend, the line's last value over its first
    after: int | None  # for a step: number of repeats before it


@dataclass(frozen=True, slots=True)
class Drift(OrderEffect):
    """Metric of a point whose repeats depend on their order in time."""

    metric: str  # key of its column, such as throughput_mb_s.all
    values: tuple[float, ...]  # values of the repeats in order of time
    runs: list[str]  # ids of the runs in the same order


@dataclass(frozen=True, slots=True)
class Repeat:
    """Start time and values of one run of a point."""

    run_id: str
    started_at: str  # start time, ISO 8601
    values: Mapping[str, float]  # values by column key


def drifts_of(repeats: Sequence[Repeat], page: Page) -> list[Drift]:
    """Find the metrics of one point that depend on the order of its repeats in time.

    The main metric of the workload family and the mean and 99th percentile of each latency are
    tested. Nothing is tested if the start times of the runs do not define an order.
    """
    ordered = _in_time_order(repeats)
    if len(ordered) < FEWEST:
        return []
    statistics = ("mean",) if len(ordered) == FEWEST else ("mean", "p99")
    tested = _tested(page, statistics)
    keys = [key for key in tested if all(key in repeat.values for repeat in ordered)]
    drifts = []
    for key in keys:
        values = tuple(repeat.values[key] for repeat in ordered)
        effect = order_effect(values, ERROR / len(keys))
        if effect is not None:
            runs = [repeat.run_id for repeat in ordered]
            drifts.append(Drift(**asdict(effect), metric=key, values=values, runs=runs))
    return drifts


def _tested(page: Page, statistics: Sequence[str]) -> list[str]:
    latencies = [
        f"{time}_{statistic}_ns.{operation}"
        for time in ("latency", "intended_latency")
        for operation in page.operations.main
        for statistic in statistics
    ]
    return list(dict.fromkeys([*page.metrics.headline, *latencies]))


def _in_time_order(repeats: Sequence[Repeat]) -> list[Repeat]:
    """Sort by start time; empty if a start time is invalid or duplicate (some imported runs)."""
    try:
        times = [datetime.fromisoformat(repeat.started_at) for repeat in repeats]
        pairs = sorted(zip(times, repeats, strict=True), key=lambda pair: pair[0])
    except (ValueError, TypeError):  # no time, or only some have a time zone
        return []
    return [repeat for _, repeat in pairs] if len(set(times)) == len(times) else []


def order_effect(values: Sequence[float], error: float = ERROR) -> OrderEffect | None:
    """Test values in order of time for a step and for a trend.

    Args:
        values: One value per repeat, in the order in which they were measured.
        error: Probability of reporting an effect if there is none, with four or more values.

    Returns:
        The effect that leaves less of the spread unexplained. None if neither test finds one, if
        there are fewer than three values, or if a value is 0 or less.
    """
    if len(values) < FEWEST or min(values) <= 0:
        return None
    logs = [math.log(value) for value in values]
    if len(logs) == FEWEST:
        return _clear_step(logs)
    found = [test for test in (_step(logs, error / 2), _trend(logs, error / 2)) if test is not None]
    return min(found, key=lambda test: test[0])[1] if found else None


def _clear_step(logs: Sequence[float]) -> OrderEffect | None:
    """Return a step if one of three values lies far from the other two, which are close."""
    for after in (1, 2):
        _, pair = sorted((logs[:after], logs[after:]), key=len)
        gap = _mean(logs[after:]) - _mean(logs[:after])
        if abs(gap) >= max(-math.log1p(-CLEAR_STEP), CLEAR_GAP * abs(pair[0] - pair[1])):
            return OrderEffect("step", math.exp(gap), after)
    return None


def _step(logs: Sequence[float], error: float) -> tuple[float, OrderEffect] | None:
    """Return the clearest step and its residual sum of squares, if it is significant."""
    count = len(logs)
    least = t_quantile(1 - error / (count - 1), count - 2)
    best: tuple[float, OrderEffect] | None = None
    for after in range(1, count):
        before, later = logs[:after], logs[after:]
        gap = _mean(later) - _mean(before)
        alone = min(after, count - after) == 1
        left = _squares(before) + _squares(later)
        width = _deviation(left, count) * math.sqrt(1 / after + 1 / (count - after))
        is_step = abs(gap) >= -math.log1p(-(CLEAR_STEP if alone else LEAST_CHANGE))
        if is_step and abs(gap) > least * width and (best is None or left < best[0]):
            best = left, OrderEffect("step", math.exp(gap), after)
    return best


def _trend(logs: Sequence[float], error: float) -> tuple[float, OrderEffect] | None:
    """Return the trend line and its residual sum of squares, if it is significant."""
    count = len(logs)
    places = [place - (count - 1) / 2 for place in range(count)]
    spread = math.fsum(place**2 for place in places)
    slope = math.fsum(place * log for place, log in zip(places, logs, strict=True)) / spread
    change = slope * (count - 1)
    mean = _mean(logs)
    left = math.fsum((y - mean - slope * x) ** 2 for x, y in zip(places, logs, strict=True))
    width = _deviation(left, count) / math.sqrt(spread)
    if abs(change) < -math.log1p(-LEAST_CHANGE):
        return None
    if abs(slope) <= t_quantile(1 - error, count - 2) * width:
        return None
    return left, OrderEffect("trend", math.exp(change), None)


def _deviation(squares: float, count: int) -> float:
    """Return the standard deviation of residuals, but at least the resolution of the values.

    Two parameters were fitted, so ``count`` residuals have ``count`` - 2 degrees of freedom.
    """
    return max(math.sqrt(squares / (count - 2)), RESOLUTION)


def _mean(logs: Sequence[float]) -> float:
    return math.fsum(logs) / len(logs)


def _squares(logs: Sequence[float]) -> float:
    mean = _mean(logs)
    return math.fsum((log - mean) ** 2 for log in logs)
