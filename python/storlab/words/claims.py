"""Sentences that compare two targets in one metric, with the numbers that the audit checks."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from storlab.analysis import digits
from storlab.analysis.columns import THROUGHPUT
from storlab.audit.from_claims import ClaimNumber, NumberKind
from storlab.base.units import format_number
from storlab.contracts.page import Quantity
from storlab.model.decision import Decision, Interval
from storlab.words.text import (
    DIFFERENT_CONCURRENCY,
    cell_texts,
    latency_unit,
    named,
    percent_digits,
    ratio_text,
)

# Nouns after a percentage ("12 % less energy"), by unit of metrics of which less is better.
NOUNS = {"s": " time", "J": " energy", "Wh": " energy"}
CHANGE_BELOW = 2.0  # above this ratio, a multiple alone is printed


@dataclass(frozen=True, slots=True)
class Words:
    """Sentences of a claim about two targets, and the numbers in them."""

    sentence: str
    numbers: tuple[ClaimNumber, ...]


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
    first_side, second_side = map(named, claimed.sides)
    what, where = claimed.what, claimed.where
    less = claimed.better == "less"
    times = times_of(claimed, ratio_text(claimed.advantage))
    second = f"{second_side}’s"
    first, other = value_numbers(values, unit, spaced=quantity is not None)
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
    return Words(sentence, numbers)


def value_numbers(
    values: Sequence[Interval], unit: str, *, spaced: bool = True, bare: bool = False
) -> list[ClaimNumber]:
    """Format the means of two sides with their unit and, unless ``bare``, their intervals.

    Args:
        values: Values of both sides.
        unit: Unit of the values; nanoseconds become a suitable unit of time.
        spaced: Whether the unit is kept on the line of its number.
        bare: Whether intervals are left out.
    """
    factor, space = 1.0, "\u00a0" if spaced else " "
    if unit == "ns":
        unit, factor = latency_unit([value.estimate for value in values], least=1)
    kinds: tuple[NumberKind, NumberKind] = ("value", "baseline")
    numbers = []
    for kind, value in zip(kinds, values, strict=True):
        text, spread = cell_texts(value, factor)
        shown = f"{text} [{spread}]" if spread and not bare else text
        words = f"{shown}{space}{unit}".rstrip()
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


def concurrency_caveat(sides: tuple[str, str], concurrency: tuple[float, float]) -> str:
    """Return the caveat that latencies were measured at different effective concurrency."""
    first, other = (format_number(value) for value in concurrency)
    where = f"{first} on {named(sides[0])}, {other} on {named(sides[1])}"
    return f"Taken {DIFFERENT_CONCURRENCY}: {where}."
