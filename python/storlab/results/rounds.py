"""Rounds of a campaign that ends when it is steady: verdict, measurement window, runs left out.

A round is one repeat of all points. As in the SNIA PTS, a target is steady at the first round at
which its tracked metric was steady over the last five (:mod:`storlab.base.steady`). These five are
its measurement window. Its later rounds are not run, and its earlier ones remain as raw data.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from storlab.base.steady import WINDOW, SteadyVerdict, steady_verdict
from storlab.model.point import Plan, PlannedRun, RoundsRule
from storlab.model.result import RunRecord


@dataclass(frozen=True, slots=True)
class Rounds:
    """Tracked metric of a target over the rounds, and the rounds that its results come from."""

    rule: RoundsRule
    most: int  # largest number of rounds
    values: tuple[float | None, ...]  # by round, from the first; None if the tracked run failed
    last: int  # last round of the measurement window
    verdict: SteadyVerdict  # on the measurement window

    @property
    def first(self) -> int:
        """First round of the measurement window."""
        return self.last - WINDOW + 1

    @property
    def ended(self) -> bool:
        """Whether the target needs no further round."""
        return self.verdict.steady or len(self.values) == self.most

    @property
    def text(self) -> str:
        """Return a phrase such as ``steady in rounds 3 to 7: iops changed by ...``."""
        verdict = self.verdict
        name = self.rule.metric.removesuffix(".all")
        where = f"in rounds {self.first} to {self.last}"
        if verdict.slope_percent is None or verdict.excursion_percent is None:
            where = f"after {len(self.values)} rounds"
            return f"not steady {where}: {WINDOW} rounds in a row with a value of {name} are needed"
        return (
            f"{'steady' if verdict.steady else 'not steady'} {where}: {name} has an excursion of "
            f"{verdict.excursion_percent:.1f} % (at most {self.rule.excursion_percent:g} %) and a "
            f"slope of {verdict.slope_percent:+.1f} % (at most {self.rule.slope_percent:g} %)"
        )

    def __contains__(self, number: int) -> bool:
        """Return whether a round is in the measurement window."""
        return self.first <= number <= self.last


def rounds_of(plan: Plan, records: Iterable[RunRecord]) -> dict[str, Rounds]:
    """Judge the rounds of each target; the result is empty if all repeats of the plan are run.

    A target that is not steady has its last five rounds as the measurement window.

    Args:
        plan: Plan of the campaign.
        records: Stored runs; those of other points than the tracked ones are ignored.
    """
    rule = plan.rounds
    if rule is None:
        return {}
    name, _, operation = rule.metric.rpartition(".")
    most = max((run.repeat for run in plan.runs), default=0)
    tracked = {point_id: target for target, point_id in rule.tracked.items()}
    known: dict[str, dict[int, float | None]] = {target: {} for target in rule.tracked}
    for record in records:
        if record.point_id in tracked:
            value = record.metric(name, operation) if record.status == "finished" else None
            known[tracked[record.point_id]][record.repeat] = value
    return {
        target: _judge(rule, most, [own.get(n) for n in range(1, max(own, default=0) + 1)])
        for target, own in known.items()
    }


def _judge(rule: RoundsRule, most: int, values: list[float | None]) -> Rounds:
    verdict = steady_verdict([])
    for last in range(len(values) + 1):
        window = values[max(0, last - WINDOW) : last]
        # A failed run breaks the series: five rounds in a row must have a value.
        whole = [value for value in window if value is not None]
        verdict = steady_verdict(whole, rule.slope_percent, rule.excursion_percent)
        if verdict.steady:
            return Rounds(rule, most, tuple(values), last, verdict)
    return Rounds(rule, most, tuple(values), max(WINDOW, len(values)), verdict)


def needed_runs(plan: Plan, rounds: Mapping[str, Rounds]) -> list[PlannedRun]:
    """Return the runs of a plan without those of rounds after their target was steady."""
    return [run for run in plan.runs if not is_left_out(plan, rounds, run)]


def is_left_out(plan: Plan, rounds: Mapping[str, Rounds], run: PlannedRun) -> bool:
    """Return whether a run is not needed, because its target was steady in an earlier round."""
    own = rounds.get(plan.points[run.point_id].target)
    return own is not None and own.verdict.steady and run.repeat > own.last
