"""Sentences that answer a study's question: comparison, disadvantages of the winner, caveat."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from storlab.analysis import digits
from storlab.model.decision import Caveat, Decision, Standing, Verdict
from storlab.words.outcomes import HEADLINES, NOT_CONFIRMED, reason_text
from storlab.words.text import (
    DIFFERENT_CONCURRENCY,
    WITHIN_NOISE,
    all_named,
    named,
    sentence_case,
)
from storlab.workloads.common.flags import flag_meanings

NO_DISADVANTAGE = "No statistically clear disadvantage found."
MIXED = "In no quantity is it worse at more points than it is better."
CAVEATS = {
    "different concurrency": f"The two were measured {DIFFERENT_CONCURRENCY}.",
    "unequal boundaries": "Their power was measured at unequal boundaries: {detail}.",
    "different campaigns": (
        "The two were measured in different campaigns, so the difference includes whatever "
        "changed between them."
    ),
    "in memory": "{targets}: the data is in memory, and no drive served the I/O.",
    "not measured": "The {what} is {detail}.",
    "two repeats": "Each point was run only twice.",
}
"""Sentences of caveats by kind; a flag has a sentence of its own."""


@dataclass(frozen=True, slots=True)
class TileText:
    """Words of one answer in a tile on the cover of a brief."""

    title: str
    amount: str  # lead of the winner as a multiple, or the outcome without a winner
    against: str  # ``over Disk``, or ``better than Disk`` for quantities of which less is better
    bounds: str  # bounds of the lead as text
    detail: str  # points won of the points compared, or why there is no winner


def tile_text(verdict: Verdict) -> TileText:
    """Return the words of an answer's tile."""
    best = verdict.headline
    title = f"{verdict.title} ({verdict.workload})" if verdict.workload else verdict.title
    if verdict.kind != "winner" or best is None:
        return TileText(title, _outcome(verdict), "", "", _why_open(verdict))
    advantage, behind = best.advantage, named(best.sides[1])
    if digits.has_unknown_size(advantage):
        amount, against = "ahead", f"of {behind}"
    else:
        # "3 times over" would be misread for a quantity of which less is better.
        over = "better than" if best.better == "less" else "over"
        amount, against = digits.times(advantage), f"{over} {behind}"
    return TileText(title, amount, against, digits.ends_text(advantage), _ahead_at(verdict, best))


def _why_open(verdict: Verdict) -> str:
    """Return at how many points a question is undecided, or why nothing is compared."""
    best = verdict.headline
    if verdict.reason is not None:
        return reason_text(verdict.reason, verdict.question, verdict.title)
    if best is None:
        return ""
    if verdict.kind == "depends":
        return f"{sentence_case(_leads(verdict))}."
    if verdict.kind == "within noise" and best.advantage.excludes(1.0):
        leader = best.leader_first
        lead, ends = digits.times(leader.advantage), digits.ends_text(leader.advantage)
        interval = f" [{ends}]" if ends else ""
        return (
            f"{named(leader.sides[0])} leads by {lead}{interval} at {best.where}, which is not "
            f"significant after correction for {best.comparisons:,} comparisons."
        )
    if verdict.points == 1:
        return f"{sentence_case(best.what)} at {best.where}."
    return f"{sentence_case(best.what)} at {verdict.alike} of {verdict.points} points."


def _ahead_at(verdict: Verdict, best: Decision) -> str:
    """Return a clause with the points that the winner won, and the one that the ratio is of."""
    named_above = best.what == verdict.title.lower()
    if verdict.points == 1:
        place = f"at {best.where}."
        return sentence_case(place) if named_above else f"{sentence_case(best.what)} {place}"
    which = "the median is" if verdict.won > 1 else "that is"
    ahead = f"ahead at {verdict.won} of {verdict.points} points; {which} {best.where}."
    return sentence_case(ahead) if named_above else f"{sentence_case(best.what)}: {ahead}"


def summary(verdicts: Sequence[Verdict]) -> list[str]:
    """Return the first answer in at most two sentences.

    The second one is the most important disadvantage of the winner, or else the caveat.
    """
    for verdict in verdicts[:1]:
        caveat, drawbacks = caveat_text(verdict.caveat), _disadvantages(verdict)
        second = drawbacks if verdict.worse and verdict.winner else caveat or drawbacks
        return [text for text in (compared(verdict), second) if text]
    return []


def basis(verdicts: Sequence[Verdict]) -> str:
    """Return what the intervals of tiles are, and when they name a winner; empty without any."""
    count = max((v.comparisons for v in verdicts if v.headline is not None), default=0)
    leads = [
        v.headline.advantage
        for v in verdicts
        if v.headline is not None and (v.winner or _outcome(v) == NOT_CONFIRMED)
    ]
    texts = []
    if any(digits.ends_text(lead) for lead in leads):
        what = "the only comparison" if count == 1 else "one comparison"
        texts.append(f"Brackets hold the 95\u00a0% interval of {what}.")
    if count > 1:
        texts.append(
            "A winner is named here only if its lead is significant after correction for "
            f"{count:,} comparisons. The tables below judge each comparison alone, so they may "
            "name more winners."
        )
    return " ".join(texts)


def sentences(verdict: Verdict) -> list[str]:
    """Return the sentences of an answer: text (if any), comparison, disadvantages, caveat."""
    texts = (_textual(verdict), compared(verdict), _disadvantages(verdict))
    return [text for text in (*texts, caveat_text(verdict.caveat)) if text]


def document(verdict: Verdict) -> dict[str, Any]:
    """Return an answer and its sentences as plain values for JSON."""
    return {**verdict.model_dump(), "sentences": sentences(verdict)}


def caveat_text(caveat: Caveat | None) -> str:
    """Return a caveat as a sentence; empty without one."""
    if caveat is None:
        return ""
    if caveat.kind == "flag":
        meaning = flag_meanings()[caveat.detail].meaning.partition(". ")[0].rstrip(".")
        return f"On {all_named(caveat.targets)}, {meaning[:1].lower()}{meaning[1:]}."
    targets = all_named(caveat.targets)
    return CAVEATS[caveat.kind].format(detail=caveat.detail, what=caveat.what, targets=targets)


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
        f"{all_named(targets)}: {text}" if all(targets) else text for text, targets in same.items()
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
        return f"{family}{named(verdict.winner)} {lead}{_which_point(verdict)}."
    if verdict.kind == "depends" and best is not None:
        return f"{family}No target is ahead everywhere in {best.what}: {_leads(verdict)}."
    if verdict.reason is not None:
        return f"{family}{reason_text(verdict.reason, verdict.question, verdict.title)}"
    if best is not None:
        return f"{family}{all_named(verdict.targets)}{_not_significant(verdict, best)}"
    only = named(verdict.targets[0])
    return f"{family}Only {only} was measured: there is nothing to compare it with."


def _outcome(verdict: Verdict) -> str:
    """Return the outcome of a question without a winner."""
    best = verdict.headline
    if verdict.kind == "within noise" and best is not None and best.advantage.excludes(1.0):
        return NOT_CONFIRMED
    return HEADLINES[verdict.kind]


def _not_significant(verdict: Verdict, best: Decision) -> str:
    """Return the end of a sentence that says why no difference is significant."""
    partly = 0 < verdict.alike < verdict.points
    places = f" at {verdict.alike} of {verdict.points} points" if partly else ""
    others = ", with no clear difference at the others" if partly else ""
    if verdict.kind == "one run":
        return f" ran once{places or ' at each point'}, so differences may be chance."
    if verdict.kind == "too noisy":
        noisy = f"{digits.TOO_NOISY} to estimate{places}"
        return f": the difference in {best.what} is {noisy}{others}; add repeats."
    if best.advantage.excludes(1.0):
        return (
            f": the difference in {best.what} is not significant after correction for "
            f"{best.comparisons:,} comparisons."
        )
    return f": the difference in {best.what} is {WITHIN_NOISE}{places}{others}."


def _leads(verdict: Verdict) -> str:
    """Return a clause such as ``A is ahead at 3 of 4 points, and B at 1``."""
    (first, count), *others = [(t, n) for t, n in verdict.ahead.items() if n]
    rest = "".join(f", and {named(target)} at {n}" for target, n in others)
    return f"{named(first)} is ahead at {count} of {verdict.points} points{rest}"


def _without_size(verdict: Verdict, best: Decision, next_best: str) -> str:
    """Return the clause for a winner whose lead is too uncertain to quantify."""
    comma = "," if next_best else ""
    first, second = map(named, best.sides)
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
    words = verdict.does.format(times=size, other=named(best.sides[1]) + more)
    return f"{words}{interval} at {best.where}"


def _which_point(verdict: Verdict) -> str:
    """Return a clause on the origin of the quoted lead, such as ``, the median of 8 points``."""
    if verdict.points == 1:
        return ""
    if verdict.won == verdict.points:
        return f", the median of {verdict.points} points"
    if verdict.won == 1:
        return f", the only one of {verdict.points} points with a significant lead"
    return f", the median of the {verdict.won} points (of {verdict.points}) with a significant lead"


def _family(verdict: Verdict) -> str:
    return f"{verdict.workload}: " if verdict.workload else ""


def _disadvantages(verdict: Verdict) -> str:
    """Return the winner's disadvantages; without a winner, the possible size of the difference."""
    best = verdict.headline
    if verdict.kind == "winner":
        worse = [standing for standing in verdict.worse if standing.points > standing.lost]
        parts = [_worse(standing, verdict) for standing in worse[:2]]
        more = len(worse) - len(parts)
        if not parts:
            return MIXED if verdict.worse else NO_DISADVANTAGE
        if more:
            parts.append(f"{more} other {'quantity' if more == 1 else 'quantities'}")
        *first, last = parts
        before = f"{', '.join(first)} and " if first else ""
        return f"It is worse in {before}{last}."
    if best is None:
        return ""
    first_side, second_side = map(named, best.sides)
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
    than = f" than {named(standing.ahead)}" if len(verdict.targets) > 2 else ""
    if standing.of == 1:
        return f"{what}{than} ({digits.times(standing.example.advantage)})"
    better = f", better at {standing.lost}" if standing.lost else ""
    return f"{what}{than} (at {standing.points} of {standing.of} points{better})"
