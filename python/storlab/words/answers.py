"""Sentences that answer a study's question: comparison, disadvantages of the winner, caveat."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from storlab.analysis import digits
from storlab.model.decision import Caveat, Decision, Standing, Verdict
from storlab.words.outcomes import HEADLINES, NO_CLEAR_DIFFERENCE, reason_text
from storlab.words.text import DIFFERENT_CONCURRENCY, WITHIN_NOISE, and_list
from storlab.workloads.common.flags import flag_meanings

NO_ADVANTAGE = "No statistically clear advantage found."
NO_DISADVANTAGE = "No statistically clear disadvantage found."
CAVEATS = {
    "different concurrency": f"The two were measured {DIFFERENT_CONCURRENCY}.",
    "unequal boundaries": "Their power was measured at unequal boundaries: {detail}.",
    "different campaigns": (
        "The two were measured in different campaigns, so the difference includes whatever "
        "changed between them."
    ),
    "not measured": "The {what} is {detail}.",
    "two repeats": "Each point was run only twice.",
}
"""Sentences of caveats by kind; a flag has a sentence of its own."""


@dataclass(frozen=True, slots=True)
class AnswerText:
    """Sentences and headings of one answer, for the first screen of a brief."""

    title: str
    amount: str  # lead of the winner as a multiple; empty without a winner
    against: str  # ``over Disk``, or ``better than Disk`` for quantities of which less is better
    bounds: str  # bounds of the lead as text
    outcome: str  # shown if there is no winner
    basis: str  # confidence of the interval and number of comparisons; empty without any
    sentences: list[str]  # at most three; the first is the answer
    warnings: list[str]  # sentences that qualify the answer
    better_title: str  # heading of the advantages
    worse_title: str  # heading of the drawbacks
    no_advantage: str = NO_ADVANTAGE
    no_disadvantage: str = NO_DISADVANTAGE


def text_of(verdict: Verdict, first: Verdict | None = None) -> AnswerText:
    """Return the sentences and headings of an answer.

    Args:
        verdict: The answer.
        first: Answer that was printed before; its sentences are not repeated.
    """
    answer, *others = sentences(verdict)[bool(verdict.texts) :]
    known = [] if first is None else sentences(first)
    workload = f" ({verdict.workload})" if verdict.workload else ""
    best = verdict.headline if verdict.winner else None
    return AnswerText(
        title=f"{verdict.title}{workload}",
        amount="" if best is None else _amount(best),
        against="" if best is None else _against(best),
        bounds="" if best is None else digits.ends_text(best.advantage),
        outcome=_headline(verdict),
        basis=_basis(verdict),
        sentences=[answer, *(text for text in others if text not in known)],
        warnings=_warnings(verdict),
        better_title=f"Where {verdict.leader} is better",
        worse_title=_worse_title(verdict),
    )


def sentences(verdict: Verdict) -> list[str]:
    """Return the sentences of an answer: text (if any), comparison, disadvantages, caveat."""
    texts = (_textual(verdict), compared(verdict), _disadvantages(verdict))
    return [text for text in (*texts, caveat_text(verdict.caveat)) if text]


def _warnings(verdict: Verdict) -> list[str]:
    """Return the sentences that qualify the answer: the winner's disadvantages and the caveat."""
    is_worse = verdict.kind == "winner" and bool(verdict.worse)
    texts = (_disadvantages(verdict) if is_worse else "", caveat_text(verdict.caveat))
    return [text for text in texts if text]


def document(verdict: Verdict) -> dict[str, Any]:
    """Return an answer and its sentences as plain values for JSON."""
    return {**verdict.model_dump(), "sentences": sentences(verdict)}


def _amount(best: Decision) -> str:
    advantage = best.advantage
    return "ahead" if digits.has_unknown_size(advantage) else digits.times(advantage)


def _against(best: Decision) -> str:
    behind = best.sides[1]
    if digits.has_unknown_size(best.advantage):
        return f"of {behind}"
    # "3 times over" would be misread for a quantity of which less is better.
    return f"{'better than' if best.better == 'less' else 'over'} {behind}"


def _basis(verdict: Verdict) -> str:
    if verdict.headline is None or not verdict.comparisons:
        return ""
    if verdict.comparisons == 1:
        return "95\u00a0% interval of the only comparison"
    interval = "95\u00a0% interval of this comparison alone"
    if not verdict.headline.decided:
        return interval
    return (
        f"{interval}; the difference is significant in all {verdict.comparisons:,} comparisons "
        "taken together, too"
    )


def _worse_title(verdict: Verdict) -> str:
    """Return the heading of the list of metrics in which the leading target is worse.

    If there is no winner among two targets, the heading says where the other one is better.
    """
    if verdict.winner or not verdict.leader:
        return "Where it is worse"
    if len(verdict.targets) > 2:
        return f"Where {verdict.leader} is worse"
    (other,) = (target for target in verdict.targets if target != verdict.leader)
    return f"Where {other} is better"


def contrast_place(standing: Standing) -> str:
    """Return a phrase with the number of points at which a target is better, and an example."""
    where = standing.example.where
    if standing.of == 1:
        return f"at {where}"
    number = "all" if standing.points == standing.of else f"{standing.points} of"
    which = "the median: " if standing.points > 2 else "such as " * (standing.points == 2)
    return f"at {number} {standing.of} points ({which}{where})"


def note(decision: Decision) -> str:
    """Return why two compared targets are not fully comparable; empty if they are."""
    if decision.boundaries:
        return f"power at unequal boundaries: {decision.boundaries}"
    return DIFFERENT_CONCURRENCY if decision.concurrency is not None else ""


def caveat_text(caveat: Caveat | None) -> str:
    """Return a caveat as a sentence; empty without one."""
    if caveat is None:
        return ""
    if caveat.kind == "flag":
        meaning = flag_meanings()[caveat.detail].meaning.partition(". ")[0].rstrip(".")
        return f"On {and_list(caveat.targets)}, {meaning[:1].lower()}{meaning[1:]}."
    return CAVEATS[caveat.kind].format(detail=caveat.detail, what=caveat.what)


def _textual(verdict: Verdict) -> str:
    """Return the textual answers as a sentence, one clause per distinct text.

    Example: ``Disk: the device saturates at 8 workers; memory: CPU-bound at 8 workers.``
    """
    if not verdict.texts:
        return ""
    same: dict[str, list[str]] = {}
    for target, text in verdict.texts:
        same.setdefault(text, []).append(target)
    statements = [
        f"{' and '.join(targets)}: {text}" if all(targets) else text
        for text, targets in same.items()
    ]
    return f"{_family(verdict)}{'; '.join(statements).rstrip('.')}."


def compared(verdict: Verdict) -> str:
    """Return the sentence that says which target is better, or why that is unknown."""
    best = verdict.headline
    family = _family(verdict)
    if verdict.kind == "winner" and best is not None:
        next_best = ", the next best" if len(verdict.targets) > 2 else ""
        if digits.has_unknown_size(best.advantage):
            return f"{family}{_without_size(verdict, best, next_best)}"
        lead = _lead(verdict, best, next_best)
        return f"{family}{verdict.winner} {lead}{_which_point(verdict)}."
    if verdict.kind == "depends" and best is not None:
        return f"{family}No target is ahead everywhere: {_leads(verdict)}."
    if verdict.reason is not None:
        return f"{family}{reason_text(verdict.reason, verdict.question, verdict.title)}"
    if best is not None:
        return f"{family}{and_list(verdict.targets)}{_not_significant(verdict, best)}"
    only = verdict.targets[0]
    return f"{family}Only {only} was measured: there is nothing to compare it with."


def _headline(verdict: Verdict) -> str:
    """Return the outcome in large type; empty with a winner."""
    best = verdict.headline
    if verdict.kind == "within noise" and best is not None and best.advantage.excludes(1.0):
        return NO_CLEAR_DIFFERENCE
    return HEADLINES[verdict.kind]


def _not_significant(verdict: Verdict, best: Decision) -> str:
    """Return the end of a sentence that says why no difference is significant."""
    partly = 0 < verdict.alike < verdict.points
    places = f" at {verdict.alike} of {verdict.points} points" if partly else ""
    if verdict.kind == "one run":
        return f" ran once{places or ' at each point'}, so differences may be chance."
    if verdict.kind == "too noisy":
        noisy = f"{digits.TOO_NOISY} to estimate{places}"
        return f": the difference in {best.what} is {noisy}; add repeats."
    if best.advantage.excludes(1.0):
        return (
            f": the difference in {best.what} is not significant if all {best.comparisons:,} "
            "comparisons are taken together."
        )
    return f": the difference in {best.what} is {WITHIN_NOISE}{places}."


def _leads(verdict: Verdict) -> str:
    """Return a clause such as ``A is ahead at 3 of 4 points, and B at 1``."""
    (first, count), *others = [(t, n) for t, n in verdict.ahead.items() if n]
    rest = "".join(f", and {target} at {n}" for target, n in others)
    return f"{first} is ahead at {count} of {verdict.points} points{rest}"


def _without_size(verdict: Verdict, best: Decision, next_best: str) -> str:
    """Return the clause for a winner whose lead is too uncertain to quantify."""
    comma = "," if next_best else ""
    first, second = best.sides
    return (
        f"{first} is ahead of {second}{next_best}{comma} in {best.what} at {best.where}"
        f"{_which_point(verdict)}: {digits.times(best.advantage, ' times')}, and more repeats "
        "would show how much."
    )


def _lead(verdict: Verdict, best: Decision, more: str = "") -> str:
    """Return a clause such as ``moves 3.3 times as much data per second as Disk (2.9 to 3.7)``."""
    times = best.advantage
    ends = "" if digits.is_imprecise(times) else digits.ends_text(times).replace("–", " to ")
    interval = f" ({ends})" if ends else ""
    size = digits.times(times, " times")
    words = verdict.does.format(times=size, other=best.sides[1] + more)
    return f"{words}{interval} at {best.where}"


def _which_point(verdict: Verdict) -> str:
    """Return a clause on the origin of the quoted lead, such as ``, the median of 8 points``."""
    if verdict.points == 1:
        return ""
    if verdict.won == verdict.points:
        return f", the median of {verdict.points} points"
    if verdict.won == 1:
        return f", the only one of {verdict.points} points with a clear difference"
    return f", the median of the {verdict.won} points (of {verdict.points}) with a clear difference"


def _family(verdict: Verdict) -> str:
    return f"{verdict.workload}: " if verdict.workload else ""


def _disadvantages(verdict: Verdict) -> str:
    """Return the winner's disadvantages; without a winner, the possible size of the difference."""
    best = verdict.headline
    if verdict.kind == "winner":
        parts = [_worse(standing, verdict) for standing in verdict.worse[:2]]
        more = len(verdict.worse) - len(parts)
        if not parts:
            return NO_DISADVANTAGE
        if more:
            parts.append(f"{more} other {'quantity' if more == 1 else 'quantities'}")
        *first, last = parts
        before = f"{', '.join(first)} and " if first else ""
        return f"It is worse in {before}{last}."
    if best is None:
        return ""
    first_side, second_side = best.sides
    if verdict.kind == "within noise":
        ends = digits.ends_text(best.advantage).replace("–", " to ")
        if not ends:  # the interval of this comparison alone excludes 1, but is imprecise
            return ""
        words = verdict.unsure or f"{{ahead}} {verdict.does}"
        size = words.format(times=f"{ends} times", other=second_side, ahead=first_side)
        most = ", where they differ most" if verdict.points > 1 else ""
        return f"{size} at {best.where}{most}."
    if verdict.kind == "depends":
        return f"The largest difference: {first_side} {_lead(verdict, best)}."
    return ""


def _worse(standing: Standing, verdict: Verdict) -> str:
    what = standing.example.what
    than = f" than {standing.ahead}" if len(verdict.targets) > 2 else ""
    if standing.of == 1:
        return f"{what}{than} ({digits.times(standing.example.advantage)})"
    return f"{what}{than} (at {standing.points} of {standing.of} points)"
