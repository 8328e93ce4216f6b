"""Answers to the study's questions as tiles for the cover of a brief."""

from __future__ import annotations

from storlab.analysis import digits
from storlab.analysis.compare import Cell, Comparison
from storlab.analysis.verdict import verdicts
from storlab.audit.from_claims import Assertion
from storlab.brief.flags import Mark, caveat_of
from storlab.brief.model import Tile
from storlab.model.decision import Decision, Verdict
from storlab.words import answers as answer_words
from storlab.words.findings import times_of
from storlab.words.text import and_list


def answer_tiles(comparison: Comparison) -> list[Tile]:
    """Build a tile for each question of the study, in its order.

    With one target there are tiles only for questions that are answered in text.
    """
    alone = len(comparison.targets) < 2
    return [_tile(comparison, v) for v in verdicts(comparison) if v.texts or not alone]


def _tile(comparison: Comparison, verdict: Verdict) -> Tile:
    text, at = answer_words.tile_text(verdict), verdict.headline
    bounds = f" [{text.bounds}]" if text.bounds else ""
    alone = verdict.kind == "alone"
    return Tile(
        title=text.title,
        name=verdict.winner,
        index=comparison.targets.index(verdict.winner) if verdict.winner else None,
        texts=_texts(comparison, verdict),
        amount="" if alone else text.amount,
        beside=f"{text.against}{bounds}",
        detail="" if alone else text.detail,
        point_id=at.points[0] if at is not None and verdict.winner else None,
        marks=() if at is None else marks_beside(comparison, at),
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


def marks_beside(comparison: Comparison, best: Decision) -> tuple[Mark, ...]:
    """Return the marks to print beside an answer's large number: those of flags that affect it."""
    cells, column = _cells(comparison, best), comparison.column(best.quantity)
    if len(cells) < 2 or column is None:
        return ()
    return caveat_of((cells[0], cells[1]), column, best)[1]


def _cells(comparison: Comparison, decision: Decision) -> list[Cell]:
    """Return the cells (one target at one point) that a decision compares."""
    cells = {c.point_id: c for row in comparison.rows.values() for c in row.cells.values()}
    return [cells[point] for point in decision.points if point in cells]


def headlines(comparison: Comparison) -> list[Assertion]:
    """Return the answers' large numbers as assertions that the audit can check against runs."""
    return [
        _headline(comparison, verdict, best)
        for verdict in verdicts(comparison)
        if verdict.winner and (best := verdict.headline) is not None
    ]


def _headline(comparison: Comparison, verdict: Verdict, best: Decision) -> Assertion:
    first, other = _cells(comparison, best)
    return Assertion(
        statement=answer_words.compared(verdict),
        decision=best,
        caveat=answer_words.caveat_text(verdict.caveat),
        beside=frozenset(mark.kind for mark in marks_beside(comparison, best)),
        numbers=(times_of(best, digits.times(best.advantage, " times")),),
        boundaries=(first.boundary, other.boundary),
    )
