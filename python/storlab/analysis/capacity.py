"""Search for the largest number of accelerators that a target can feed.

A target keeps up with N accelerators if the confidence interval of their mean utilisation lies at
or above a threshold. Utilisation is assumed to fall with N. The search doubles N until the target
fails to keep up, then bisects between the largest N that passed and the smallest that did not.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from storlab.analysis.stats import CONFIDENCE, mean_interval
from storlab.contracts.page import Search
from storlab.contracts.registry import FAMILIES
from storlab.model.decision import Interval, outcome_of
from storlab.model.point import Point
from storlab.model.result import RunRecord
from storlab.workloads.common.flags import flag_meanings

SCHEMA_VERSION = 1
MOST_BATCHES = 3  # a trial within noise gets at most this many times ``repeats`` runs

Verdict = Literal["kept", "not-kept", "within noise", "failed"]
Outcome = Literal["found", "at-least", "within noise"]


@dataclass(frozen=True, slots=True)
class Case:
    """One search: a workload on a target, with all parameters fixed except the searched one."""

    point: Point  # with the searched parameter at its smallest value
    largest: int  # largest value that may be tried
    limit: str | None  # reason for ``largest`` if the user did not set it

    @property
    def search(self) -> Search:
        """Return the family's description of the searched parameter."""
        return FAMILIES[self.point.kind].page.searched

    @property
    def smallest(self) -> int:
        """Return the smallest value of the searched parameter: one accelerator per client."""
        return self.point.clients or 1

    @property
    def first(self) -> Point:
        """Return the point with the smallest value of the searched parameter."""
        return self.with_number(self.smallest)

    @property
    def two(self) -> list[Point]:
        """Return the points with the two smallest values of the searched parameter."""
        return [self.first, self.with_number(self.smallest + 1)]

    def with_number(self, number: int) -> Point:
        """Return the point with the given value of the searched parameter."""
        params = {**self.point.params, self.search.parameter: number}
        return self.point.model_copy(update={"params": params})


@dataclass(frozen=True, slots=True)
class Try:
    """Point to run next, and the total number of runs that it should then have."""

    point: Point
    runs: int


@dataclass(frozen=True, slots=True)
class Rule:
    """Parameters of the search: utilisation threshold and repeats per trial."""

    threshold_percent: float = 90.0
    repeats: int = 3


@dataclass(frozen=True, slots=True)
class Tried:
    """Result of the runs with one number of accelerators."""

    number: int
    point_id: str
    run_ids: tuple[str, ...]
    values: tuple[float, ...]  # metric value of each finished run
    interval: Interval | None  # interval of the mean; None if no run finished
    verdict: Verdict | None  # None: more runs are needed to decide
    flags: tuple[str, ...]  # distinct flag kinds of all its runs
    failures: tuple[str, ...]
    power_w: float | None  # mean over the runs, at the reported power boundary

    def as_dict(self, search: Search) -> dict[str, Any]:
        """Return the fields as plain values for ``capacity.json``."""
        return {
            search.parameter: self.number,
            "point_id": self.point_id,
            "run_ids": list(self.run_ids),
            search.metric: list(self.values),
            "interval": None if self.interval is None else self.interval.as_dict(),
            "verdict": self.verdict or "open",
            "flags": list(self.flags),
            "failures": list(self.failures),
            "power_w": self.power_w,
        }


@dataclass(slots=True)
class CaseResult:
    """State of one capacity search: trials so far and the next one."""

    case: Case
    tried: list[Tried] = field(default_factory=list)  # ascending by number of accelerators
    next: Try | None = None  # next trial; None if the search has ended

    @property
    def largest(self) -> Tried | None:
        """Trial with the most accelerators that met the utilisation threshold.

        A trial is ignored if one with fewer accelerators did not meet it. None if no trial is left.
        """
        above = self.first_not_kept
        kept = [tried for tried in self.tried if tried.verdict == "kept"]
        if above is not None:
            kept = [tried for tried in kept if tried.number < above.number]
        return max(kept, key=lambda tried: tried.number, default=None)

    @property
    def first_not_kept(self) -> Tried | None:
        """Trial of the smallest number of accelerators at which the threshold was not met.

        That trial missed the threshold, was within noise of it or failed. None if there is none.
        """
        missed = [tried for tried in self.tried if tried.verdict not in ("kept", None)]
        return min(missed, key=lambda tried: tried.number, default=None)

    @property
    def outcome(self) -> Outcome:
        """Whether the largest number of accelerators is exact, a lower bound or within noise."""
        above = self.first_not_kept
        if above is not None and above.verdict == "within noise":
            return "within noise"
        return "found" if above is not None and self.next is None else "at-least"

    def notes(self) -> list[str]:
        """Return remarks that qualify the result, such as that the client was the bottleneck."""
        remarks, case = [], self.case
        ended = self.next is None
        above = self.first_not_kept
        if ended and above is None:
            why = f": {self.case.limit}" if self.case.limit else ", as set by the user"
            remarks.append(f"a lower bound: no more than {self.case.largest:,} were tried{why}")
        if above is not None and above.number == case.smallest > 1:
            remarks.append(
                f"a search with {case.smallest} clients begins with {case.smallest}, one for each: "
                "with fewer clients it may find a smaller number"
            )
        if above is not None and "client-bound" in above.flags:
            remarks.append(
                f"at {above.number:,} the client's CPU was at its limit: the target may feed "
                "more from a larger client"
            )
        if above is not None and not {"busy-machine", "starved"}.isdisjoint(above.flags):
            remarks.append(
                f"at {above.number:,} other programs used the client's cores: the target may feed "
                "more from an idle machine"
            )
        if above is not None and above.verdict == "within noise":
            remarks.append(
                f"{above.number:,} could not be decided: the interval of the mean includes the "
                "threshold"
            )
        if above is not None and above.failures:
            remarks.append(f"{above.number:,} failed: {above.failures[0]}")
        largest = self.largest
        cached = [] if largest is None else [f for f in largest.flags if f in _CACHED]
        if cached:
            remarks.append(
                f"flagged {', '.join(cached)}: memory may have fed the {case.search.noun}s, not "
                "the target"
            )
        flags = () if largest is None else largest.flags
        known = (meaning for meaning in flag_meanings().values() if meaning.kind in flags)
        return [*remarks, *(f"flagged {m.kind}: {m.advice}" for m in known if m.advice)]

    def as_dict(self) -> dict[str, Any]:
        """Return the fields as plain values for ``capacity.json``."""
        point, largest, above = self.case.point, self.largest, self.first_not_kept
        search = self.case.search
        params = {n: value for n, value in point.params.items() if n != search.parameter}
        return {
            "target": point.target,
            "workload": point.workload,
            "workload_index": point.workload_index,
            "engine": point.engine,
            "params": params,
            "clients": point.clients,
            "complete": self.next is None,
            f"{search.parameter}_at_threshold": 0 if largest is None else largest.number,
            "first_not_kept": None if above is None else above.number,
            "is_lower_bound": self.next is None and above is None,
            "verdict": self.outcome,
            "notes": self.notes(),
            "tried": [tried.as_dict(search) for tried in self.tried],
        }


_CACHED = ("page-cache", "device-bytes")


@dataclass(slots=True)
class Capacity:
    """State of all capacity searches of a study."""

    rule: Rule
    cases: list[CaseResult]

    @property
    def tries(self) -> list[Try]:
        """Trials to run next; empty if all searches have ended."""
        return [case.next for case in self.cases if case.next is not None]

    def as_dict(self) -> dict[str, Any]:
        """Return the content of ``capacity.json``."""
        return {
            "schema_version": SCHEMA_VERSION,
            "metric": self.cases[0].case.search.metric,
            "threshold_percent": self.rule.threshold_percent,
            "repeats": self.rule.repeats,
            "confidence": CONFIDENCE,
            "complete": not self.tries,
            "cases": [case.as_dict() for case in self.cases],
        }


def evaluate_searches(cases: Sequence[Case], records: Iterable[RunRecord], rule: Rule) -> Capacity:
    """Evaluate the stored runs of each search and choose the next trials."""
    by_point: dict[str, list[RunRecord]] = {}
    for record in records:
        by_point.setdefault(record.point_id, []).append(record)
    return Capacity(rule, [_survey_one(case, by_point, rule) for case in cases])


def _survey_one(case: Case, by_point: Mapping[str, Sequence[RunRecord]], rule: Rule) -> CaseResult:
    result = CaseResult(case)
    parameter, metric = case.search.parameter, case.search.metric
    numbers = {r[0].params[parameter] for r in by_point.values() if parameter in r[0].params}
    for number in sorted(numbers):
        point_id = case.with_number(number).point_id
        if point_id in by_point:
            result.tried.append(judge(number, by_point[point_id], rule, metric))
    unfinished = next((tried for tried in result.tried if tried.verdict is None), None)
    if unfinished is not None:
        batches = len(unfinished.run_ids) // rule.repeats + 1
        point = case.with_number(unfinished.number)
        result.next = Try(point, batches * rule.repeats)
        return result
    verdicts = {t.number: t.verdict for t in result.tried if t.verdict is not None}
    number = next_number(verdicts, case.largest, case.smallest)
    if number is not None:
        result.next = Try(case.with_number(number), rule.repeats)
    return result


def next_number(verdicts: Mapping[int, Verdict], largest: int, smallest: int = 1) -> int | None:
    """Return the number of accelerators to try next, or None if the search is complete.

    Args:
        verdicts: Verdict by number of accelerators tried.
        largest: Largest number that may be tried.
        smallest: Smallest number that may be tried.
    """
    below = min((n for n, verdict in verdicts.items() if verdict != "kept"), default=largest + 1)
    kept = max((n for n, v in verdicts.items() if v == "kept" and n < below), default=smallest - 1)
    if below - kept <= 1:
        return None
    if below > largest:
        return min(2 * kept if kept >= smallest else smallest, largest)
    return (kept + below) // 2


def judge(number: int, records: Sequence[RunRecord], rule: Rule, metric: str) -> Tried:
    """Evaluate the runs of one point; a run that failed or lacks the metric counts as a failure."""
    readings = [record.metric(metric) for record in records]
    values = [value for value in readings if value is not None]
    failures = [
        record.failure.message if record.failure else f"{record.run_id} has no {metric}"
        for record, value in zip(records, readings, strict=True)
        if value is None
    ]
    interval = mean_interval(values, CONFIDENCE) if values else None
    if interval is not None and interval.high is not None:
        most = max(100.0, interval.estimate)  # utilisation cannot exceed 100 %
        interval = replace(interval, high=min(interval.high, most))
    power = [record.metric("power_w") for record in records]
    measured = [value for value in power if value is not None]
    return Tried(
        number=number,
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
    outcome = outcome_of(interval, rule.threshold_percent, "more", reached=True)
    if outcome in ("better", "worse"):
        return "kept" if outcome == "better" else "not-kept"
    return None if interval.n < MOST_BATCHES * rule.repeats else "within noise"
