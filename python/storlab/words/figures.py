"""Titles of figures, which state the result that a figure shows.

Numbers have as many digits as their intervals justify. A ratio is stated with the larger side
first, so that it is above 1.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence

from storlab.analysis import digits
from storlab.analysis.compare import Comparison, Row
from storlab.analysis.load_curve import Knee, LoadPoint
from storlab.base.units import exact_number, format_number
from storlab.model.decision import Decision, Interval
from storlab.results.rounds import Rounds
from storlab.words.text import (
    DIFFERENT_CONCURRENCY,
    WITHIN_NOISE,
    all_named,
    and_list,
    named,
    plural,
    sentence_case,
)

TWO_LINES = 78  # characters of a title that fit into two lines of a narrow figure
TWO_WIDE_LINES = 112  # characters of a title that fit into two lines of a wide figure
MOVES = "{larger} moves {times} as much as {smaller}"
DOES = "{larger} does {times} the {what} of {smaller}"
LONGER = "{which} take on average {times} as long on {larger} as on {smaller}"
OF = "{larger}’s {what} is {times} {smaller}’s"
OVERLOAD = (
    "Hollow: overload. The offered rate was not reached, and latency grows with the length of the "
    "run"
)


def rounds_title(target: str, metric: str, rounds: Rounds) -> str:
    """Return the title of a target's rounds: whether and when it became steady."""
    if rounds.verdict.steady:
        return f"{named(target)} is steady in rounds {rounds.first} to {rounds.last}: {metric}"
    return f"{named(target)} is not steady after {plural(len(rounds.values), 'round')}: {metric}"


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


def ratios_of(comparison: Comparison, rows: Sequence[Row], key: str) -> dict[str, list[Interval]]:
    """Return the ratios to the baseline in some rows, by target; targets without ratios lack."""
    by_target = {
        target: [row.ratios[target][key].ratio for row in rows if key in row.ratios[target]]
        for target in comparison.others
    }
    return {target: ratios for target, ratios in by_target.items() if ratios}


def ranges_title(
    ratios: Mapping[str, Sequence[Interval]],
    baseline: str,
    noun: str,
    template: str = OF,
    most: int = TWO_WIDE_LINES,
) -> str:
    """Return the ranges of ratios to the baseline in at most two lines.

    Args:
        ratios: Ratios of each target to the baseline; may be empty.
        baseline: Name of the baseline.
        noun: Name of the metric that is compared.
        template: Clause with {larger}, {times}, {smaller} and, optionally, {what}.
        most: Characters in two lines.

    Returns:
        The title; empty without ratios, or if they take too many words.
    """
    long = (ratio_range(own, target, baseline, noun, template) for target, own in ratios.items())
    texts = (sentence_case("; ".join(long)), short_ranges(ratios, baseline, noun))
    return next((text for text in texts if ratios and len(text) <= most), "")


def short_ranges(ratios: Mapping[str, Sequence[Interval]], baseline: str, noun: str) -> str:
    """Return ranges of ratios in few words, such as ``GET: A 1.2 to 1.4× B at 2 of 4 points``."""
    clauses = (
        _short_range(own, target, baseline, "" if len(ratios) == 1 else f"{named(target)} ")
        for target, own in ratios.items()
    )
    return f"{sentence_case(noun)}: {'; '.join(clauses)}"


def _short_range(ratios: Sequence[Interval], target: str, baseline: str, name: str) -> str:
    """Return a clause with the number of points at which a target is ahead, and how far.

    Without a clear difference it is ``name``, and that there is none.
    """
    decided = [ratio for ratio in ratios if ratio.excludes(1) or not ratio.is_known]
    if not decided:
        return f"{name}no clear difference"
    clause = _larger_first(decided, target, baseline, "{larger} {times} {smaller}", len(ratios))
    one_sided = len({ratio.estimate > 1 for ratio in decided}) == 1
    few = one_sided and len(decided) < len(ratios)
    return f"{clause} at {len(decided)} of {len(ratios)} points" if few else clause


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
        return f"no clear difference in {noun} between {all_named((target, baseline))}"
    clause = _larger_first(decided, target, baseline, template.replace("{what}", noun), len(ratios))
    sides = {ratio.estimate > 1 for ratio in decided}
    if len(decided) == len(ratios) or len(sides) > 1:
        return clause
    return (
        f"{clause} at {len(decided)} of {len(ratios)} points, without a clear difference elsewhere"
    )


def mean_words(repeats: Iterable[int]) -> str:
    """Describe the marks of means and intervals in a figure of points with so many repeats."""
    most = max(repeats, default=0)
    if most < 2:
        return "One run, so no interval"
    return "Mean with 95 % interval" if most > 2 else "Mean between the values of both repeats"


def _larger_first(
    ratios: Sequence[Interval], target: str, baseline: str, template: str, points: int
) -> str:
    target, baseline = named(target), named(baseline)
    least, *_, most = sorted([*ratios, ratios[0]], key=lambda ratio: ratio.estimate)
    if least.estimate >= 1:
        return template.format(larger=target, times=_span(ratios), smaller=baseline)
    if most.estimate <= 1:
        if least.estimate <= 0:  # a value of 0 has no multiple
            return template.format(larger=target, times=digits.times(least), smaller=baseline)
        span = _span([ratio.inverse() for ratio in ratios])
        return template.format(larger=baseline, times=span, smaller=target)
    up, down = _up_to(most), _up_to(least.inverse()) if least.estimate > 0 else "more"
    above = sum(ratio.estimate > 1 for ratio in ratios)
    ahead = template.format(larger=target, times=up, smaller=baseline)
    behind = template.format(larger=baseline, times=down, smaller=target)
    below = len(ratios) - above
    return f"{ahead} at {above} of {points} points, and {behind} at {below}"


def _span(ratios: Sequence[Interval]) -> str:
    """Format a range of ratios above 1, as ``2.0 to 4.1×``; the least bound if one is imprecise."""
    if any(digits.is_imprecise(ratio) for ratio in ratios):
        return digits.at_least(min(ratios, key=lambda ratio: ratio.low or ratio.estimate))
    ends = [digits.times(each(ratios, key=lambda ratio: ratio.estimate)) for each in (min, max)]
    return ends[0] if ends[0] == ends[1] else f"{ends[0].removesuffix('×')} to {ends[1]}"


def _up_to(most: Interval) -> str:
    return digits.times(most) if digits.is_imprecise(most) else f"up to {digits.times(most)}"


def side_of_baseline(ratios: Sequence[Interval], target: str, baseline: str) -> str:
    """Return a clause with the numbers of points at which a target is above or below the baseline.

    Example: ``SSD compared with HDD: above at 2 and without a clear difference at 1 of 3 points``.
    """
    points, target, baseline = len(ratios), named(target), named(baseline)
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


def panels_title(
    panels: Sequence[Sequence[tuple[str, Decision]]], noun: str, template: str, at: str
) -> str:
    """Return a title that compares targets with the baseline in several panels of a figure.

    It is the first of several wordings that fits into two lines of a narrow figure; empty if none
    fits or nothing is compared.

    Args:
        panels: Comparisons of each target, each with the name of its panel.
        noun: Name of the metric that is compared.
        template: Clause with {larger}, {times}, {smaller} and, optionally, {what}.
        at: Point on the axis that is compared, such as "8 jobs".
    """
    known = [comparisons for comparisons in panels if comparisons]
    template = template.replace("{what}", noun)
    wordings = [(template, "no clear difference", True), (template, "unclear", True)]
    if len(panels) == 1:  # the only other target goes without saying
        short = re.sub(r" (as on|as|of) \{smaller\}$", "", template)
        wordings.append((short.replace("{smaller}’s", "as high"), "unclear", False))
    texts = (
        sentence_case("; ".join(_ratios_of_panels(each, noun, *wording, at) for each in known))
        for wording in wordings
    )
    return next((text for text in texts if len(text) <= TWO_LINES), "")


def _ratios_of_panels(
    panels: Sequence[tuple[str, Decision]],
    noun: str,
    template: str,
    unclear: str,
    both: bool,
    at: str,
) -> str:
    """Return a clause such as ``A moves 1.7× as much as B at 4 MiB, 8 jobs; unclear at 256 KiB``.

    With ``both`` it names both targets if their difference is not clear in any panel.
    """
    first, second = panels[0][1].sides
    sides: dict[bool, list[tuple[str, Interval]]] = {}
    for name, decision in panels:
        if decision.decided or not decision.ratio.is_known:
            sides.setdefault(decision.ratio.estimate > 1, []).append((name, decision.ratio))
    if not sides:
        place = f" at {at}" if at else ""
        between = f" between {all_named((first, second))}" if both else ""
        return f"no clear difference in {noun}{between}{place}"
    clauses: list[str] = []
    for members in sides.values():
        ratios = [ratio for _, ratio in members]
        clause = _larger_first(ratios, first, second, template, len(ratios))
        where = [] if len(members) == len(panels) else [name for name, _ in members]
        places = ", ".join(filter(None, (and_list(where), "" if clauses else at)))
        clauses.append(f"{clause} at {places}" if places else clause)
    clear = {name for members in sides.values() for name, _ in members}
    open_at = [name for name, _ in panels if name not in clear]
    clauses += [f"{unclear} at {and_list(open_at)}"] if open_at else []
    return "; ".join(clauses)


def latency_ratios(decisions: Sequence[tuple[str, Decision]]) -> str:
    """Return a clause such as ``reads take on average 12.6× as long on HDD as on SSD``.

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
        phrases.append(f"{name}s {times}" if phrases else f"{name}s take on average {times}")
    parts = [
        f"{' and '.join(factors)} as long on {named(more)} as on {named(less)}"
        for (more, less), factors in slower.items()
    ]
    if undecided:
        names = " and ".join(undecided)
        between = f" between {all_named(decisions[0][1].sides)}"
        parts.append(f"{names} unclear" if parts else f"no clear difference{between}: {names}")
    apart = any(decision.concurrency for _, decision in decisions)
    return ", ".join(parts) + (f" ({DIFFERENT_CONCURRENCY})" if apart else "")


def offered_text(load: LoadPoint) -> str:
    """Format an offered load, such as ``14,100 IOPS (70 %)``, with its load level if it has one."""
    rate = f"{format_number(load.rate_s)}\u00a0{load.point.page.operations.rate_short}"
    return rate if load.level is None else f"{rate} ({exact_number(load.level)}\u00a0%)"


def knee_title(knees: Mapping[str, Knee], operation: str) -> str:
    """Return the knee of each target, such as ``read p99 doubles above 14,100 IOPS on A``.

    Args:
        knees: Knees by target; targets with too few loads lack.
        operation: Name of the operation whose latency is judged.
    """
    noun = f"{operation} p99"
    if not knees:
        return f"{noun} against offered load"
    return f"{noun} doubles {', '.join(_knee_clause(*item) for item in knees.items())}"


def _knee_clause(target: str, knee: Knee) -> str:
    if knee.beyond is None and knee.last is not None:
        return f"nowhere up to {offered_text(knee.last)} on {named(target)}"
    if knee.last is None:
        return f"within the lowest loads on {named(target)}"
    about = "above" if knee.is_clear else "above about"
    return f"{about} {offered_text(knee.last)} on {named(target)}"


def values_on(values: Iterable[tuple[str, float, str]], unit: str) -> str:
    """Format values of targets in a list, such as ``3.10 GB/s on A with 8 jobs, 2.00 GB/s on B``.

    Args:
        values: Target, value, and the point on the axis ("8 jobs") or an empty text.
        unit: Unit of the values.
    """
    known = list(values)
    places = {place for _, _, place in known if place}
    shared = f" with {places.pop()}" if len(places) == 1 and all(v[2] for v in known) else ""
    return (
        ", ".join(
            f"{format_number(value)}\u00a0{unit} on {named(target)}"
            + (f" with {place}" if place and not shared else "")
            for target, value, place in known
        )
        + shared
    )
