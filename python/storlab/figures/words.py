"""Ratios in the titles of figures: the larger side first, with the digits that its interval has."""

from __future__ import annotations

from collections.abc import Sequence

from storlab.analysis import digits
from storlab.analysis.answer import inverse
from storlab.analysis.compare import Comparison, Ratio, Row
from storlab.analysis.stats import Interval

MOVES = "{larger} moves {times} as much as {smaller}"
OF = "{larger}’s {what} is {times} {smaller}’s"


def ratio_words(comparison: Comparison, row: Row, key: str, noun: str, say: str = OF) -> list[str]:
    """Every target against the baseline at one point: ``disk A’s energy is 1.2× disk B’s``.

    Whoever has more of it comes first, so that the number is above 1. ``what`` it is stands where
    ``say`` wants it, and where nothing is decided. Empty where there is no ratio of that column.
    """
    ratios = ((target, row.ratios[target].get(key)) for target in comparison.others)
    return [
        span_words([ratio], target, comparison.baseline, noun, say)
        for target, ratio in ratios
        if ratio is not None
    ]


def spans_in_words(
    comparison: Comparison, rows: Sequence[Row], key: str, noun: str, say: str = OF
) -> list[tuple[str, list[Ratio]]]:
    """Every target against the baseline over several points, and the ratios behind it."""
    ratios_of = (
        (target, [row.ratios[target][key] for row in rows if key in row.ratios[target]])
        for target in comparison.others
    )
    return [
        (span_words(ratios, target, comparison.baseline, noun, say), ratios)
        for target, ratios in ratios_of
        if ratios
    ]


def span_words(
    ratios: Sequence[Ratio], target: str, baseline: str, noun: str, say: str = OF
) -> str:
    """The least and the largest of the decided ratios, and of how many they were picked.

    ``can’t be told apart`` where none is decided. Of one run each, there is nothing to decide by.
    """
    told = [ratio.interval for ratio in ratios if ratio.decided or not ratio.interval.is_known]
    if not told:
        return f"{target} and {baseline} can’t be told apart in {noun}"
    words = _larger_first(told, target, baseline, say.replace("{what}", noun), len(ratios))
    sides = {ratio.estimate > 1 for ratio in told}
    if len(told) == len(ratios) or len(sides) > 1:
        return words
    return f"{words} at {len(told)} of {len(ratios)} points, and can’t be told apart at the others"


def _larger_first(
    told: Sequence[Interval], target: str, baseline: str, say: str, points: int
) -> str:
    least, *_, most = sorted([*told, told[0]], key=_estimate)
    if least.estimate >= 1:
        return say.format(larger=target, times=_span(least, most), smaller=baseline)
    if most.estimate <= 1:
        if least.estimate <= 0:  # nothing is no multiple of anything
            return say.format(larger=target, times=digits.times(least), smaller=baseline)
        span = _span(inverse(most), inverse(least))
        return say.format(larger=baseline, times=span, smaller=target)
    up = f"up to {_short(most)}"
    down = f"up to {_short(inverse(least))}" if least.estimate > 0 else "more"
    above = sum(ratio.estimate > 1 for ratio in told)
    ahead = say.format(larger=target, times=up, smaller=baseline)
    behind = say.format(larger=baseline, times=down, smaller=target)
    below = len(told) - above
    return f"{ahead} at {above} of {points} points, and {behind} at {below}"


def _estimate(interval: Interval) -> float:
    return interval.estimate


def _span(least: Interval, most: Interval) -> str:
    if least == most:
        return digits.times(least)
    ends = [_short(least), _short(most)]
    return ends[0] if ends[0] == ends[1] else f"{ends[0].rstrip('×')} to {ends[1]}"


def _short(times: Interval) -> str:
    """Of several: each with the digits that it has, however wide its interval."""
    return f"{digits.number(times.estimate, digits.step_of(times))}\u00d7"
