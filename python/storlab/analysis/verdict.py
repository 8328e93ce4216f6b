"""Answers to a study's questions: the leading target, its lead, the confidence and its drawbacks.

For each question, all pairs of targets are compared at the far point of every mix and size. The
intervals of all these comparisons hold simultaneously (Bonferroni): if targets are identical, at
most one brief in twenty names a winner. The winner is decided better than every other target at
some point, and decided worse than none at any point. Its headline is the median, not the largest,
lead over the next best.

The winner's disadvantages are searched at every point and in every quantity, each with its own 95 %
interval: reporting one too many is better than missing one.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import combinations

from storlab.analysis.answer import Advantage, Standing, Verdict, in_words, inverse
from storlab.analysis.columns import COLUMNS, Column, label_of, ratio_table_keys
from storlab.analysis.compare import PLACES, Comparison, Ratio, Row, ratio_between
from storlab.analysis.density import storage_price
from storlab.analysis.points import Section
from storlab.analysis.stats import CONFIDENCE, Interval
from storlab.base.units import TB
from storlab.contracts.hook import load
from storlab.contracts.page import Page
from storlab.contracts.question import Per, Question
from storlab.model.target import Target
from storlab.workloads.common.flags import flag_meanings

PER_WORDS: dict[Per, str] = {"": "", "tb": " per terabyte", "money": " for the money"}


@dataclass(frozen=True, slots=True)
class _PairComparison:
    """Comparison of two targets at one point; ``ratio`` is how many times as good the first is."""

    section: Section
    row: Row
    column: Column
    first: str
    other: str
    ratio: Ratio
    share: float
    confidence: float

    def of(self, target: str) -> Interval:
        """Return how many times as good ``target`` is as the other one."""
        return self.ratio.interval if target == self.first else inverse(self.ratio.interval)

    @property
    def winner(self) -> str:
        """Target that is decided ahead; empty if undecided."""
        if not self.ratio.decided:
            return ""
        return self.first if self.ratio.interval.estimate > 1 else self.other


def verdicts(comparison: Comparison) -> list[Verdict]:
    """Return the answers to all questions in order; the first one heads the brief.

    Questions without any measurement are left out.
    """
    if comparison.answered is None:
        comparison.answered = _answered(comparison)
    return comparison.answered


def _answered(comparison: Comparison) -> list[Verdict]:
    asked = [
        (sections, question, _contests(comparison, sections, question, CONFIDENCE))
        for sections in comparison.kinds.values()
        for question in questions_of(comparison, sections)
    ]
    count = sum(len(contests) for _, _, contests in asked)
    sure = 1 - (1 - CONFIDENCE) / max(count, 1)
    return [
        _verdict(comparison, sections, question, count, sure)
        for sections, question, _ in asked
        if any(cell.measured for s in sections for p in s.points
               for cell in comparison.row(p).cells.values())
    ]  # fmt: skip


def questions_of(comparison: Comparison, sections: Sequence[Section]) -> list[Question]:
    """Return the questions to answer for a workload family: the study's, else its defaults."""
    page = sections[0].page
    known = {question.name: question for question in page.metrics.questions}
    wanted = [name for store in comparison.dataset.stores for name in store.study.study.question]
    if wanted:
        return [known[name] for name in dict.fromkeys(wanted) if name in known]
    always = [question for question in page.metrics.questions if question.asked == "always"]
    more = [
        question
        for question in page.metrics.questions
        if question.asked == "answered" and _contests(comparison, sections, question, CONFIDENCE)
    ]
    return [*always, *more]


def targets_compared(comparison: Comparison, question: str) -> set[str]:
    """Return the targets that have a counterpart to be compared with in this question."""
    return {
        side
        for sections in comparison.kinds.values()
        for asked in sections[0].page.metrics.questions
        if asked.name == question
        for contest in _contests(comparison, sections, asked, CONFIDENCE)
        for side in (contest.first, contest.other)
    }


def _contests(
    comparison: Comparison, sections: Sequence[Section], question: Question, confidence: float
) -> list[_PairComparison]:
    """Compare every pair of targets at the far point of every mix and size."""
    contests = []
    for section in sections:
        for facet in section.facets():
            point = comparison.last_point(section, facet)
            row = None if point is None else comparison.row(point)
            for first, other in combinations(comparison.targets, 2) if row is not None else ():
                for key in question.keys:
                    contest = _contest(
                        comparison, section, row, (first, other), key, confidence, question.per
                    )
                    if contest is not None:
                        contests.append(contest)
                        break
    return contests


def _contest(
    comparison: Comparison,
    section: Section,
    row: Row | None,
    sides: tuple[str, str],
    key: str,
    confidence: float,
    per: Per = "",
) -> _PairComparison | None:
    if row is None or key not in PLACES:
        return None
    column = COLUMNS[PLACES[key]]
    cells = [row.cells[side] for side in sides]
    share = share_of(comparison, sides, per)
    if not all(cell.measured for cell in cells) or share is None or not column.better:
        return None
    ratio = ratio_between(comparison, cells[0], cells[1], key, confidence)
    if ratio is None or ratio.interval.estimate <= 0:
        return None
    times = scaled(ratio.interval, share)
    times = inverse(times) if column.better == "less" else times
    return _PairComparison(
        section, row, column, *sides, replace(ratio, interval=times), share, confidence
    )


def scaled(ratio: Interval, share: float) -> Interval:
    """Return a ratio multiplied by a declared quantity, which has no uncertainty."""
    low = None if ratio.low is None else ratio.low * share
    high = None if ratio.high is None else ratio.high * share
    return replace(ratio, estimate=ratio.estimate * share, low=low, high=high)


def share_of(comparison: Comparison, sides: tuple[str, str], per: Per) -> float | None:
    """Return the other target's declared fact over the first one's.

    None if one of them does not declare it, or if the currencies differ.
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
        return storage_price(target)
    return None if target.capacity is None else target.capacity / TB


def _verdict(
    comparison: Comparison,
    sections: Sequence[Section],
    question: Question,
    count: int,
    sure: float,
) -> Verdict:
    contests = _contests(comparison, sections, question, sure)
    several = len(comparison.kinds) > 1
    plain = Verdict(
        question=question.name,
        title=question.title,
        kind="unanswered" if len(comparison.targets) > 1 else "alone",
        workload=sections[0].workload if several else "",
        targets=tuple(comparison.targets),
        does=question.does,
        unsure=question.unsure,
        comparisons=count,
        told=in_words(load(question.told)(comparison, sections)) if question.told else (),
    )
    if not contests:
        return plain
    keys = dict.fromkeys(contest.row.point.key for contest in contests)
    sides = dict.fromkeys(side for c in contests for side in (c.first, c.other))
    ahead = {side: len({c.row.point.key for c in contests if c.winner == side}) for side in sides}
    told = replace(plain, points=len(keys), ahead=ahead, targets=tuple(sides))
    winner = next((side for side in sides if _beats_all(contests, side, list(sides))), "")
    if not winner:
        return _with_sides(comparison, sections, _no_winner(told, contests, question.per))
    next_best = _next_best(contests, winner)
    won = [c for c in next_best if c.winner == winner]
    middle = _middle(won, winner)
    every = [c.of(winner).estimate for c in next_best]
    verdict = replace(
        told,
        kind="winner",
        winner=winner,
        index=comparison.targets.index(winner),
        headline=_advantage(middle, winner, question.per),
        least=min(every),
        most=max(every),
        won=len(won),
        caveat=_caveat(middle, winner),
    )
    return _with_sides(comparison, sections, verdict)


def _with_sides(comparison: Comparison, sections: Sequence[Section], verdict: Verdict) -> Verdict:
    """Return the verdict with the quantities in which the leader is better and worse."""
    leader = verdict.leader
    standings = _standings(comparison, sections, leader)
    better = tuple(standing for standing in standings if standing.ahead == leader)
    worse = tuple(standing for standing in standings if standing.behind == leader)
    return replace(verdict, better=better, worse=worse)


def _beats_all(contests: Sequence[_PairComparison], target: str, sides: Sequence[str]) -> bool:
    """Return whether a target is decided ahead of each other one, and behind none at any point."""
    of_target = [c for c in contests if target in (c.first, c.other)]
    beaten = {c.other if c.first == target else c.first for c in of_target if c.winner == target}
    return beaten == {s for s in sides if s != target} and all(c.winner in ("", target)
                                                               for c in of_target)  # fmt: skip


def _next_best(contests: Sequence[_PairComparison], winner: str) -> list[_PairComparison]:
    """Return the comparisons with the target that comes closest to the winner."""
    by_other: dict[str, list[_PairComparison]] = {}
    for contest in contests:
        if winner in (contest.first, contest.other):
            other = contest.other if contest.first == winner else contest.first
            by_other.setdefault(other, []).append(contest)
    return min(by_other.values(), key=lambda ratios: _middle(ratios, winner).of(winner).estimate)


def _middle(contests: Sequence[_PairComparison], target: str) -> _PairComparison:
    """Return the comparison with the median ratio; of two middle ones, the smaller."""
    ordered = sorted(contests, key=lambda contest: contest.of(target).estimate)
    return ordered[(len(ordered) - 1) // 2]


def _no_winner(told: Verdict, contests: Sequence[_PairComparison], per: Per) -> Verdict:
    """Return the verdict without a winner: it depends on the point, or nothing is decided.

    Its headline is the largest difference.
    """
    decided = [c for c in contests if c.winner] or list(contests)

    def far(contest: _PairComparison) -> float:
        return max(contest.of(contest.first).estimate, contest.of(contest.other).estimate)

    largest = max(decided, key=far)
    leader = max((largest.first, largest.other), key=lambda side: largest.of(side).estimate)
    return replace(
        told,
        kind="depends" if any(c.winner for c in contests) else "undecided",
        headline=_advantage(largest, leader, per),
        caveat=_caveat(largest, leader),
    )


def _advantage(contest: _PairComparison, ahead: str, per: Per) -> Advantage:
    behind = contest.other if ahead == contest.first else contest.first
    cells = [contest.row.cells[side] for side in (ahead, behind)]
    page = contest.section.page
    where = contest.section.where(contest.row.point)
    scale_note = page.text.scale_note(contest.row.point.params)
    return Advantage(
        key=contest.column.key,
        what=f"{label_of(page, contest.column, whole=True)}{PER_WORDS[per]}",
        ahead=ahead,
        behind=behind,
        where=f"{where} ({scale_note})" if scale_note and scale_note not in where else where,
        times=contest.of(ahead),
        point_ids=tuple(cell.point_id for cell in cells if cell.point_id),
        run_ids=tuple(run for cell in cells for run in cell.runs_with(contest.column)),
        note=_note(contest.ratio),
        less=contest.column.better == "less",
        own_runs=len(cells[0].runs_with(contest.column)),
        share=contest.share if ahead == contest.first else 1 / contest.share,
        confidence=contest.confidence,
    )


def _note(ratio: Ratio) -> str:
    """Return why the two sides are not fully comparable; empty if they are."""
    if ratio.boundaries:
        return f"power at unequal boundaries: {ratio.boundaries}"
    return "at different effective concurrency" if ratio.concurrency is not None else ""


def _standings(comparison: Comparison, sections: Sequence[Section], target: str) -> list[Standing]:
    """Return the quantities in which a target is decided ahead of or behind another one."""
    page = sections[0].page
    standings = []
    for other in (label for label in comparison.targets if label != target):
        for key, per in _looked_at(page):
            contests = [
                contest
                for section in sections
                for point in section.points
                if (contest := _contest(
                    comparison, section, comparison.row(point), (target, other), key, CONFIDENCE,
                    per,
                )) is not None
            ]  # fmt: skip
            for ahead, behind in ((target, other), (other, target)):
                won = [contest for contest in contests if contest.winner == ahead]
                if won:
                    example = _advantage(_middle(won, ahead), ahead, per)
                    counts = (len(won), len(contests))
                    standings.append(Standing(key, example.what, ahead, behind, *counts, example))
    return standings


def _looked_at(page: Page) -> list[tuple[str, Per]]:
    """Return every compared quantity, followed by those the page asks for per terabyte or price."""
    plain: list[tuple[str, Per]] = [(key, "") for key in (*ratio_table_keys(page), "power_w.all")]
    divided = [
        (key, question.per)
        for question in page.metrics.questions
        if question.per
        for key in question.keys[:1]
    ]
    return list(dict.fromkeys([*plain, *divided]))


def _caveat(contest: _PairComparison, target: str) -> str:
    """Return the most important caveat: first bias of the comparison, then values not measured."""
    behind = contest.other if target == contest.first else contest.first
    cells = [contest.row.cells[side] for side in (target, behind)]
    if contest.ratio.concurrency is not None:
        return "The two were measured at different effective concurrency."
    if contest.ratio.boundaries:
        return f"Their power was measured at unequal boundaries: {contest.ratio.boundaries}."
    first, second = ({id(run.store) for run in cell.runs} for cell in cells)
    if not first & second:
        return (
            "The two were measured in different campaigns: what changed between them is part of "
            "the difference."
        )
    for meaning in flag_meanings().values():
        on = [c.target for c in cells if any(f.kind == meaning.kind for f in c.flags)]
        told = not meaning.about or contest.column.name.startswith(meaning.about)
        if on and meaning.claims and told:
            return f"On {' and '.join(on)}, {_first(meaning.meaning)}"
    weak = {cell.provenance_of(contest.column): cell.target for cell in cells}
    for word in ("modelled", "emulated", "declared"):
        if word in weak:
            return f"The {label_of(contest.section.page, contest.column)} is {word}."
    runs = min(len(cell.runs) for cell in cells)
    return "Each point was run only twice." if runs == 2 else ""


def _first(text: str) -> str:
    """Return the first sentence in lower case and without a full stop, to follow a comma."""
    first = text.partition(". ")[0].rstrip(".")
    return f"{first[:1].lower()}{first[1:]}."
