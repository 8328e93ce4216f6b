"""Sentences that compare two targets in one metric, with the numbers that the audit checks."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from storlab.analysis import digits
from storlab.analysis.columns import STATISTICS, TIMES, Column
from storlab.audit.from_claims import ClaimNumber, NumberKind
from storlab.base.units import format_number
from storlab.contracts.page import Headline, Page, Quantity
from storlab.model.decision import Decision, Interval
from storlab.words.outcomes import OUTCOMES
from storlab.words.text import (
    BIAS,
    DIFFERENT_CONCURRENCY,
    WITHIN_NOISE,
    cell_texts,
    latency_unit,
    mean_ratio,
    percent_digits,
    plural,
    ratio_text,
    sentence_case,
)

THROUGHPUT = "throughput_mb_s.all"
# Nouns after a percentage ("12 % less energy"), by unit of metrics of which less is better.
NOUNS = {"s": " time", "J": " energy", "Wh": " energy"}
CHANGE_BELOW = 2.0  # above this ratio, a multiple alone is printed


@dataclass(frozen=True, slots=True)
class Words:
    """Sentences of a claim about two targets, and the numbers in them."""

    sentence: str
    short: str  # version for a card that already shows place and ratio
    unit: str  # text of the line below the ratio
    numbers: tuple[ClaimNumber, ...]


def what_of(page: Page, column: Column, quantity: Quantity | None) -> str:
    """Return the name of a metric in a sentence, such as ``p99 read latency``."""
    if quantity is not None:
        return quantity.title
    if column.key == THROUGHPUT:
        return "throughput"
    if not column.time:
        return column.label
    statistic = STATISTICS[column.name.split("_")[-2]]
    return f"{statistic} {page.operations.name_of(column.operation)} {TIMES[column.time]}"


def words_of(
    claimed: Decision, values: tuple[Interval, Interval], unit: str, quantity: Quantity | None
) -> Words:
    """Return the sentences of a claim, with every number that the audit recomputes.

    Args:
        claimed: The comparison, with the target that is ahead as first side.
        values: Values of both sides.
        unit: Unit of the values.
        quantity: The workload family's own metric, if it is one.
    """
    first_side, second_side = claimed.sides
    what, where = claimed.what, claimed.where
    less = claimed.better == "less"
    times = times_of(claimed, ratio_text(claimed.advantage))
    second = f"{second_side}’s"
    below = f"{second} {what}"
    first, other = _values(values, unit, quantity)
    change = _change(claimed, NOUNS.get(unit, "") if quantity is not None else "")
    more = f", {change.words}" if change is not None else ""
    numbers = (first, times, other, *([change] if change is not None else []))
    moved = claimed.quantity == THROUGHPUT and quantity is None
    subject = f"{first_side} moved" if moved else f"{first_side}’s {what} was"
    if less:
        sentence = (
            f"{subject} {first.words} at {where}, against {second} {other.words}: "
            f"ahead by {times.words}{more}."
        )
    else:
        sentence = (
            f"{subject} {first.words} at {where}: {times.words} {second} {other.words}{more}."
        )
    if moved:
        short = f"{first_side} moved {first.words}, {second_side} {other.words}{more}."
    else:
        on = f"{first.words} on {first_side}, {other.words} on {second_side}"
        short = f"{sentence_case(what)}: {on}{more}."
    return Words(sentence, short, below, numbers)


def _values(
    values: tuple[Interval, Interval], unit: str, quantity: Quantity | None
) -> list[ClaimNumber]:
    """Format the means of both sides with their intervals."""
    factor, space = 1.0, "\u00a0"
    if unit == "ns":
        unit, factor = latency_unit([value.estimate for value in values], least=1)
    if quantity is None:
        space = " "
    kinds: tuple[NumberKind, NumberKind] = ("value", "baseline")
    numbers = []
    for kind, value in zip(kinds, values, strict=True):
        text, spread = cell_texts(value, factor)
        words = f"{text} [{spread}]{space}{unit}" if spread else f"{text}{space}{unit}"
        numbers.append(ClaimNumber(kind, text, words, unit))
    return numbers


def times_of(claimed: Decision, times: str) -> ClaimNumber:
    """Format the lead of a claim as a multiple, or as its lower bound if it is imprecise.

    Args:
        claimed: The comparison, with the target that is ahead as first side.
        times: Text with the multiple, to be found in the claim's sentence.
    """
    less, advantage = claimed.better == "less", claimed.advantage
    text = digits.times(advantage, "").removeprefix("at least ")
    if digits.is_imprecise(advantage):
        return ClaimNumber("least less" if less else "least more", text, times)
    step = 10.0 ** digits.last_digit(advantage)
    return ClaimNumber("inverse" if less else "multiple", text, times, step=step)


def _change(claimed: Decision, noun: str) -> ClaimNumber | None:
    """Format a claim's lead in percent; None if its ratio is imprecise, or 2 or more."""
    ratio = claimed.ratio
    if digits.is_imprecise(claimed.advantage) or ratio.estimate >= CHANGE_BELOW:
        return None
    text = percent_digits(abs(ratio.estimate - 1))
    word: NumberKind = "less" if claimed.better == "less" else "more"
    return ClaimNumber(word, text, f"{text}\u00a0% {word}{noun}")


def bounds(decision: Decision) -> str:
    """Return a line such as ``95 % interval 1.2–1.5``; empty if the ratio has no precise size."""
    ends = digits.ends_text(decision.advantage)
    return f"95\u00a0% interval {ends}" if ends else ""


def joint_note(joint: Decision) -> str:
    """Return a note that a difference is not significant if all comparisons count as one test.

    The note is empty if it is significant.
    """
    if joint.decided:
        return ""
    return f"Not significant if all {joint.comparisons:,} comparisons are taken together."


def concurrency_caveat(sides: tuple[str, str], concurrency: tuple[float, float]) -> str:
    """Return the caveat that latencies were measured at different effective concurrency."""
    first, other = (format_number(value) for value in concurrency)
    return f"Taken {DIFFERENT_CONCURRENCY}: {first} on {sides[0]}, {other} on {sides[1]}."


def not_significant(decision: Decision, noun: str, where: str) -> str:
    """Return a clause with the outcome of a comparison in which neither side is better.

    It names the ratio, unless that is too uncertain or one side has no value.
    """
    target, baseline = decision.sides
    said = OUTCOMES[decision.outcome]
    if decision.reason:
        return f"{target} at {where}: {noun} {said} ({decision.reason})"
    if decision.outcome == "too noisy":
        return f"{target} at {where}: {noun} {said}"
    return f"{target} at {where}: {ratio_text(decision.ratio)} the {noun} of {baseline}, {said}"


def summary(target: str, baseline: str, headline: Headline, ratios: Sequence[Interval]) -> str:
    """Return a sentence with the points at which a target is better or worse, and its mean ratio.

    Args:
        target: Target that is the numerator of the ratios.
        baseline: Target that is the denominator.
        headline: Phrases for the family's main metric.
        ratios: One ratio per point; at least one.
    """
    points = len(ratios)
    less = sum(r.excludes(1) and r.estimate < 1 for r in ratios)
    more = sum(r.excludes(1) and r.estimate > 1 for r in ratios)
    only = "the only workload point"
    if points == 1 and digits.is_too_noisy(ratios[0]):
        return f"{target} and {baseline} at {only}: {headline.noun} {OUTCOMES['too noisy']}."
    if points in (less, more):
        count = {1: only, 2: "both workload points"}.get(points, f"all {points} workload points")
        sentence = f"{target} {headline.less if less else headline.more} {baseline} at {count}"
    elif not less + more:
        places = only if points == 1 else f"any of {points} workload points"
        sentence = f"{target} and {baseline} differ in {headline.noun} {WITHIN_NOISE} at {places}"
    else:
        of = f"of {plural(points, 'workload point')}"
        if more:
            sentence = f"{target} {headline.more} {baseline} at {more} {of}"
            sentence += f" and less at {less}" if less else ""
        else:
            sentence = f"{target} {headline.less} {baseline} at {less} {of}"
        if points - more - less:
            sentence += f"; {points - more - less} without a clear difference"
    whose = "its" if less + more else f"{baseline}’s"
    if points == 1:
        return f"{sentence}: {ratio_text(ratios[0])} {whose} {headline.noun}."
    return f"{sentence}: {mean_ratio(ratios, f'{whose} {headline.noun}')}. {BIAS}"
