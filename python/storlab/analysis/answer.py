"""Verdict on one question, as data and as at most three plain sentences.

The sentences are the answer, the disadvantages and the caveat. Verdicts are computed by
:mod:`storlab.analysis.verdict`.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from storlab.analysis import digits
from storlab.analysis.stats import CONFIDENCE, Interval


def inverse(ratio: Interval) -> Interval:
    """Return the interval of 1 / ``ratio``."""
    low = None if not ratio.high else 1 / ratio.high
    high = None if not ratio.low else 1 / ratio.low
    return replace(ratio, estimate=1 / ratio.estimate, low=low, high=high)


Kind = Literal["winner", "depends", "undecided", "alone", "unanswered"]


@dataclass(frozen=True, slots=True)
class Advantage:
    """Lead of one target over another in one quantity at one point; ``times`` is above 1."""

    key: str  # column key of the quantity
    what: str  # quantity in the workload family's words, such as "throughput"
    ahead: str
    behind: str
    where: str
    times: Interval
    point_ids: tuple[str, ...]
    run_ids: tuple[str, ...]
    note: str = ""  # qualification that must be printed next to the number
    less: bool = False  # whether lower values are better
    own_runs: int = 0  # number of leading entries of run_ids that belong to the target ahead
    # ratio of the declared facts (ahead over behind) that the values are divided by
    share: float = 1.0
    confidence: float = CONFIDENCE  # confidence of the interval

    @property
    def ratio(self) -> Interval:
        """Value of the target ahead over that of the other."""
        return inverse(self.times) if self.less else self.times

    def as_dict(self) -> dict[str, Any]:
        """Return the fields as plain values for JSON."""
        return {
            "metric": self.key,
            "what": self.what,
            "ahead": self.ahead,
            "behind": self.behind,
            "where": self.where,
            "times": self.times.as_dict(),
            "confidence": self.confidence,
            "points": list(self.point_ids),
            "runs": list(self.run_ids),
            "note": self.note,
        }


@dataclass(frozen=True, slots=True)
class Standing:
    """Comparison of two targets in one quantity over all points."""

    key: str
    what: str
    ahead: str
    behind: str
    points: int  # points at which the lead is decided
    of: int  # points at which both have a value
    example: Advantage  # point with the median lead among those

    def as_dict(self) -> dict[str, Any]:
        """Return the fields as plain values for JSON."""
        return {
            "metric": self.key,
            "what": self.what,
            "ahead": self.ahead,
            "behind": self.behind,
            "points": self.points,
            "of": self.of,
            "example": self.example.as_dict(),
        }


@dataclass(frozen=True, slots=True)
class Verdict:
    """Answer to one question for one workload family."""

    question: str  # name of the question in the study
    title: str  # heading, such as "Time to durable"
    kind: Kind
    workload: str  # name of the workload family; empty if the study has only one
    targets: tuple[str, ...]  # labels of the compared targets
    winner: str = ""
    index: int = 0  # position of the winner among the targets, which decides its colour
    does: str = ""  # predicate of the answer sentence, with placeholders
    unsure: str = ""  # replacement for does if nothing is decided; often empty
    headline: Advantage | None = None  # lead of the winner; without one, the largest difference
    points: int = 0  # number of compared points
    won: int = 0  # points at which the winner is decided ahead of the next best
    ahead: dict[str, int] = field(default_factory=dict)  # by target: points at which it leads
    comparisons: int = 0  # number of comparisons whose intervals hold simultaneously
    least: float | None = None  # smallest lead of the winner over the next best, over all points
    most: float | None = None
    caveat: str = ""  # the most important caveat, as a sentence
    told: tuple[tuple[str, str], ...] = ()  # textual answers by target; "" for all
    better: tuple[Standing, ...] = ()  # of the leader, over all points and quantities
    worse: tuple[Standing, ...] = ()

    @property
    def leader(self) -> str:
        """The winner; without one, the target ahead in the largest difference, or empty."""
        return self.winner or (self.headline.ahead if self.headline is not None else "")

    @property
    def amount(self) -> str:
        """Lead of the winner, such as ``1.47×`` or ``at least 1.5×``; empty without a winner."""
        if not self.winner or self.headline is None:
            return ""
        if digits.has_unknown_size(self.headline.times):
            return "ahead"
        return digits.times(self.headline.times)

    @property
    def against(self) -> str:
        """Target that the lead is over, such as ``over Disk``; empty without a winner."""
        if not self.winner or self.headline is None:
            return ""
        if digits.has_unknown_size(self.headline.times):
            return f"of {self.headline.behind}"
        # "3 times over" would be misread for a quantity of which less is better.
        return f"{'better than' if self.headline.less else 'over'} {self.headline.behind}"

    @property
    def interval(self) -> str:
        """Interval of the lead, such as ``1.43-1.51`` with a dash; empty without a winner."""
        return digits.ends_text(self.headline.times) if self.winner and self.headline else ""

    @property
    def basis(self) -> str:
        """Confidence of the interval and the number of comparisons behind it, as a sentence."""
        if not self.comparisons:
            return ""
        if self.comparisons == 1:
            return "95\u00a0% interval of the only comparison"
        return (
            f"One of {self.comparisons:,} comparisons; their 95\u00a0% intervals hold for all of "
            "them together"
        )

    @property
    def compared(self) -> str:
        """The sentence that compares the targets."""
        return _answer(self)

    def sentences(self) -> list[str]:
        """Return the textual answer (if any), the comparison, the disadvantages and the caveat."""
        return [text for text in (_told(self), _answer(self), _against(self), self.caveat) if text]

    @property
    def warnings(self) -> list[str]:
        """Sentences that qualify the answer: the winner's disadvantages and the caveat."""
        is_worse = self.kind == "winner" and bool(self.worse)
        sentences = (_against(self) if is_worse else "", self.caveat)
        return [text for text in sentences if text]

    def as_dict(self) -> dict[str, Any]:
        """Return the fields as plain values for JSON."""
        return {
            "question": self.question,
            "kind": self.kind,
            "told": [{"target": target or None, "text": text} for target, text in self.told],
            "workload": self.workload,
            "targets": list(self.targets),
            "winner": self.winner or None,
            "headline": None if self.headline is None else self.headline.as_dict(),
            "points": self.points,
            "ahead": self.ahead,
            "comparisons": self.comparisons,
            "range": None if self.least is None else [self.least, self.most],
            "caveat": self.caveat,
            "better": [standing.as_dict() for standing in self.better],
            "worse": [standing.as_dict() for standing in self.worse],
            "sentences": self.sentences(),
        }


def in_words(clauses: Iterable[tuple[str, str, str]]) -> tuple[tuple[str, str], ...]:
    """Merge textual answers by target, adding the places if the text differs between places.

    Args:
        clauses: Tuples of target, text and place.
    """
    by_target: dict[str, dict[str, list[str]]] = {}
    for target, text, place in clauses:
        by_target.setdefault(target, {}).setdefault(text, []).append(place)
    return tuple(
        (target, "; ".join(_placed(text, places, len(texts)) for text, places in texts.items()))
        for target, texts in by_target.items()
    )


def _placed(text: str, places: Sequence[str], texts: int) -> str:
    where = ", ".join(place for place in places if place)
    return f"{text} ({where})" if where and texts > 1 else text


def _told(verdict: Verdict) -> str:
    """Return the textual answers, one clause per distinct text.

    Example: ``Disk: the device saturates at 8 workers; memory: CPU-bound at 8 workers.``
    """
    if not verdict.told:
        return ""
    same: dict[str, list[str]] = {}
    for target, text in verdict.told:
        same.setdefault(text, []).append(target)
    statements = [
        f"{' and '.join(targets)}: {text}" if all(targets) else text
        for text, targets in same.items()
    ]
    return f"{_of(verdict)}{'; '.join(statements).rstrip('.')}."


def _answer(verdict: Verdict) -> str:
    """Return the sentence that compares the targets."""
    at = verdict.headline
    if verdict.kind == "winner" and at is not None:
        next_best = ", the next best" if len(verdict.targets) > 2 else ""
        if digits.has_unknown_size(at.times):
            return f"{_of(verdict)}{_sizeless(verdict, at, next_best)}"
        return (
            f"{_of(verdict)}{verdict.winner} {_does(verdict, at, next_best)}{_middle_of(verdict)}."
        )
    if verdict.kind == "depends" and at is not None:
        return f"{_of(verdict)}No target is ahead everywhere: {_each_ahead(verdict)}."
    if verdict.kind == "undecided" and at is not None:
        names = f"{', '.join(verdict.targets[:-1])} and {verdict.targets[-1]}"
        if not at.times.is_known:
            return f"{_of(verdict)}{names} ran once at each point: nothing is decided."
        if digits.is_open(at.times):
            return f"{_of(verdict)}{names}: too noisy to estimate {at.what}; add repeats."
        return f"{_of(verdict)}{names}: the difference in {at.what} is within run-to-run variation."
    if verdict.kind == "alone":
        only = verdict.targets[0]
        return f"{_of(verdict)}Only {only} was measured: there is nothing to compare it with."
    return f"{_of(verdict)}{verdict.title}: no two targets have a value to compare."


def _each_ahead(verdict: Verdict) -> str:
    """Return a clause such as ``A is ahead at 3 of 4 points, and B at 1``."""
    (first, count), *others = [(t, n) for t, n in verdict.ahead.items() if n]
    rest = "".join(f", and {target} at {n}" for target, n in others)
    return f"{first} is ahead at {count} of {verdict.points} points{rest}"


def _sizeless(verdict: Verdict, at: Advantage, next_best: str) -> str:
    """Return the clause for a winner whose lead is too uncertain to quantify."""
    comma = "," if next_best else ""
    return (
        f"{at.ahead} is ahead of {at.behind}{next_best}{comma} in {at.what} at {at.where}"
        f"{_middle_of(verdict)}: {digits.times(at.times, ' times')}, and more repeats would show "
        "how much."
    )


def _does(verdict: Verdict, at: Advantage, more: str = "") -> str:
    """Return a clause such as ``moves 3.3 times as much data per second as Disk (2.9 to 3.7)``."""
    ends = "" if digits.is_imprecise(at.times) else digits.ends_text(at.times).replace("–", " to ")
    sure = f" ({ends})" if ends else ""
    size = digits.times(at.times, " times")
    return f"{verdict.does.format(times=size, other=at.behind + more)}{sure} at {at.where}"


def _middle_of(verdict: Verdict) -> str:
    """Return the clause that says which of the points the headline is taken from."""
    if verdict.points == 1:
        return ""
    if verdict.won == verdict.points:
        return f", the median of {verdict.points} points"
    if verdict.won == 1:
        return f", the only one of {verdict.points} points with a clear difference"
    return f", the median of the {verdict.won} points (of {verdict.points}) with a clear difference"


def _of(verdict: Verdict) -> str:
    return f"{verdict.workload}: " if verdict.workload else ""


def _against(verdict: Verdict) -> str:
    """Return the winner's disadvantages; without a winner, the possible size of the difference."""
    at = verdict.headline
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
    sized = at is not None and at.times.is_known and not digits.is_open(at.times)
    if verdict.kind == "undecided" and at is not None and sized:
        ends = digits.ends_text(at.times).replace("–", " to ")
        words = verdict.unsure or f"{{ahead}} {verdict.does}"
        told = words.format(times=f"{ends} times", other=at.behind, ahead=at.ahead)
        most = ", where they differ most" if verdict.points > 1 else ""
        return f"{told} at {at.where}{most}."
    if verdict.kind == "depends" and at is not None:
        return f"The largest difference: {at.ahead} {_does(verdict, at)}."
    return ""


def _worse(standing: Standing, verdict: Verdict) -> str:
    to = f" than {standing.ahead}" if len(verdict.targets) > 2 else ""
    if standing.of == 1:
        return f"{standing.what}{to} ({digits.times(standing.example.times)})"
    return f"{standing.what}{to} (at {standing.points} of {standing.of} points)"
