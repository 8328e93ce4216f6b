"""Answers to a study's questions: the leading target, its lead, the confidence and its drawbacks.

For each question, all pairs of targets are compared at the last point of the axis of every mix and
size. The outcomes of all these comparisons hold together (Bonferroni): if targets are identical, at
most one brief in twenty names a winner. Printed intervals are those of single comparisons. The
winner is significantly better than every other target at some point, and not significantly worse
than any at any point. The lead that is quoted is the median, not the largest, lead over the next
best target.

The winner's disadvantages are searched at every point and in every metric, each with its own 95 %
interval, because reporting one too many is better than missing one.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from itertools import combinations

from storlab.analysis.columns import COLUMNS, label_of
from storlab.analysis.compare import PLACES, Cell, Comparison
from storlab.analysis.contests import Contest, contest, middle, tallies
from storlab.analysis.not_compared import reason_of
from storlab.analysis.points import Section
from storlab.contracts.details import Details
from storlab.contracts.hook import load
from storlab.contracts.question import Question
from storlab.model.decision import Caveat, Verdict
from storlab.workloads.common.flags import flag_meanings
from storlab.workloads.common.proof import PAGE_CACHE


def verdicts(comparison: Comparison) -> list[Verdict]:
    """Return the answers to all questions in order; the first one heads the brief.

    Questions without any measurement are left out.
    """
    if comparison.verdicts is None:
        comparison.verdicts = _answered(comparison)
    return comparison.verdicts


def _answered(comparison: Comparison) -> list[Verdict]:
    asked = [
        (sections, question, _contests(comparison, sections, question))
        for sections in comparison.kinds.values()
        for question in questions_of(comparison, sections)
    ]
    count = sum(len(contests) for _, _, contests in asked)
    return [
        _verdict(comparison, sections, question, count)
        for sections, question, _ in asked
        if any(cell.measured for s in sections for p in s.points
               for cell in comparison.row(p).cells.values())
    ]  # fmt: skip


def questions_of(comparison: Comparison, sections: Sequence[Section]) -> list[Question]:
    """Return the questions to answer: those of the study, or else of the workload family."""
    page = sections[0].page
    known = {question.name: question for question in page.metrics.questions}
    wanted = [name for store in comparison.dataset.stores for name in store.study.study.question]
    if wanted:
        return [known[name] for name in dict.fromkeys(wanted) if name in known]
    always = [question for question in page.metrics.questions if question.asked == "always"]
    more = [
        question
        for question in page.metrics.questions
        if question.asked == "answered" and _contests(comparison, sections, question)
    ]
    return [*always, *more]


def targets_compared(comparison: Comparison, question: str) -> set[str]:
    """Return the targets that can be compared with another target on a question."""
    return {
        side
        for sections in comparison.kinds.values()
        for asked in sections[0].page.metrics.questions
        if asked.name == question
        for contest in _contests(comparison, sections, asked)
        for side in contest.decision.sides
    }


def _contests(
    comparison: Comparison, sections: Sequence[Section], question: Question, count: int = 1
) -> list[Contest]:
    """Compare every pair of targets on a question, at the last point of every mix and size.

    Outcomes hold for ``count`` comparisons together.
    """
    contests = []
    for section in sections:
        for facet in section.facets():
            point = comparison.last_point(section, facet)
            row = None if point is None else comparison.row(point)
            for sides in combinations(comparison.targets, 2) if row is not None else ():
                known = (
                    contest(comparison, section, row, sides, key, question.per, count)
                    for key in question.keys
                    if row is not None
                )
                first = next((made for made in known if made is not None), None)
                if first is not None:
                    contests.append(first)
    return contests


def _verdict(
    comparison: Comparison, sections: Sequence[Section], question: Question, count: int
) -> Verdict:
    contests = _contests(comparison, sections, question, count)
    reason = None if contests else reason_of(comparison, question, ())
    plain = Verdict(
        question=question.name,
        title=question.title,
        kind="alone" if reason is None else reason.outcome,
        reason=reason,
        workload=sections[0].workload if len(comparison.kinds) > 1 else "",
        targets=tuple(comparison.targets),
        does=question.does,
        unsure=question.unsure,
        comparisons=count,
        texts=_texts(load(question.textual)(comparison, sections)) if question.textual else (),
    )
    if not contests:
        return plain
    keys = dict.fromkeys(contest.row.point.key for contest in contests)
    sides = dict.fromkeys(side for contest in contests for side in contest.decision.sides)
    ahead = {side: len({c.row.point.key for c in contests if c.winner == side}) for side in sides}
    winner = next((side for side in sides if _beats_all(contests, side, list(sides))), "")
    if winner:
        next_best = _next_best(contests, winner)
        won = [c for c in next_best if c.winner == winner]
        leads = [c.lead_of(winner) for c in next_best]
        chosen, leader = middle(won, winner), winner
        more = {"won": len(won), "range": (min(leads), max(leads)), "kind": "winner"}
    else:
        decided = [c for c in contests if c.winner]
        outcome = Counter(c.decision.outcome for c in contests).most_common(1)[0][0]
        open_ones = [c for c in contests if c.decision.outcome == outcome]
        chosen = max(decided or open_ones, key=_size)
        leader = chosen.decision.leader_first.sides[0]
        alike = len({c.row.point.key for c in open_ones})
        more = {"kind": "depends"} if decided else {"kind": outcome, "alike": alike}
    standings = [
        standing
        for other in comparison.targets
        if other != leader
        for tally in tallies(comparison, sections, (leader, other))
        for side in tally.sides
        if (standing := tally.standing(side)) is not None
    ]
    return plain.model_copy(
        update={
            "points": len(keys),
            "ahead": ahead,
            "targets": tuple(sides),
            "winner": winner,
            "headline": chosen.described(leader),
            "caveat": _caveat(chosen, leader),
            "better": tuple(s for s in standings if s.ahead == leader),
            "worse": tuple(s for s in standings if s.behind == leader),
            **more,
        }
    )


def _size(contest: Contest) -> float:
    return max(contest.lead_of(side) for side in contest.decision.sides)


def _texts(answers: Iterable[tuple[str, str, str]]) -> tuple[tuple[str, str], ...]:
    """Merge textual answers by target; if a target has several, add to each where it applies.

    Args:
        answers: Tuples of target, text, and a phrase with the points that the text is about.
    """
    by_target: dict[str, dict[str, list[str]]] = {}
    for target, text, place in answers:
        by_target.setdefault(target, {}).setdefault(text, []).append(place)
    return tuple(
        (target, "; ".join(_placed(text, places, len(texts)) for text, places in texts.items()))
        for target, texts in by_target.items()
    )


def _placed(text: str, places: Sequence[str], texts: int) -> str:
    where = ", ".join(place for place in places if place)
    return f"{text} ({where})" if where and texts > 1 else text


def _beats_all(contests: Sequence[Contest], target: str, sides: Sequence[str]) -> bool:
    """Return whether a target is significantly better than every other, and nowhere worse."""
    own = [c.decision.seen_from(target) for c in contests if target in c.decision.sides]
    beaten = {decision.sides[1] for decision in own if decision.outcome == "better"}
    loses = any(decision.outcome == "worse" for decision in own)
    return not loses and beaten == {side for side in sides if side != target}


def _next_best(contests: Sequence[Contest], winner: str) -> list[Contest]:
    """Return the comparisons with the target that comes closest to the winner."""
    by_other: dict[str, list[Contest]] = {}
    for made in contests:
        if winner in made.decision.sides:
            other = made.decision.seen_from(winner).sides[1]
            by_other.setdefault(other, []).append(made)
    return min(by_other.values(), key=lambda own: middle(own, winner).lead_of(winner))


def _caveat(contest: Contest, target: str) -> Caveat | None:
    """Return the first caveat that applies: bias, then values not measured, then few repeats."""
    decision = contest.decision.seen_from(target)
    column = COLUMNS[PLACES[decision.quantity]]
    cells = [contest.row.cells[side] for side in decision.sides]
    if decision.concurrency is not None:
        return Caveat(kind="different concurrency")
    if decision.boundaries:
        return Caveat(kind="unequal boundaries", detail=decision.boundaries)
    first, second = ({id(run.store) for run in cell.runs} for cell in cells)
    if not first & second:
        return Caveat(kind="different campaigns")
    for meaning in flag_meanings().values():
        flagged = [c for c in cells if any(f.kind == meaning.kind for f in c.flags)]
        concerns = not meaning.about or column.name.startswith(meaning.about)
        if flagged and meaning.claims and concerns:
            return flag_caveat(meaning.kind, flagged)
    weak = {cell.provenance_of(column): cell.target for cell in cells}
    for word in ("modelled", "emulated", "declared"):
        if word in weak:
            what = label_of(contest.section.page, column)
            return Caveat(kind="not measured", detail=word, what=what)
    runs = min(len(cell.runs) for cell in cells)
    return Caveat(kind="two repeats") if runs == 2 else None


def flag_caveat(kind: str, cells: Sequence[Cell]) -> Caveat:
    """Return the caveat of a flag that these results have: ``in memory`` if it proves no less."""
    targets = tuple(dict.fromkeys(cell.target for cell in cells))
    known = [Details.of(run.record).medium for cell in cells for run in cell.runs]
    if kind == PAGE_CACHE and all(medium is not None and medium.memory for medium in known):
        return Caveat(kind="in memory", targets=targets)
    return Caveat(kind="flag", targets=targets, detail=kind)
