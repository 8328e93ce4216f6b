"""Wording of claims: both values, the lead of one over the other, and the numbers used."""

from __future__ import annotations

from dataclasses import dataclass

from storlab.analysis import digits
from storlab.analysis.answer import inverse
from storlab.analysis.columns import STATISTICS, TIMES, Column
from storlab.analysis.compare import Row
from storlab.analysis.points import page_of
from storlab.analysis.stats import Interval
from storlab.audit.from_claims import ClaimNumber, NumberKind
from storlab.brief.text import latency_unit, ratio_bracket, sentence_case
from storlab.contracts.page import Quantity

THROUGHPUT = "throughput_mb_s.all"
# units of quantities of which less is better
NOUNS = {"s": " time", "J": " energy", "Wh": " energy"}
CHANGE_BELOW = 2.0  # above this ratio, a multiple alone is printed


@dataclass(frozen=True, slots=True)
class Words:
    """Sentences of a claim and the numbers in them."""

    sentence: str
    short: str  # version for a card that already shows place and ratio
    unit: str  # text of the line below the ratio
    numbers: tuple[ClaimNumber, ...]


@dataclass(frozen=True, slots=True)
class Ahead:
    """Lead of one target over another at one point; ``ratio`` is its value over the other's."""

    row: Row
    target: str
    behind: str
    column: Column
    quantity: Quantity | None  # one of the workload family's own quantities, if it is one
    where: str
    ratio: Interval

    @property
    def less(self) -> bool:
        """Whether a lower value of the quantity is better."""
        return self.ratio.estimate < 1

    @property
    def times(self) -> Interval:
        """How many times as good the leading target is."""
        return inverse(self.ratio) if self.less else self.ratio

    @property
    def what(self) -> str:
        """Name of the quantity, such as ``throughput`` or ``p99 read latency``."""
        if self.quantity is not None:
            return self.quantity.title
        if self.column.key == THROUGHPUT:
            return "throughput"
        if not self.column.time:
            return self.column.label
        statistic = STATISTICS[self.column.name.split("_")[-2]]
        operation = page_of(self.row.point.kind).operations.name_of(self.column.operation)
        return f"{statistic} {operation} {TIMES[self.column.time]}"


def words_of(ahead: Ahead) -> Words:
    """Return the sentences of a claim with every number that the audit recomputes."""
    values = _values(ahead)
    times = times_of(ahead)
    unit = f"{ahead.behind}’s {ahead.what}"
    if values is None:
        sentence = (
            f"{ahead.target} is ahead of {ahead.behind} in {ahead.what} at {ahead.where}: "
            f"{times.words}."
        )
        return Words(sentence, f"{sentence_case(ahead.what)}: {times.words}.", unit, (times,))
    first, other = values
    change = _change(ahead)
    more = f", {change.words}" if change is not None else ""
    numbers = (first, times, other, *([change] if change is not None else []))
    verb = "moved" if ahead.column.key == THROUGHPUT and ahead.quantity is None else ""
    does = f"{ahead.target} {verb}" if verb else f"{ahead.target}’s {ahead.what} was"
    if ahead.less:
        sentence = (
            f"{does} {first.words} at {ahead.where}, against {ahead.behind}’s {other.words}: "
            f"ahead by {times.words}{more}."
        )
    else:
        sentence = (
            f"{does} {first.words} at {ahead.where}: {times.words} {ahead.behind}’s "
            f"{other.words}{more}."
        )
    if verb:
        short = f"{ahead.target} moved {first.words}, {ahead.behind} {other.words}{more}."
    else:
        on = f"{first.words} on {ahead.target}, {other.words} on {ahead.behind}"
        short = f"{sentence_case(ahead.what)}: {on}{more}."
    return Words(sentence, short, unit, numbers)


def _values(ahead: Ahead) -> list[ClaimNumber] | None:
    """Return both values with their intervals; None if one of them is too uncertain to print."""
    column, row = ahead.column, ahead.row
    values = [row.cells[side].values[column.key] for side in (ahead.target, ahead.behind)]
    if any(digits.is_open(value) or (value.low is not None and value.low <= 0) for value in values):
        return None
    unit, factor, space = column.unit, 1.0, "\u00a0"
    if unit == "ns":
        unit, factor = latency_unit([value.estimate for value in values], least=1)
    if ahead.quantity is None:
        space = " "
    kinds: tuple[NumberKind, NumberKind] = ("value", "baseline")
    return [
        ClaimNumber(
            kind,
            digits.estimate_text(value, factor),
            f"{digits.text(value, factor)}{space}{unit}",
            unit,
            digits.rounding_step(value, factor),
        )
        for kind, value in zip(kinds, values, strict=True)
    ]


def times_of(ahead: Ahead) -> ClaimNumber:
    """Return the size of the lead: a multiple, or its lower bound if the ratio is imprecise."""
    times = ahead.times
    words = ratio_bracket(times)
    if digits.is_imprecise(times):
        text = digits.times(times, "").removeprefix("at least ")
        kind: NumberKind = "least less" if ahead.less else "least more"
        return ClaimNumber(kind, text, words)
    kind = "inverse" if ahead.less else "multiple"
    return ClaimNumber(kind, digits.times(times, ""), words, step=digits.rounding_step(times))


def _change(ahead: Ahead) -> ClaimNumber | None:
    """Return the lead in percent; None if a multiple is clearer or the ratio is imprecise."""
    ratio = ahead.ratio
    if digits.is_imprecise(ahead.times) or ratio.estimate >= CHANGE_BELOW:
        return None
    share, step = abs(ratio.estimate - 1), digits.rounding_step(ratio)
    text = digits.number(100 * share, max(100 * step, 0.1 if share < 0.0995 else 1.0))
    word: NumberKind = "less" if ahead.less else "more"
    noun = NOUNS.get(ahead.column.unit, "") if ahead.quantity is not None else ""
    return ClaimNumber(word, text, f"{text}\u00a0% {word}{noun}", step=100 * step)
