"""Result of comparing two sides (targets, engines, or a target and a bound) in one metric.

Comparisons of targets, gates, crosschecks and histories all produce a :class:`Decision`. Its
outcome is computed once, by :func:`outcome_of`. Terminals, JSON documents and briefs only render
it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, Self

from pydantic import BaseModel, ConfigDict, Field

Outcome = Literal[
    "better", "worse", "equivalent", "within noise", "too noisy", "one run", "refused",
    "not measured",
]  # fmt: skip
"""Outcome for the first side.

- better, worse: the whole interval lies on one side of the bound;
- equivalent: both sides agree within a stated margin;
- within noise: the bound lies inside the interval;
- too noisy: the same, and the interval is so wide that the size of the value is unknown;
- one run: a side has a single run, so there is no interval;
- refused: the two values must not be compared; ``Decision.reason`` says why;
- not measured: a side has no value; ``Decision.reason`` says why.
"""
Better = Literal["more", "less", ""]
"""Direction in which a quantity improves; empty if it has none."""
VerdictKind = Literal[
    "winner", "depends", "within noise", "too noisy", "one run", "refused", "not measured", "alone"
]
"""Kind of the answer to a question.

- winner, depends: one target is ahead everywhere, or several are ahead at different points;
- within noise, too noisy, one run: no difference is significant; the outcome of most comparisons;
- refused, not measured: no two targets are compared; ``Verdict.reason`` says why;
- alone: there is only one target.
"""
ReasonKind = Literal[
    "unequal boundaries", "different currencies", "no meter", "no reading", "no price",
    "no capacity", "no common point",
]  # fmt: skip
"""Reason why targets are not compared: power boundaries, currencies, or a missing value or fact."""
WIDE = 10.0
"""Largest ratio of an interval's bounds; beyond it, the size of the value is unknown."""


@dataclass(frozen=True, slots=True)
class Interval:
    """Estimate with its confidence interval and the number of repeats behind it.

    ``low`` and ``high`` are None if the repeats cannot give an interval (fewer than two on a side,
    or too far apart). The bounds of a target's value with two repeats are these repeats. The unit
    is that of the values; a ratio has none.
    """

    estimate: float
    low: float | None
    high: float | None
    n: int

    @property
    def is_known(self) -> bool:
        """Whether the interval has bounds."""
        return self.low is not None and self.high is not None

    @property
    def is_open(self) -> bool:
        """Whether the bounds differ by more than a factor of ten, so that the size is unknown."""
        if self.low is None or self.high is None or self.low <= 0:
            return False
        return self.high > WIDE * self.low

    def excludes(self, value: float) -> bool:
        """Return whether ``value`` lies outside the bounds; False without bounds."""
        if self.low is None or self.high is None:
            return False
        return value < self.low or value > self.high

    def within(self, least: float, most: float | None) -> Interval:
        """Clip the bounds to the possible range of a metric, which a t-interval may exceed.

        Args:
            least: Smallest possible value.
            most: Largest possible value; None if there is no limit.
        """
        if self.low is None or self.high is None:
            return self
        low = max(self.low, min(least, self.estimate))
        high = self.high if most is None else min(self.high, max(most, self.estimate))
        return Interval(self.estimate, low, high, self.n)

    def around(self, estimate: float) -> Interval:
        """Return the interval with another estimate, widened so that it includes the estimate."""
        if self.low is None or self.high is None:
            return Interval(estimate, self.low, self.high, self.n)
        return Interval(estimate, min(self.low, estimate), max(self.high, estimate), self.n)

    def inverse(self) -> Interval:
        """Return the interval of 1 / ratio."""
        low = None if not self.high else 1 / self.high
        high = None if not self.low else 1 / self.low
        return Interval(1 / self.estimate, low, high, self.n)

    def scaled(self, factor: float) -> Interval:
        """Return the interval multiplied by a factor that has no uncertainty."""
        low, high = (None if end is None else end * factor for end in (self.low, self.high))
        return Interval(self.estimate * factor, low, high, self.n)

    def as_dict(self) -> dict[str, float | int | None]:
        """Return the fields as plain values for JSON."""
        return {"estimate": self.estimate, "low": self.low, "high": self.high, "n": self.n}


def outcome_of(
    interval: Interval | None, bound: float, better: Better, *, reached: bool = False
) -> Outcome:
    """Decide whether a value, given as an interval, is better or worse than a bound.

    If the metric has no direction, more is better.

    Args:
        interval: Interval of the value; None if nothing was measured.
        bound: Bound in the unit of the value; 1 for a ratio of two sides.
        better: Whether more or less than the bound is better.
        reached: Whether an interval that begins exactly at the bound is better, as for a limit.
    """
    if interval is None:
        return "not measured"
    if interval.low is None or interval.high is None:
        return "one run"
    low, high = interval.low, interval.high
    touches = reached and bound == (high if better == "less" else low)
    below, above = high < bound, low > bound
    inside, outside = (below, above) if better == "less" else (above, below)
    if inside or touches:
        return "better"
    return "worse" if outside else "too noisy" if interval.is_open else "within noise"


class Decision(BaseModel):
    """Result of comparing two sides in one metric; the outcome is that of the first side."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    quantity: str
    """Column key, such as ``latency_p99_ns.read``."""
    better: Better = ""
    """Direction in which the quantity improves."""
    sides: tuple[str, str]
    """Names of the two sides: targets, engines, or a target and the bound of a rule."""
    outcome: Outcome
    reason: str = ""
    """Why the comparison was refused, or why there is no value or no decision."""
    interval: Interval | None = None
    """First side's value over the second's; in a gate also a value in the unit of ``bound``."""
    bound: float = 1.0
    """Value that the interval is compared with: 1 for a ratio."""
    confidence: float = 0.95
    """Confidence of the interval, which is that of this comparison alone."""
    comparisons: int = 1
    """Number of comparisons whose outcomes hold together with 95 % confidence (Bonferroni)."""
    what: str = ""
    """Quantity in the words of the workload family, such as "p99 read latency"."""
    where: str = ""
    """Workload point in words, such as "4 KiB, 70/30 read/write, 8 jobs"."""
    points: tuple[str, ...] = ()
    """Ids of the points compared, first side's first."""
    runs: tuple[tuple[str, ...], ...] = ()
    """Ids of the runs that have a value: those of the first side, then those of the second."""
    concurrency: tuple[float, float] | None = None
    """Effective concurrency of both sides, if it differs by more than 10 %."""
    boundaries: str = ""
    """Power boundaries of both sides if they differ and the study allows the comparison."""
    share: float = 1.0
    """Factor applied to the ratio to compare values per terabyte or per price."""

    @property
    def decided(self) -> bool:
        """Whether the first side is significantly better or worse than the second."""
        return self.outcome in ("better", "worse")

    @property
    def ratio(self) -> Interval:
        """Ratio of the two sides with its interval.

        Raises:
            ValueError: There is no ratio: the comparison was refused or a value is missing.
        """
        if self.interval is None:
            raise ValueError(
                f"{self.quantity} of {' and '.join(self.sides)} has no ratio: {self.outcome}"
            )
        return self.interval

    @property
    def advantage(self) -> Interval:
        """Ratio that is above 1 if the first side is better."""
        return self.ratio.inverse() if self.better == "less" else self.ratio

    @property
    def winner(self) -> str:
        """Side that is significantly better; empty if neither is."""
        return {"better": self.sides[0], "worse": self.sides[1]}.get(self.outcome, "")

    @property
    def leader_first(self) -> Self:
        """This decision with the side that has the better estimate first, significant or not."""
        return self if self.advantage.estimate >= 1 else self.reversed()

    def seen_from(self, side: str) -> Self:
        """Return this decision with ``side`` as the first side."""
        return self if self.sides[0] == side else self.reversed()

    def reversed(self) -> Self:
        """Return this decision with the sides exchanged."""
        swapped: dict[Outcome, Outcome] = {"better": "worse", "worse": "better"}
        return self.model_copy(
            update={
                "sides": self.sides[::-1],
                "outcome": swapped.get(self.outcome, self.outcome),
                "interval": None if self.interval is None else self.interval.inverse(),
                "points": self.points[::-1],
                "runs": self.runs[::-1],
                "concurrency": self.concurrency[::-1] if self.concurrency else None,
                "share": 1 / self.share,
            }
        )


def equivalence(interval: Interval, family: Interval, margin: float) -> Outcome:
    """Decide whether two sides agree within a margin; "better" and "worse" mean larger and smaller.

    They differ if the ratio lies outside of the zone [1 / (1 + margin), 1 + margin] and the
    ``family`` interval excludes 1. They are equivalent if the ratio lies inside the zone and the
    95 % interval does not extend beyond it on both sides.

    Args:
        interval: 95 % interval of the ratio.
        family: Interval of the ratio that holds simultaneously for all comparisons (Bonferroni).
        margin: Allowed relative difference, such as 0.05.
    """
    if interval.low is None or interval.high is None:
        return "one run"
    low, high = 1 / (1 + margin), 1 + margin
    inside = low <= interval.estimate <= high
    if not inside and family.excludes(1):
        return "better" if interval.estimate > 1 else "worse"
    too_wide = interval.low < low and interval.high > high
    if inside and not too_wide:
        return "equivalent"
    return "too noisy" if interval.is_open else "within noise"


class Reason(BaseModel):
    """Reason why targets are not compared in a quantity such as power or price."""

    model_config = ConfigDict(frozen=True)

    kind: ReasonKind
    targets: tuple[str, ...] = ()
    """Targets that are not compared, such as those without a meter; empty for all."""
    detail: str = ""
    """Power boundaries or currencies, such as "SSD: device, HDD: wall (AC)"."""

    @property
    def outcome(self) -> Literal["refused", "not measured"]:
        """Whether values exist that must not be compared, or values or facts are missing."""
        is_refused = self.kind in ("unequal boundaries", "different currencies")
        return "refused" if is_refused else "not measured"


class Standing(BaseModel):
    """Points at which one target is better than another in one metric, with an example."""

    model_config = ConfigDict(frozen=True)

    points: int
    """Number of points at which the first side of the example is significantly better."""
    lost: int
    """Number of points at which the first side is significantly worse."""
    of: int
    """Number of points at which both targets have a value."""
    example: Decision
    """Decision at the point with the median lead."""

    @property
    def ahead(self) -> str:
        """Target that is better at these points."""
        return self.example.sides[0]

    @property
    def behind(self) -> str:
        """Target that is worse at these points."""
        return self.example.sides[1]


CaveatKind = Literal[
    "different concurrency", "unequal boundaries", "different campaigns", "flag", "in memory",
    "not measured", "two repeats",
]  # fmt: skip
"""Bias of a comparison, values that are not measured, or few repeats."""


class Caveat(BaseModel):
    """Circumstance that weakens the answer to a question, such as different concurrency."""

    model_config = ConfigDict(frozen=True)

    kind: CaveatKind
    targets: tuple[str, ...] = ()
    """Targets with the flag."""
    detail: str = ""
    """Kind of the flag, both power boundaries, or the provenance of the value."""
    what: str = ""
    """Quantity that is not measured."""


class Verdict(BaseModel):
    """Answer to one question for one workload family."""

    model_config = ConfigDict(frozen=True)

    question: str
    """Name of the question in the study."""
    title: str = Field("", exclude=True)
    """Heading, such as "Time to durable"."""
    kind: VerdictKind
    workload: str = ""
    """Name of the workload family; empty if the study has only one."""
    targets: tuple[str, ...]
    """Labels of the compared targets."""
    winner: str = ""
    does: str = Field("", exclude=True)
    """Predicate of the answer sentence, with placeholders."""
    unsure: str = Field("", exclude=True)
    """Replacement for ``does`` if no difference is significant; often empty."""
    headline: Decision | None = None
    """Lead of the winner; without one, the largest difference of those with the outcome ``kind``.

    Its first side is ahead.
    """
    points: int = 0
    """Number of compared points."""
    won: int = 0
    """Number of points at which the winner is significantly better than the next best target."""
    alike: int = 0
    """Number of points with the outcome ``kind``, if no difference is significant."""
    ahead: dict[str, int] = {}
    """Number of points at which each target leads."""
    comparisons: int = 0
    """Number of comparisons whose outcomes hold together with 95 % confidence."""
    range: tuple[float, float] | None = None
    """Smallest and largest lead of the winner over the next best, over all points."""
    caveat: Caveat | None = None
    """The most important caveat."""
    reason: Reason | None = None
    """Why no two targets are compared; only with the kinds refused and not measured."""
    texts: tuple[tuple[str, str], ...] = ()
    """Textual answers as pairs of target and text; an empty target stands for all."""
    better: tuple[Standing, ...] = ()
    """Quantities in which the leader is better, over all points."""
    worse: tuple[Standing, ...] = ()

    @property
    def leader(self) -> str:
        """The winner, or else the target that is ahead in ``headline``; empty if neither exists."""
        return self.winner or (self.headline.sides[0] if self.headline is not None else "")
