"""Choose the range of a figure's axis: it shows all means and runs, but may cut long intervals.

The confidence interval of two runs that differ can reach a thousand times their mean. An axis that
shows it whole would squeeze all other values.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from storlab.figures.theme import log_bounds
from storlab.model.decision import Interval

FAR = 2.0  # times the largest mean or run
CUT_WORDS = "Intervals that end far above all means and runs are cut off"
EDGE_WORDS = "Intervals that leave the drawing end at its edge"


def in_sight(values: Sequence[float], highs: Sequence[float]) -> list[float]:
    """Return the values that an axis must show: means, runs, and ends of intervals up to a limit.

    Args:
        values: Means and runs.
        highs: Upper ends of intervals, limited to ``FAR`` times the largest of ``values``.
    """
    most = FAR * max(values, default=0.0)
    return [*values, *(min(high, most) for high in highs)]


def cut_words(
    bars: Sequence[dict[str, Any]], value: str = "value", top: float | None = None
) -> str:
    """Cut intervals that end above the axis, and return a remark for readers if any was cut.

    Args:
        bars: Records whose field ``high`` is cut in place.
        value: Name of the field with the mean.
        top: End of the axis; by default ``FAR`` times the largest mean.
    """
    most = FAR * max((bar[value] for bar in bars), default=0.0) if top is None else top
    longer = [bar for bar in bars if bar["high"] > most]
    for bar in longer:
        bar["high"] = most
    return CUT_WORDS if longer else ""


def log_reach(values: Sequence[float], intervals: Sequence[Interval]) -> tuple[float, float]:
    """Return the ends of a logarithmic axis that shows all values, and intervals if not too long.

    Intervals are shown up to a factor ``FAR`` beyond the smallest and the largest value.
    """
    least, most = min(values, default=1.0) / FAR, FAR * max(values, default=1.0)
    lows = [max(interval.low, least) for interval in intervals if interval.low is not None]
    highs = [min(interval.high, most) for interval in intervals if interval.high is not None]
    return log_bounds([*values, *lows, *highs])


def ends_within(interval: Interval, bounds: tuple[float, float]) -> dict[str, int]:
    """Return ``low`` and ``high`` of an interval, cut at the ends of the axis.

    Without bounds, ``low`` and ``high`` are the estimate. Cutting is needed because a logarithmic
    axis cannot show 0, where an interval may begin.
    """
    low, high = bounds
    estimate = interval.estimate
    return {
        "low": round(estimate if interval.low is None else max(interval.low, low)),
        "high": round(estimate if interval.high is None else min(interval.high, high)),
    }


def edge_words(intervals: Sequence[Interval], bounds: tuple[float, float]) -> str:
    """Return a remark for readers if any interval is cut at the end of the axis; else empty."""
    low, high = bounds
    left = (
        (interval.low is not None and interval.low < low)
        or (interval.high is not None and interval.high > high)
        for interval in intervals
    )
    return EDGE_WORDS if any(left) else ""
