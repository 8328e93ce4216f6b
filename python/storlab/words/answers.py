"""Sentences of an answer: the answer itself, the winner's disadvantages and the caveat."""

from __future__ import annotations

from typing import Any

from storlab.analysis import digits
from storlab.model.decision import Decision, Standing, Verdict


def sentences(verdict: Verdict) -> list[str]:
    """Return the textual answer (if any), the comparison, the disadvantages and the caveat."""
    texts = (_textual(verdict), compared(verdict), _disadvantages(verdict), verdict.caveat)
    return [text for text in texts if text]


def warnings(verdict: Verdict) -> list[str]:
    """Return the sentences that qualify the answer: the winner's disadvantages and the caveat."""
    is_worse = verdict.kind == "winner" and bool(verdict.worse)
    texts = (_disadvantages(verdict) if is_worse else "", verdict.caveat)
    return [text for text in texts if text]


def document(verdict: Verdict) -> dict[str, Any]:
    """Return the answer as plain values for JSON, with its sentences."""
    return {**verdict.model_dump(), "sentences": sentences(verdict)}


def amount(verdict: Verdict) -> str:
    """Return the lead of the winner: ``1.47×`` or ``at least 1.5×``; empty without a winner."""
    if not verdict.winner or verdict.headline is None:
        return ""
    advantage = verdict.headline.advantage
    return "ahead" if digits.has_unknown_size(advantage) else digits.times(advantage)


def against(verdict: Verdict) -> str:
    """Return the target that the lead is over, as ``over Disk``; empty without a winner."""
    if not verdict.winner or verdict.headline is None:
        return ""
    behind = verdict.headline.sides[1]
    if digits.has_unknown_size(verdict.headline.advantage):
        return f"of {behind}"
    # "3 times over" would be misread for a quantity of which less is better.
    return f"{'better than' if verdict.headline.better == 'less' else 'over'} {behind}"


def bounds(verdict: Verdict) -> str:
    """Return the interval of the lead: ``1.43-1.51`` with a dash; empty without a winner."""
    known = verdict.winner and verdict.headline is not None
    return digits.ends_text(verdict.headline.advantage) if known and verdict.headline else ""


def basis(verdict: Verdict) -> str:
    """Return the confidence of the interval and the number of comparisons behind it."""
    if verdict.headline is None or not verdict.comparisons:
        return ""
    if verdict.comparisons == 1:
        return "95\u00a0% interval of the only comparison"
    return (
        f"One of {verdict.comparisons:,} comparisons; their 95\u00a0% intervals hold for all of "
        "them together"
    )


def note(decision: Decision) -> str:
    """Return why the two sides are not fully comparable; empty if they are."""
    if decision.boundaries:
        return f"power at unequal boundaries: {decision.boundaries}"
    return "at different effective concurrency" if decision.concurrency is not None else ""


def _textual(verdict: Verdict) -> str:
    """Return the textual answers, one clause per distinct text.

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
    """Return the sentence that compares the targets."""
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
    if verdict.kind == "undecided" and best is not None:
        names = f"{', '.join(verdict.targets[:-1])} and {verdict.targets[-1]}"
        if not best.advantage.is_known:
            return f"{family}{names} ran once at each point: nothing is decided."
        if digits.is_open(best.advantage):
            return f"{family}{names}: too noisy to estimate {best.what}; add repeats."
        return f"{family}{names}: the difference in {best.what} is within run-to-run variation."
    if verdict.kind == "alone":
        only = verdict.targets[0]
        return f"{family}Only {only} was measured: there is nothing to compare it with."
    return f"{family}{verdict.title}: no two targets have a value to compare."


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
    """Return the clause that says which of the points the headline is taken from."""
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
            return "No statistically clear disadvantage found."
        if more:
            parts.append(f"{more} other {'quantity' if more == 1 else 'quantities'}")
        *first, last = parts
        before = f"{', '.join(first)} and " if first else ""
        return f"It is worse in {before}{last}."
    if best is None:
        return ""
    first_side, second_side = best.sides
    has_size = best.advantage.is_known and not digits.is_open(best.advantage)
    if verdict.kind == "undecided" and has_size:
        ends = digits.ends_text(best.advantage).replace("–", " to ")
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
