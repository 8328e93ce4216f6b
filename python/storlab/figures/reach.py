"""How far an axis reaches: over all means and runs, and not to the end of every interval.

Of two runs that differ an interval may end at a thousand times their mean, and nothing else would
be seen beside it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

FAR = 2.0  # times the largest mean or run
CUT_WORDS = "Intervals that end far above all means and runs are cut off"


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
