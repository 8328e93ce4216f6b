"""Comparisons of two targets in one quantity, at one point and over all points of a family."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from storlab.analysis.columns import COLUMNS, THROUGHPUT, Column, name_of, ratio_table_keys
from storlab.analysis.compare import PLACES, Comparison, Row, decide
from storlab.analysis.points import Section, WorkloadPoint
from storlab.base.units import TB
from storlab.contracts.page import Page
from storlab.contracts.question import Per
from storlab.model.decision import Decision, Outcome, Standing
from storlab.model.target import Target

PER_WORDS: dict[Per, str] = {"": "", "tb": " per terabyte", "money": " for the money"}
POWER = "power_w.all"  # key of the column of mean power
SAME_RATIO = 0.01  # an operation rate whose ratios differ less from throughput's adds nothing


def quantity_label(page: Page, key: str, per: Per) -> str:
    """Return the name of a quantity in a sentence, such as ``throughput per terabyte``."""
    return f"{name_of(page, COLUMNS[PLACES[key]])}{PER_WORDS[per]}"


def place_text(section: Section, point: WorkloadPoint) -> str:
    """Describe a point for readers, with the scale factor if the work was scaled down."""
    where, scale_note = section.where(point), section.page.text.scale_note(point.params)
    return f"{where} ({scale_note})" if scale_note and scale_note not in where else where


class Contest(NamedTuple):
    """Comparison of two targets, with the section and the point at which it was made."""

    decision: Decision
    section: Section
    row: Row
    per: Per

    @property
    def winner(self) -> str:
        """Target that is significantly better; empty if neither is."""
        return self.decision.winner

    @property
    def column(self) -> Column:
        """Column of the quantity that is compared."""
        return COLUMNS[PLACES[self.decision.quantity]]

    def lead_of(self, target: str) -> float:
        """Return how many times as good ``target`` is as the target it is compared with."""
        return self.decision.seen_from(target).advantage.estimate

    def described(self, target: str) -> Decision:
        """Return the decision with ``target`` as first side, and the names of metric and point."""
        page = self.section.page
        return self.decision.seen_from(target).model_copy(
            update={
                "what": quantity_label(page, self.decision.quantity, self.per),
                "where": place_text(self.section, self.row.point),
            }
        )


def contest(
    comparison: Comparison,
    section: Section,
    row: Row,
    sides: tuple[str, str],
    key: str,
    per: Per = "",
    count: int = 1,
) -> Contest | None:
    """Compare two targets in a quantity at a point; None if that gives no ratio.

    Args:
        comparison: Comparison that contains the row.
        section: Section of the row's point.
        row: Results at the point.
        sides: The two targets.
        key: Key of the column to compare.
        per: What the values are divided by: nothing, capacity or price.
        count: Number of comparisons for which the outcome holds together.
    """
    decision = _decided(comparison, row, sides, key, per, count)
    if decision is None or decision.interval is None or decision.interval.estimate <= 0:
        return None
    return Contest(decision, section, row, per)


def _decided(
    comparison: Comparison, row: Row, sides: tuple[str, str], key: str, per: Per, count: int = 1
) -> Decision | None:
    if key not in PLACES:
        return None
    column = COLUMNS[PLACES[key]]
    first, other = (row.cells[side] for side in sides)
    share = share_of(comparison, sides, per)
    if not (first.measured and other.measured) or share is None or not column.better:
        return None
    accepted = comparison.accepts_unequal_boundaries
    return decide(first, other, column, accepted=accepted, comparisons=count, share=share)


def share_of(comparison: Comparison, sides: tuple[str, str], per: Per) -> float | None:
    """Return the factor that turns a ratio of two targets into one per terabyte or per price.

    It is the second target's declared capacity or price divided by the first one's; 1 if ``per`` is
    empty. None if one of them does not declare it, or if the currencies differ.
    """
    if not per:
        return 1.0
    targets = {column.label: column.target for column in comparison.dataset.targets}
    first, other = (targets[side] for side in sides)
    if per == "money" and first.currency != other.currency:
        return None
    facts = [_fact(target, per) for target in (first, other)]
    return facts[1] / facts[0] if facts[0] and facts[1] else None


def _fact(target: Target, per: Per) -> float | None:
    if per == "money":
        return target.storage_price
    return None if target.capacity is None else target.capacity / TB


def middle(contests: Sequence[Contest], target: str) -> Contest:
    """Return the comparison with the median lead of a target; of two middle ones, the smaller."""
    ordered = sorted(contests, key=lambda contest: contest.lead_of(target))
    return ordered[(len(ordered) - 1) // 2]


@dataclass(frozen=True, slots=True)
class Tally:
    """Comparisons of two targets in one quantity at every point, each with its own interval."""

    sides: tuple[str, str]
    key: str
    per: Per
    contests: tuple[Contest, ...]  # points at which both targets have comparable values
    refused: Decision | None = None  # a comparison that must not be made
    missing: str = ""  # why a target has no value although the other one has

    @property
    def undecided(self) -> int:
        """Number of points at which neither target is significantly better."""
        return sum(not contest.winner for contest in self.contests)

    def won(self, side: str) -> list[Contest]:
        """Return the comparisons in which a target is significantly better."""
        return [contest for contest in self.contests if contest.winner == side]

    def standing(self, side: str) -> Standing | None:
        """Return at how many points a target is better, with the median one; None if nowhere."""
        won = self.won(side)
        if not won:
            return None
        example = middle(won, side).described(side)
        decided = len(self.contests) - self.undecided
        return Standing(
            points=len(won), lost=decided - len(won), of=len(self.contests), example=example
        )

    @property
    def outcome(self) -> Outcome:
        """Most frequent outcome of the first side; refused or not measured without comparisons."""
        outcomes: list[Outcome] = [contest.decision.outcome for contest in self.contests]
        if outcomes:
            return Counter(outcomes).most_common(1)[0][0]
        return "refused" if self.refused is not None else "not measured"

    @property
    def typical(self) -> Contest | None:
        """The median comparison of those with the most frequent outcome; None without any."""
        alike = [contest for contest in self.contests if contest.decision.outcome == self.outcome]
        return middle(alike, self.sides[0]) if alike else None


def tallies(
    comparison: Comparison, sections: Sequence[Section], sides: tuple[str, str]
) -> list[Tally]:
    """Compare two targets at every point of a workload family, in each of its quantities.

    The rate of operations is left out if it has the ratios of throughput, as with one block size.
    Families with metrics of their own have no such rate.
    """
    page = sections[0].page
    place = (sections[0].kind, *sides)
    known: list[Tally] | None = comparison.tallies.get(place)
    if known is not None:
        return known
    made = [_tally(comparison, sections, sides, key, per) for key, per in _quantities(page)]
    found = [tally for tally in made if tally is not None]
    rate = f"{page.operations.rate.name}.all"
    moved = next((tally for tally in found if (tally.key, tally.per) == (THROUGHPUT, "")), None)
    found = [t for t in found if t.key != rate or t.per or moved is None or not _alike(t, moved)]
    comparison.tallies[place] = found
    return found


def _alike(rate: Tally, moved: Tally) -> bool:
    """Return whether two quantities have the same ratio at every point."""
    if rate.key == moved.key:
        return False
    ratios = [[c.decision.ratio.estimate for c in tally.contests] for tally in (rate, moved)]
    return len(ratios[0]) == len(ratios[1]) and all(
        math.isclose(first, other, rel_tol=SAME_RATIO) for first, other in zip(*ratios, strict=True)
    )


def _quantities(page: Page) -> list[tuple[str, Per]]:
    """Return every compared metric, then the metrics of questions per terabyte or per price."""
    rate = f"{page.operations.rate.name}.all"
    first, *others = ratio_table_keys(page)
    rates = (first,) if page.metrics.quantities else (first, rate)
    plain: list[tuple[str, Per]] = [(key, "") for key in (*rates, *others, POWER)]
    divided = [
        (key, question.per)
        for question in page.metrics.questions
        if question.per
        for key in question.keys[:1]
    ]
    return list(dict.fromkeys([*plain, *divided]))


def _tally(
    comparison: Comparison,
    sections: Sequence[Section],
    sides: tuple[str, str],
    key: str,
    per: Per,
) -> Tally | None:
    contests, refused, missing = [], None, ""
    for section in sections:
        for point in section.points:
            row = comparison.row(point)
            decision = _decided(comparison, row, sides, key, per)
            if decision is None:
                missing = missing or ("" if per else _why_missing(row, sides, key))
            elif decision.interval is None:
                refused = refused or decision
            elif decision.interval.estimate > 0:
                contests.append(Contest(decision, section, row, per))
    if not contests and refused is None and not missing:
        return None
    return Tally(sides, key, per, tuple(contests), refused, missing)


def _why_missing(row: Row, sides: tuple[str, str], key: str) -> str:
    """Return why one of two targets has no value at a point; empty if both or none have one."""
    cells = [row.cells[side] for side in sides]
    lacking = [cell for cell in cells if key not in cell.values]
    if len(lacking) != 1 or not all(cell.point_id for cell in cells) or key not in PLACES:
        return ""
    column = COLUMNS[PLACES[key]]
    return f"{lacking[0].target}: {lacking[0].why_missing(column)}" if column.better else ""
