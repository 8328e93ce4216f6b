"""Answers to the study's questions for the first screen of a brief, with pros and cons."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from storlab.analysis import digits
from storlab.analysis.compare import Cell, Comparison
from storlab.analysis.verdict import verdicts
from storlab.audit.from_claims import Assertion
from storlab.brief.claims import boundaries_of, marks_of
from storlab.brief.flags import Mark
from storlab.brief.model import Answer, Contrast
from storlab.model.decision import Decision, Standing, Verdict
from storlab.words import answers as answer_words
from storlab.words.claims import times_of
from storlab.words.text import and_list

SECTIONS = {
    "efficiency": ("Power and efficiency", "power"),
    "cost": ("Density and cost", "density"),
}
SECTIONS |= {"density": ("Density and cost", "density")}


def answers(comparison: Comparison, anchors: Sequence[str]) -> list[Answer]:
    """Build one answer per question of the study, in its order; none for fewer than two targets.

    Args:
        comparison: Comparison with all points.
        anchors: Anchors of the sections that the page contains.
    """
    if len(comparison.targets) < 2:
        return []
    judged = verdicts(comparison)
    sides: dict[tuple[str, str], tuple[str, int]] = {}
    answered = []
    for number, verdict in enumerate(judged):
        answer = _answer(comparison, verdict, anchors, judged[0] if number else None)
        # With two targets, advantages of one are drawbacks of the other: print them only once.
        side = (verdict.workload, verdict.leader if len(verdict.targets) > 2 else "")
        if verdict.leader:
            answer = replace(answer, as_under=sides.get(side))
            sides.setdefault(side, (answer.text.title, number + 1))
        answered.append(answer)
    return answered


def _answer(
    comparison: Comparison, verdict: Verdict, anchors: Sequence[str], first: Verdict | None
) -> Answer:
    """Build the answer from one verdict; sentences that the first answer contains are left out."""
    at = verdict.headline
    title, anchor = SECTIONS.get(verdict.question, ("Ratios", "ratios"))
    return Answer(
        verdict=verdict,
        text=answer_words.text_of(verdict, first),
        index=comparison.targets.index(verdict.winner) if verdict.winner else 0,
        see=(title, anchor) if anchor in anchors else None,
        better=[_contrast(standing, verdict) for standing in verdict.better],
        worse=[_contrast(standing, verdict) for standing in verdict.worse],
        marks=[] if at is None else marks_beside(comparison, at),
        texts=_texts(comparison, verdict),
    )


def _texts(comparison: Comparison, verdict: Verdict) -> list[tuple[str, str, int | None]]:
    """Return answers that are text instead of a winner, as tuples of target, text and colour index.

    Targets with equal text share a tuple, which has no colour.
    """
    same: dict[str, list[str]] = {}
    for target, text in verdict.texts:
        same.setdefault(text, []).append(target)
    return [
        (
            and_list(targets) if all(targets) else "",
            text,
            comparison.targets.index(targets[0]) if targets[0] and len(targets) == 1 else None,
        )
        for text, targets in same.items()
    ]


def marks_beside(comparison: Comparison, best: Decision) -> list[Mark]:
    """Return the marks to print beside an answer's large number: those of flags that affect it."""
    cells = _cells(comparison, best)
    column = comparison.column(best.quantity)
    marks = marks_of(cells[0], cells[1], column) if len(cells) > 1 and column else ()
    return list(marks)


def _cells(comparison: Comparison, decision: Decision) -> list[Cell]:
    """Return the cells (one target at one point) that a decision compares."""
    cells = {c.point_id: c for row in comparison.rows.values() for c in row.cells.values()}
    return [cells[point] for point in decision.points if point in cells]


def _contrast(standing: Standing, verdict: Verdict) -> Contrast:
    example = standing.example
    other = standing.behind if standing.ahead == verdict.leader else standing.ahead
    return Contrast(
        what=example.what,
        other=other if len(verdict.targets) > 2 else "",
        amount=digits.times(example.advantage),
        where=answer_words.contrast_place(standing),
        point_id=example.points[0] if example.points else None,
        note=answer_words.note(example),
    )


def headlines(comparison: Comparison) -> list[Assertion]:
    """Return the answers' large numbers as assertions that the audit can check against runs."""
    return [
        _headline(comparison, verdict, best)
        for verdict in verdicts(comparison)
        if verdict.winner and (best := verdict.headline) is not None
    ]


def _headline(comparison: Comparison, verdict: Verdict, best: Decision) -> Assertion:
    first, other = _cells(comparison, best)
    marks = {mark.kind for mark in marks_beside(comparison, best)}
    return Assertion(
        statement=answer_words.compared(verdict),
        decision=best,
        caveat=answer_words.caveat_text(verdict.caveat),
        beside=frozenset(marks | ({"unequal-boundaries"} if best.boundaries else set())),
        numbers=(times_of(best, digits.times(best.advantage, " times")),),
        boundaries=boundaries_of((first, other)),
    )
