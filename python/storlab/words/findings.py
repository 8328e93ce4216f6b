"""Words of the key findings: captions, headings, and statements with the numbers to be audited."""

from __future__ import annotations

from collections.abc import Sequence

from storlab.analysis import digits
from storlab.audit.from_claims import ClaimNumber
from storlab.base.units import format_number
from storlab.model.decision import Better, Decision, Interval
from storlab.words.text import DIFFERENT_CONCURRENCY, cell_texts, latency_unit, named, plural

HEADS = ("quantity", "better", "lead", "won", "lost", "undecided", "for example")
"""Headings of the columns before the values of the two targets."""
EXPLAINED = (
    "Won, lost and undecided count workload points, each judged by its own 95\u00a0% interval. The "
    "example is the point with the median lead among those won, or among all if none was won."
)


def caption(workload: str, sides: tuple[str, str], points: int, work: Sequence[str] = ()) -> str:
    """Return the caption of a table, such as ``SSD against HDD at 32 workload points``.

    Args:
        workload: Name of the workload; empty if the study has no other.
        sides: The two targets.
        points: Number of workload points.
        work: What is known of the work of all points, such as ``scaled to 1 %``.
    """
    name = f"{workload}: " if workload else ""
    known = ", ".join(dict.fromkeys(filter(None, work)))
    return (
        f"{name}{named(sides[0])} against {named(sides[1])} at {plural(points, 'workload point')}"
        f"{f' of {known}' if known else ''}"
    )


def statement(decision: Decision, lead: str, values: Sequence[str]) -> str:
    """Return one row of the table as text, with all its numbers."""
    first, other = map(named, decision.sides)
    return (
        f"{decision.what} of {first} against {other} at {decision.where}: {lead}, "
        f"{' against '.join(values)}"
    )


def not_compared(quantity: str, sides: tuple[str, str], outcome: str, reason: str) -> str:
    """Return one row of the table as text if the targets are not compared in the quantity."""
    first, other = map(named, sides)
    return f"{quantity} of {first} against {other}: {outcome}, {reason}"


def value_numbers(values: Sequence[Interval], unit: str) -> list[ClaimNumber]:
    """Format the means of two sides with their unit; nanoseconds become a suitable unit of time."""
    factor = 1.0
    if unit == "ns":
        unit, factor = latency_unit([value.estimate for value in values], least=1)
    texts = [cell_texts(value, factor)[0] for value in values]
    first, other = ((text, f"{text}\u00a0{unit}".rstrip(), unit) for text in texts)
    return [ClaimNumber("value", *first), ClaimNumber("baseline", *other)]


def times_of(decision: Decision, times: str) -> ClaimNumber:
    """Format a lead as a multiple, or as its lower bound if it is imprecise.

    Args:
        decision: The comparison, with the target that is ahead as first side.
        times: Text with the multiple, to be found in the statement.
    """
    less, advantage = decision.better == "less", decision.advantage
    text = digits.times(advantage, "").removeprefix("at least ")
    if digits.is_imprecise(advantage):
        return ClaimNumber("least less" if less else "least more", text, times)
    step = 10.0 ** digits.last_digit(advantage)
    return ClaimNumber("inverse" if less else "multiple", text, times, step=step)


def concurrency_caveat(sides: tuple[str, str], concurrency: tuple[float, float]) -> str:
    """Return the caveat that latencies were measured at different effective concurrency."""
    first, other = (format_number(value) for value in concurrency)
    where = f"{first} on {named(sides[0])}, {other} on {named(sides[1])}"
    return f"Taken {DIFFERENT_CONCURRENCY}: {where}."


def place(won: int, points: int, where: str) -> str:
    """Return at how many points a target is better, with the one that the ratio is of."""
    if points == 1:
        return f"at {where}"
    number = "all" if won == points else f"{won} of"
    which = "the median: " if won > 2 else "such as " * (won == 2)
    return f"at {number} {points} points ({which}{where})"


def better_title(target: str, other: str = "") -> str:
    """Return the heading of the quantities in which a target is better, or better than another."""
    return f"Where {named(target)} is better{f' than {named(other)}' if other else ''}"


def best_title(quantity: str, better: Better) -> str:
    """Return the title of a tile with the best value of one target."""
    return f"{'Highest' if better == 'more' else 'Lowest'} {quantity}"


def best_caption(workload: str) -> str:
    """Return the caption of the table of one target's best values."""
    name = f"{workload}: " if workload else ""
    return f"{name}best mean of the repeats, with the point that it is of below it"
