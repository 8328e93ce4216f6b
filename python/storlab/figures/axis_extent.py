"""Extent of a figure's axis: all means and runs, but not every interval's full length.

The interval of two differing runs can reach a thousand times their mean and would hide all else.
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
    """Return the values an axis must show, with interval ends limited to ``FAR`` times the maximum.

    Args:
        values: Means and runs.
        highs: Upper ends of intervals.
    """
    most = FAR * max(values, default=0.0)
    return [*values, *(min(high, most) for high in highs)]


def cut_words(
    bars: Sequence[dict[str, Any]], value: str = "value", top: float | None = None
) -> str:
    """Cut intervals that end above the axis and return a remark if any was cut.

    The limit is ``top``, or the end of the axis if None. Changes ``bars`` in place.
    """
    most = FAR * max((bar[value] for bar in bars), default=0.0) if top is None else top
    longer = [bar for bar in bars if bar["high"] > most]
    for bar in longer:
        bar["high"] = most
    return CUT_WORDS if longer else ""


def log_reach(values: Sequence[float], intervals: Sequence[Interval]) -> tuple[float, float]:
    """Return bounds of a logarithmic axis around ``values`` and the intervals close to them."""
    least, most = min(values, default=1.0) / FAR, FAR * max(values, default=1.0)
    lows = [max(interval.low, least) for interval in intervals if interval.low is not None]
    highs = [min(interval.high, most) for interval in intervals if interval.high is not None]
    return log_bounds([*values, *lows, *highs])


def ends_within(interval: Interval, bounds: tuple[float, float]) -> dict[str, int]:
    """Return ``low`` and ``high`` of an interval, limited to the axis; the estimate if unbounded.

    A logarithmic axis cannot show 0, where an interval may begin.
    """
    low, high = bounds
    estimate = interval.estimate
    return {
        "low": round(estimate if interval.low is None else max(interval.low, low)),
        "high": round(estimate if interval.high is None else min(interval.high, high)),
    }


def edge_words(intervals: Sequence[Interval], bounds: tuple[float, float]) -> str:
    """Return a remark if any interval extends beyond the axis, else an empty string."""
    low, high = bounds
    left = (
        (interval.low is not None and interval.low < low)
        or (interval.high is not None and interval.high > high)
        for interval in intervals
    )
    return EDGE_WORDS if any(left) else ""
