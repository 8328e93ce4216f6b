"""Titles of figures, which state the result that a figure shows.

Numbers have as many digits as their intervals justify. A ratio is stated with the larger side
first, so that it is above 1.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from storlab.analysis import digits
from storlab.analysis.compare import Comparison, Row
from storlab.base.units import format_number
from storlab.model.decision import Decision, Interval
from storlab.words.text import DIFFERENT_CONCURRENCY, WITHIN_NOISE, and_list

MOVES = "{larger} moves {times} as much as {smaller}"
DOES = "{larger} does {times} the {what} of {smaller}"
OF = "{larger}’s {what} is {times} {smaller}’s"


def ratio_title(
    comparison: Comparison, rows: Sequence[Row], key: str, noun: str, template: str = OF
) -> str:
    """Return a title that compares each target with the baseline: ``A’s energy is 1.2× B’s``.

    Empty if the rows have no ratio of the column.

    Args:
        comparison: Comparison with targets and baseline.
        rows: Rows (points) of the comparison that the figure shows.
        key: Key of the column.
        noun: Name of the metric that is compared, such as "energy".
        template: Clause with {larger}, {times}, {smaller} and, optionally, {what}.
    """
    clauses = ratio_clauses(comparison, rows, key, noun, template)
    return "; ".join(clause for clause, _ in clauses)


def ratio_clauses(
    comparison: Comparison, rows: Sequence[Row], key: str, noun: str, template: str = OF
) -> list[tuple[str, list[Decision]]]:
    """Return clauses that compare each target with the baseline, and the comparisons behind them.

    :func:`ratio_title` describes the arguments.
    """
    by_target = (
        (target, [row.ratios[target][key] for row in rows if key in row.ratios[target]])
        for target in comparison.others
    )
    return [
        (ratio_range([d.ratio for d in decisions], target, comparison.baseline, noun, template),
         decisions)
        for target, decisions in by_target
        if decisions
    ]  # fmt: skip


def ratio_range(
    ratios: Sequence[Interval], target: str, baseline: str, noun: str, template: str = OF
) -> str:
    """Return a clause with the range of a target's significant ratios and the number of points.

    Ratios of single runs have no interval, and are used as if they were significant.
    """
    decided = [ratio for ratio in ratios if ratio.excludes(1) or not ratio.is_known]
    if not decided:
        return f"the difference in {noun} between {target} and {baseline} is {WITHIN_NOISE}"
    clause = _larger_first(decided, target, baseline, template.replace("{what}", noun), len(ratios))
    sides = {ratio.estimate > 1 for ratio in decided}
    if len(decided) == len(ratios) or len(sides) > 1:
        return clause
    return (
        f"{clause} at {len(decided)} of {len(ratios)} points; at the others the difference is "
        f"{WITHIN_NOISE}"
    )


def _larger_first(
    ratios: Sequence[Interval], target: str, baseline: str, template: str, points: int
) -> str:
    least, *_, most = sorted([*ratios, ratios[0]], key=lambda ratio: ratio.estimate)
    if least.estimate >= 1:
        return template.format(larger=target, times=_span(least, most), smaller=baseline)
    if most.estimate <= 1:
        if least.estimate <= 0:  # a value of 0 has no multiple
            return template.format(larger=target, times=digits.times(least), smaller=baseline)
        span = _span(most.inverse(), least.inverse())
        return template.format(larger=baseline, times=span, smaller=target)
    up, down = _up_to(most), _up_to(least.inverse()) if least.estimate > 0 else "more"
    above = sum(ratio.estimate > 1 for ratio in ratios)
    ahead = template.format(larger=target, times=up, smaller=baseline)
    behind = template.format(larger=baseline, times=down, smaller=target)
    below = len(ratios) - above
    return f"{ahead} at {above} of {points} points, and {behind} at {below}"


def _span(least: Interval, most: Interval) -> str:
    """Format a range of ratios above 1, as ``2.0 to 4.1×``; without an end that is imprecise."""
    lowest = min(least, most, key=_near_one)
    if digits.is_imprecise(lowest):
        return digits.times(lowest)
    if digits.is_imprecise(most):
        return f"{digits.times(lowest)} or more"
    ends = [digits.times(least), digits.times(most)]
    return ends[0] if ends[0] == ends[1] else f"{ends[0].removesuffix('×')} to {ends[1]}"


def _near_one(ratio: Interval) -> float:
    """Return the smallest value that is printed of a ratio above 1."""
    return ratio.low or 1.0 if digits.is_imprecise(ratio) else ratio.estimate


def _up_to(most: Interval) -> str:
    return digits.times(most) if digits.is_imprecise(most) else f"up to {digits.times(most)}"


def side_of_baseline(ratios: Sequence[Interval], target: str, baseline: str) -> str:
    """Return a clause with the numbers of points at which a target is above or below the baseline.

    Example: ``SSD compared with HDD: above at 2 and without a clear difference at 1 of 3 points``.
    """
    points = len(ratios)
    decided = [ratio.estimate for ratio in ratios if ratio.excludes(1)]
    above, below = sum(ratio > 1 for ratio in decided), sum(ratio < 1 for ratio in decided)
    for count, word in ((above, "above"), (below, "below")):
        if count == points:
            places = "" if points == 1 else f" at all {points} points"
            return f"{target} is {word} {baseline}{places}"
    if points == 1:
        return f"the difference between {target} and {baseline} is {WITHIN_NOISE}"
    parts = [f"{word} at {count}" for count, word in ((above, "above"), (below, "below")) if count]
    others = points - above - below
    parts += [f"without a clear difference at {others}"] if others else []
    return f"{target} compared with {baseline}: {and_list(parts)} of {points} points"


def latency_ratios(decisions: Sequence[tuple[str, Decision]]) -> str:
    """Return a clause such as ``reads take 12.6× and writes 9.8× as long on HDD as on SSD``.

    Args:
        decisions: Names of operations, each with the comparison of the same two targets in its mean
            latency; may be empty.
    """
    slower: dict[tuple[str, str], list[str]] = {}
    undecided = []
    for name, decision in decisions:
        interval = decision.ratio
        if interval.is_known and not decision.decided:
            undecided.append(f"{name}s")
            continue
        more = interval.estimate > 1 or interval.estimate <= 0
        times = digits.times(interval if more else interval.inverse())
        sides = decision.sides if more else decision.sides[::-1]
        phrases = slower.setdefault(sides, [])
        phrases.append(f"{name}s {times}" if phrases else f"{name}s take {times}")
    parts = [
        f"{' and '.join(factors)} as long on {more} as on {less}"
        for (more, less), factors in slower.items()
    ]
    if undecided:
        places = "" if parts else f" on {' and '.join(decisions[0][1].sides)}"
        parts.append(f"{' and '.join(undecided)}{places} differ {WITHIN_NOISE}")
    apart = any(decision.concurrency for _, decision in decisions)
    return ", ".join(parts) + (f" ({DIFFERENT_CONCURRENCY})" if apart else "")


def values_on(values: Iterable[tuple[str, float, str]], unit: str) -> str:
    """Format values of targets in a list, such as ``3.10 GB/s on A with 8 jobs, 2.00 GB/s on B``.

    Args:
        values: Target, value, and the point on the axis ("8 jobs") or an empty text.
        unit: Unit of the values.
    """
    return ", ".join(
        f"{format_number(value)}\u00a0{unit} on {target}" + (f" with {place}" if place else "")
        for target, value, place in values
    )
