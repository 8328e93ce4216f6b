"""How many accelerators a target feeds: what was tried, what it says, and what to try next.

A target keeps N accelerators at a threshold when the interval of their mean utilisation lies at or
above it. Utilisation is taken to fall with N: the search doubles N until a number is not kept, and
then halves the distance between the largest that is kept and the smallest that is not.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from storlab.analysis.stats import Interval, mean_interval
from storlab.lab.run.capacity import PARAMETER, Case, Try
from storlab.model.result import RunRecord
from storlab.workloads.common.flags import flag_meanings

SCHEMA_VERSION = 1
METRIC = "au_percent"
MOST_BATCHES = 3  # of ``repeats`` runs: an undecided number gets up to twice as many more
CONFIDENCE = 0.95

Verdict = Literal["kept", "not-kept", "undecided", "failed"]
Outcome = Literal["found", "at-least", "undecided"]


@dataclass(frozen=True, slots=True)
class Rule:
    """What the search goes by."""

    threshold_percent: float = 90.0
    repeats: int = 3


@dataclass(frozen=True, slots=True)
class Tried:
    """What the runs of one number of accelerators say."""

    accelerators: int
    point_id: str
    run_ids: tuple[str, ...]
    values: tuple[float, ...]  # METRIC of each finished run
    interval: Interval | None  # of their mean; None where none finished
    verdict: Verdict | None  # None: more runs are needed to tell
    flags: tuple[str, ...]  # kinds, of any of its runs
    failures: tuple[str, ...]
    power_w: float | None  # mean over the runs, at the headline's boundary

    def as_dict(self) -> dict[str, Any]:
        """For ``capacity.json``."""
        return {
            "accelerators": self.accelerators,
            "point_id": self.point_id,
            "run_ids": list(self.run_ids),
            METRIC: list(self.values),
            "interval": None if self.interval is None else self.interval.as_dict(),
            "verdict": self.verdict or "open",
            "flags": list(self.flags),
            "failures": list(self.failures),
            "power_w": self.power_w,
        }


@dataclass(slots=True)
class CaseResult:
    """One search as far as it has come."""

    case: Case
    tried: list[Tried] = field(default_factory=list)  # in order of the accelerators
    next: Try | None = None  # None: it has ended

    @property
    def largest(self) -> Tried | None:
        """The largest number that is kept, and all tried below it; None where not even one is."""
        above = self.first_not_kept
        kept = self._with("kept")
        if above is not None:
            kept = [tried for tried in kept if tried.accelerators < above.accelerators]
        return max(kept, key=lambda tried: tried.accelerators, default=None)

    @property
    def first_not_kept(self) -> Tried | None:
        """The smallest number that is not kept, for whatever reason."""
        wanted = [*self._with("not-kept"), *self._with("undecided"), *self._with("failed")]
        return min(wanted, key=lambda tried: tried.accelerators, default=None)

    @property
    def outcome(self) -> Outcome:
        """Whether the largest number that is kept is the answer, or a bound of it."""
        above = self.first_not_kept
        if above is not None and above.verdict == "undecided":
            return "undecided"
        return "found" if above is not None and self.next is None else "at-least"

    def _with(self, verdict: Verdict) -> list[Tried]:
        return [tried for tried in self.tried if tried.verdict == verdict]

    def notes(self) -> list[str]:
        """What a reader must know beside the number."""
        found = []
        ended = self.next is None
        above = self.first_not_kept
        if ended and above is None:
            why = f": {self.case.limit}" if self.case.limit else ", as asked"
            found.append(f"a lower bound: no more than {self.case.largest:,} were tried{why}")
        if above is not None and "client-bound" in above.flags:
            found.append(
                f"at {above.accelerators:,} the client's CPU was at its limit: the target may feed "
                "more from a larger client"
            )
        if above is not None and not {"busy-machine", "starved"}.isdisjoint(above.flags):
            found.append(
                f"at {above.accelerators:,} the client's cores were not this run's alone: the "
                "target may feed more from a machine that has nothing else to do"
            )
        if above is not None and above.verdict == "undecided":
            found.append(
                f"{above.accelerators:,} could not be decided: the interval holds the threshold"
            )
        if above is not None and above.failures:
            found.append(f"{above.accelerators:,} failed: {above.failures[0]}")
        largest = self.largest
        cached = [] if largest is None else [f for f in largest.flags if f in _CACHED]
        if cached:
            found.append(
                f"flagged {', '.join(cached)}: memory may have fed the accelerators, not the target"
            )
        flags = () if largest is None else largest.flags
        known = (meaning for meaning in flag_meanings().values() if meaning.kind in flags)
        return [*found, *(f"flagged {m.kind}: {m.advice}" for m in known if m.advice)]

    def as_dict(self) -> dict[str, Any]:
        """For ``capacity.json``."""
        point, largest, above = self.case.point, self.largest, self.first_not_kept
        params = {name: value for name, value in point.params.items() if name != PARAMETER}
        return {
            "target": point.target,
            "workload": point.workload,
            "workload_index": point.workload_index,
            "engine": point.engine,
            "params": params,
            "complete": self.next is None,
            "accelerators_at_threshold": 0 if largest is None else largest.accelerators,
            "first_not_kept": None if above is None else above.accelerators,
            "is_lower_bound": self.next is None and above is None,
            "verdict": self.outcome,
            "notes": self.notes(),
            "tried": [tried.as_dict() for tried in self.tried],
        }


_CACHED = ("page-cache", "device-bytes")


@dataclass(slots=True)
class Capacity:
    """All searches of a study."""

    rule: Rule
    cases: list[CaseResult]

    @property
    def tries(self) -> list[Try]:
        """What to run next; nothing where all searches have ended."""
        return [case.next for case in self.cases if case.next is not None]

    def as_dict(self) -> dict[str, Any]:
        """``capacity.json``."""
        return {
            "schema_version": SCHEMA_VERSION,
            "metric": METRIC,
            "threshold_percent": self.rule.threshold_percent,
            "repeats": self.rule.repeats,
            "confidence": CONFIDENCE,
            "complete": not self.tries,
            "cases": [case.as_dict() for case in self.cases],
        }


def survey(cases: Sequence[Case], records: Iterable[RunRecord], rule: Rule) -> Capacity:
    """What the stored runs say of each case, and what to try next."""
    by_point: dict[str, list[RunRecord]] = {}
    for record in records:
        by_point.setdefault(record.point_id, []).append(record)
    return Capacity(rule, [_survey_one(case, by_point, rule) for case in cases])


def _survey_one(case: Case, by_point: Mapping[str, Sequence[RunRecord]], rule: Rule) -> CaseResult:
    result = CaseResult(case)
    numbers = {r[0].params[PARAMETER] for r in by_point.values() if PARAMETER in r[0].params}
    for number in sorted(numbers):
        point_id = case.with_accelerators(number).point_id
        if point_id in by_point:
            result.tried.append(judge(number, by_point[point_id], rule))
    undecided = next((tried for tried in result.tried if tried.verdict is None), None)
    if undecided is not None:
        batches = len(undecided.run_ids) // rule.repeats + 1
        point = case.with_accelerators(undecided.accelerators)
        result.next = Try(point, batches * rule.repeats)
        return result
    verdicts = {t.accelerators: t.verdict for t in result.tried if t.verdict is not None}
    number = next_number(verdicts, case.largest)
    if number is not None:
        result.next = Try(case.with_accelerators(number), rule.repeats)
    return result


def next_number(verdicts: Mapping[int, Verdict], largest: int) -> int | None:
    """The number of accelerators to try next, at most ``largest``; None: the answer is known."""
    below = min((n for n, verdict in verdicts.items() if verdict != "kept"), default=largest + 1)
    kept = max((n for n, v in verdicts.items() if v == "kept" and n < below), default=0)
    if below - kept <= 1:
        return None
    if below > largest:
        return min(2 * kept or 1, largest)
    return (kept + below) // 2


def judge(number: int, records: Sequence[RunRecord], rule: Rule) -> Tried:
    """What the runs of one point say. A run that failed, or has no utilisation, is a failure."""
    found = [record.metric(METRIC) for record in records]
    values = [value for value in found if value is not None]
    failures = [
        record.failure.message if record.failure else f"{record.run_id} has no {METRIC}"
        for record, value in zip(records, found, strict=True)
        if value is None
    ]
    interval = mean_interval(values, CONFIDENCE) if values else None
    if interval is not None and interval.high is not None:
        most = max(100.0, interval.estimate)  # no share is above all of it
        interval = replace(interval, high=min(interval.high, most))
    power = [record.metric("power_w") for record in records]
    measured = [value for value in power if value is not None]
    return Tried(
        accelerators=number,
        point_id=records[0].point_id,
        run_ids=tuple(record.run_id for record in records),
        values=tuple(values),
        interval=interval,
        verdict="failed" if failures else _verdict(interval, rule),
        flags=tuple(sorted({flag.kind for record in records for flag in record.flags})),
        failures=tuple(failures),
        power_w=sum(measured) / len(measured) if len(measured) == len(records) else None,
    )


def _verdict(interval: Interval | None, rule: Rule) -> Verdict | None:
    if interval is None or interval.n < rule.repeats:
        return None
    if interval.low is not None and interval.low >= rule.threshold_percent:
        return "kept"
    if interval.high is not None and interval.high < rule.threshold_percent:
        return "not-kept"
    return None if interval.n < MOST_BATCHES * rule.repeats else "undecided"
