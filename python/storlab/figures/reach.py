"""How far an axis reaches: over all means and runs, and not to the end of every interval.

Of two runs that differ an interval may end at a thousand times their mean, and nothing else would
be seen beside it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from storlab.analysis.stats import Interval
from storlab.figures.theme import log_bounds

FAR = 2.0  # times the largest mean or run
CUT_WORDS = "Intervals that end far above all means and runs are cut off"
EDGE_WORDS = "Intervals that leave the drawing end at its edge"


def in_sight(values: Sequence[float], highs: Sequence[float]) -> list[float]:
    """What an axis has room for. ``values``: means and runs; ``highs``: of intervals."""
    most = FAR * max(values, default=0.0)
    return [*values, *(min(high, most) for high in highs)]


def cut_words(
    bars: Sequence[dict[str, Any]], value: str = "value", top: float | None = None
) -> str:
    """Ends each interval at ``top``, else where the axis ends, and says so where one is longer."""
    most = FAR * max((bar[value] for bar in bars), default=0.0) if top is None else top
    longer = [bar for bar in bars if bar["high"] > most]
    for bar in longer:
        bar["high"] = most
    return CUT_WORDS if longer else ""


def log_reach(values: Sequence[float], intervals: Sequence[Interval]) -> tuple[float, float]:
    """Bounds of a logarithmic axis around ``values`` and, where they end near them, intervals."""
    least, most = min(values, default=1.0) / FAR, FAR * max(values, default=1.0)
    lows = [max(interval.low, least) for interval in intervals if interval.low is not None]
    highs = [min(interval.high, most) for interval in intervals if interval.high is not None]
    return log_bounds([*values, *lows, *highs])


def ends_within(interval: Interval, bounds: tuple[float, float]) -> dict[str, int]:
    """``low`` and ``high`` of an interval as they are drawn; without bounds both at the estimate.

    A logarithmic axis has no place for 0, where an interval may begin.
    """
    low, high = bounds
    estimate = interval.estimate
    return {
        "low": round(estimate if interval.low is None else max(interval.low, low)),
        "high": round(estimate if interval.high is None else min(interval.high, high)),
    }


def edge_words(intervals: Sequence[Interval], bounds: tuple[float, float]) -> str:
    """Says so where one of them leaves the drawing."""
    low, high = bounds
    left = (
        (interval.low is not None and interval.low < low)
        or (interval.high is not None and interval.high > high)
        for interval in intervals
    )
    return EDGE_WORDS if any(left) else ""
