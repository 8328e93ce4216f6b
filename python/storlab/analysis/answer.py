"""A verdict as data, and in at most three plain sentences: the answer, what speaks against it, the
caveat. Who finds it is :mod:`storlab.analysis.verdict`.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from storlab.analysis import digits
from storlab.analysis.stats import Interval


def inverse(ratio: Interval) -> Interval:
    """The other way round."""
    low = None if not ratio.high else 1 / ratio.high
    high = None if not ratio.low else 1 / ratio.low
    return replace(ratio, estimate=1 / ratio.estimate, low=low, high=high)


Kind = Literal["winner", "depends", "undecided", "alone", "unanswered"]


@dataclass(frozen=True, slots=True)
class Advantage:
    """One target ahead of another in one quantity at one point. ``times`` is above 1."""

    key: str  # of the column
    what: str  # "throughput", in the family's words
    ahead: str
    behind: str
    where: str
    times: Interval
    point_ids: tuple[str, ...]
    run_ids: tuple[str, ...]
    note: str = ""  # what must stand beside it
    less: bool = False  # less of it is better
    own_runs: int = 0  # how many of the runs, the first, are those of the one ahead
    share: float = 1.0  # of what is divided by a declared fact: the fact of the one over the other
    confidence: float = 0.95  # of the interval

    @property
    def ratio(self) -> Interval:
        """The value of the one ahead over that of the other."""
        return inverse(self.times) if self.less else self.times

    def as_dict(self) -> dict[str, Any]:
        """Plain values, for JSON."""
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
    """Where one target stands against another in one quantity, over all points."""

    key: str
    what: str
    ahead: str
    behind: str
    points: int  # at which it is decided ahead
    of: int  # points at which both have a value
    example: Advantage  # the middle of those points

    def as_dict(self) -> dict[str, Any]:
        """Plain values, for JSON."""
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
    """The answer to one question of one workload family."""

    question: str  # as a study names it
    title: str  # "Time to durable"
    kind: Kind
    workload: str  # of the family; empty where there is only one
    targets: tuple[str, ...]  # that were compared
    winner: str = ""
    index: int = 0  # of the winner, which decides its colour
    does: str = ""  # the words of the question
    unsure: str = ""  # instead of them where nothing is decided; often none are needed
    headline: Advantage | None = None  # of a winner; else the largest difference
    points: int = 0  # that were compared
    won: int = 0  # of these, where the winner is decided ahead of the next best
    ahead: dict[str, int] = field(default_factory=dict)  # by target: at how many it is ahead of one
    comparisons: int = 0  # whose intervals hold together
    least: float | None = None  # of a winner over the next best, from point to point
    most: float | None = None
    caveat: str = ""  # the one that matters most
    told: tuple[tuple[str, str], ...] = ()  # by target what answers in words; "" of them all
    better: tuple[Standing, ...] = ()  # of the leader, over all points and quantities
    worse: tuple[Standing, ...] = ()

    @property
    def leader(self) -> str:
        """The winner; without one the target of the largest difference; empty without any."""
        return self.winner or (self.headline.ahead if self.headline is not None else "")

    @property
    def amount(self) -> str:
        """By how much: ``1.47×``, ``at least 1.5×``; empty without a winner."""
        if not self.winner or self.headline is None:
            return ""
        if digits.is_sizeless(self.headline.times):
            return "ahead"
        return digits.times(self.headline.times)

    @property
    def against(self) -> str:
        """Of whom that is: ``over Disk``; empty without a winner."""
        if not self.winner or self.headline is None:
            return ""
        if digits.is_sizeless(self.headline.times):
            return f"of {self.headline.behind}"
        # "So many times over" of what there should be little of would be read the wrong way round.
        return f"{'better than' if self.headline.less else 'over'} {self.headline.behind}"

    @property
    def interval(self) -> str:
        """``1.43-1.51`` with a dash; empty without a winner."""
        return digits.ends_text(self.headline.times) if self.winner and self.headline else ""

    @property
    def basis(self) -> str:
        """How sure, and picked from how many."""
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
        """At most three plain sentences: the answer, what speaks against it, the caveat.

        Before them what answers the question in words, where something does.
        """
        return [text for text in (_told(self), _answer(self), _against(self), self.caveat) if text]

    @property
    def warnings(self) -> list[str]:
        """Those of the sentences that speak against the answer."""
        is_worse = self.kind == "winner" and bool(self.worse)
        sentences = (_against(self) if is_worse else "", self.caveat)
        return [text for text in sentences if text]

    def as_dict(self) -> dict[str, Any]:
        """Plain values, for JSON."""
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
    """By target what is told of it; with the places, where that differs from place to place."""
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
    """``Disk: the device saturates at 8 workers; memory: CPU-bound at 8 workers.``"""
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
    """The first sentence."""
    at = verdict.headline
    if verdict.kind == "winner" and at is not None:
        next_best = ", the next best" if len(verdict.targets) > 2 else ""
        if digits.is_sizeless(at.times):
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
        return f"{_of(verdict)}The repeats cannot tell {names} apart in {at.what}."
    if verdict.kind == "alone":
        only = verdict.targets[0]
        return f"{_of(verdict)}Only {only} was measured: there is nothing to compare it with."
    return f"{_of(verdict)}{verdict.title}: no two targets have a value to compare."


def _each_ahead(verdict: Verdict) -> str:
    """``A is ahead at 3 of 4 points, and B at 1``."""
    (first, count), *others = [(t, n) for t, n in verdict.ahead.items() if n]
    rest = "".join(f", and {target} at {n}" for target, n in others)
    return f"{first} is ahead at {count} of {verdict.points} points{rest}"


def _sizeless(verdict: Verdict, at: Advantage, next_best: str) -> str:
    """Who is ahead where nothing but that is known."""
    comma = "," if next_best else ""
    return (
        f"{at.ahead} is ahead of {at.behind}{next_best}{comma} in {at.what} at {at.where}"
        f"{_middle_of(verdict)}: {digits.times(at.times, ' times')}, and more repeats would tell "
        "how much."
    )


def _does(verdict: Verdict, at: Advantage, more: str = "") -> str:
    """``moves 3.3 times as much data per second as Disk (2.9 to 3.7) at 4 MiB, 8 jobs``."""
    ends = "" if digits.is_loose(at.times) else digits.ends_text(at.times).replace("–", " to ")
    sure = f" ({ends})" if ends else ""
    size = digits.times(at.times, " times")
    return f"{verdict.does.format(times=size, other=at.behind + more)}{sure} at {at.where}"


def _middle_of(verdict: Verdict) -> str:
    """Which of the points that is."""
    if verdict.points == 1:
        return ""
    if verdict.won == verdict.points:
        return f", the middle one of {verdict.points} points"
    if verdict.won == 1:
        return f", the only one of {verdict.points} points where this is decided"
    return (
        f", the middle one of the {verdict.won} points (of {verdict.points}) where this is decided"
    )


def _of(verdict: Verdict) -> str:
    return f"{verdict.workload}: " if verdict.workload else ""


def _against(verdict: Verdict) -> str:
    """What speaks against the winner; where there is none, how large the difference may be."""
    at = verdict.headline
    if verdict.kind == "winner":
        parts = [_worse(standing, verdict) for standing in verdict.worse[:2]]
        more = len(verdict.worse) - len(parts)
        if not parts:
            return "It is not clearly worse in anything that was measured."
        if more:
            parts.append(f"{more} other {'quantity' if more == 1 else 'quantities'}")
        *first, last = parts
        before = f"{', '.join(first)} and " if first else ""
        return f"It is worse in {before}{last}."
    if verdict.kind == "undecided" and at is not None and at.times.is_known:
        if digits.is_open(at.times):
            return "Not even the size of the difference is known: more repeats would tell."
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
