"""Ratios as text for figure titles: the larger side first, with the digits that are certain."""

from __future__ import annotations

from collections.abc import Sequence

from storlab.analysis import digits
from storlab.analysis.compare import Comparison, Row
from storlab.model.decision import Decision, Interval

MOVES = "{larger} moves {times} as much as {smaller}"
OF = "{larger}’s {what} is {times} {smaller}’s"


def ratio_words(comparison: Comparison, row: Row, key: str, noun: str, say: str = OF) -> list[str]:
    """Return a clause per target against the baseline, as ``A’s energy is 1.2× B’s``.

    Empty if the row has no ratio of the column.

    Args:
        comparison: Comparison with targets and baseline.
        row: The point.
        key: Key of the column.
        noun: What is compared, such as "energy".
        say: Template with {larger}, {times}, {smaller} and, optionally, {what}; the larger side
            comes first, so that the number is above 1.
    """
    ratios = ((target, row.ratios[target].get(key)) for target in comparison.others)
    return [
        span_words([ratio], target, comparison.baseline, noun, say)
        for target, ratio in ratios
        if ratio is not None
    ]


def spans_in_words(
    comparison: Comparison, rows: Sequence[Row], key: str, noun: str, say: str = OF
) -> list[tuple[str, list[Decision]]]:
    """Return a clause per target against the baseline over several points, with its ratios."""
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
    ratios: Sequence[Decision], target: str, baseline: str, noun: str, say: str = OF
) -> str:
    """Return a clause with the range of the decided ratios and the number of points.

    It states that the sides cannot be distinguished if no ratio is decided. Ratios of single runs
    count as decided, because they have no interval.
    """
    told = [d.ratio for d in ratios if d.decided or not d.ratio.is_known]
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
        if least.estimate <= 0:  # a value of 0 has no multiple
            return say.format(larger=target, times=digits.times(least), smaller=baseline)
        span = _span(most.inverse(), least.inverse())
        return say.format(larger=baseline, times=span, smaller=target)
    up = f"up to {_short(most)}"
    down = f"up to {_short(least.inverse())}" if least.estimate > 0 else "more"
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
    """Format one end of a range with the digits that its interval allows."""
    return f"{digits.number(times.estimate, digits.rounding_step(times))}\u00d7"
