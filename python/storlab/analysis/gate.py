"""Gate: check results against rules, by confidence intervals rather than means.

Each rule becomes one check for every target, point and metric that it names. The verdict of a check
against its bound is

- ``held``: the whole interval satisfies the bound;
- ``broken``: the whole interval violates the bound, or a run of the point failed;
- ``inconclusive``: the bound lies inside the interval, or there is no interval (fewer than two
  repeats).

A bound that is a multiple of the baseline is checked against the ratio of geometric means. A bound
below 1 for a quantity that should be large, or above 1 for one that should be small, is a
non-inferiority test. Intervals are simultaneous, each with confidence 1 - 0.05 / checks
(Bonferroni), so that at most one gate in twenty contains a wrong verdict "broken" or "held".

A rule is broken if any of its checks is, and held if all of them are.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import geometric_mean
from typing import Any, Literal

from pydantic import Field, computed_field

from storlab.analysis.columns import Column, columns_of_all
from storlab.analysis.compare import CONCURRENCY, CONCURRENCY_TOLERANCE, Cell, Comparison, Row
from storlab.analysis.gate_interval import Measured, is_due, measured, partly_missing, ratio
from storlab.analysis.gate_power import repeats_to_decide
from storlab.analysis.points import (
    Section,
    WorkloadPoint,
    as_read,
    as_written,
    matches,
    sections_of,
)
from storlab.base.errors import StudyError
from storlab.base.nearest import suggest
from storlab.base.units import J_PER_WH, NS_PER_S, show, significant
from storlab.model.decision import Better, Decision, Outcome, outcome_of
from storlab.model.gate import Bound, GateRule, Limit
from storlab.workloads.common.flags import STATE_FLAGS

Verdict = Literal["held", "broken", "inconclusive"]
VERDICTS: tuple[Verdict, ...] = ("held", "broken", "inconclusive")
ERROR = 0.05  # error probability of all checks together

_UNITS: Mapping[str, Mapping[str, float]] = {
    "ns": {"ns": 1, "us": 1e3, "ms": 1e6, "s": NS_PER_S, "min": 60 * NS_PER_S},
    "s": {"ns": 1e-9, "us": 1e-6, "ms": 1e-3, "s": 1, "min": 60, "h": 3600},
    "MB/s": {
        "KB/s": 1e-3, "MB/s": 1, "GB/s": 1e3, "TB/s": 1e6,
        "KiB/s": 1.024e-3, "MiB/s": 1.048576, "GiB/s": 1073.741824,
    },
    "W": {"mW": 1e-3, "W": 1, "kW": 1e3},
    "J": {"J": 1, "kJ": 1e3, "MJ": 1e6, "Wh": J_PER_WH, "kWh": 1000 * J_PER_WH},
    "1/s": {"1/s": 1, "/s": 1, "IOPS": 1},
}  # fmt: skip
"""By unit of a metric: units in which a bound may be written, with factors to the metric's."""


class Check(Decision):
    """Check of one metric of one target at one point against a bound of a rule.

    ``sides`` are the names of the target and of the bound. ``better`` is "less" if values below the
    bound are allowed, and "more" if values above it are.
    """

    number: int
    """Number of the rule that the check belongs to, from 1."""
    column: Column = Field(exclude=True)
    limit: Limit = Field(exclude=True)
    needed: int | None
    """Total number of repeats that would decide the check, existing ones included."""
    repeats: int
    """Number of repeats behind the interval."""
    remarks: tuple[str, ...]
    """Circumstances that distort the numbers."""
    boundary: str = ""
    """Power boundary of the meter; empty if not measured."""

    @computed_field  # type: ignore[prop-decorator]
    @property
    def target(self) -> str:
        """Target that is checked."""
        return self.sides[0]

    @property
    def side(self) -> Bound:
        """Name of the bound in the rule: at_most or at_least."""
        return "at_most" if self.better == "less" else "at_least"

    @computed_field  # type: ignore[prop-decorator]
    @property
    def unit(self) -> str:
        """Unit of bound and interval; empty for a ratio."""
        return "" if self.limit.of_baseline else self.column.unit

    @computed_field  # type: ignore[prop-decorator]
    @property
    def verdict(self) -> Verdict:
        """Verdict on the bound: held, broken or inconclusive."""
        held: dict[Outcome, Verdict] = {"better": "held", "worse": "broken"}
        return held.get(self.outcome, "inconclusive")


@dataclass(frozen=True, slots=True)
class _Task:
    """Inputs of one check: rule and bound, metric, results of the target, and their baseline."""

    rule: int  # index of the rule, from 0
    side: Bound
    limit: Limit
    cell: Cell
    other: Cell | None  # the same target and point in the baseline
    column: Column
    where: str


@dataclass(frozen=True, slots=True)
class RuleVerdict:
    """Rule of a gate with its checks at all targets and points."""

    number: int  # number of the rule, from 1
    rule: GateRule
    checks: list[Check]

    @property
    def verdict(self) -> Verdict:
        """``broken`` if any check is; ``held`` if all are; else ``inconclusive``."""
        return _together(self.checks)

    def as_dict(self) -> dict[str, Any]:
        """Return the fields as plain values for JSON."""
        return {
            "number": self.number,
            **self.rule.model_dump(mode="json"),
            "verdict": self.verdict,
            **{verdict: count(self.checks, verdict) for verdict in VERDICTS},
        }


@dataclass(frozen=True, slots=True)
class Gate:
    """Result of a gate: all rules with their checks."""

    rules: list[RuleVerdict]
    confidence: float  # confidence of each interval

    @property
    def checks(self) -> list[Check]:
        """Checks of all rules, in order."""
        return [check for rule in self.rules for check in rule.checks]

    @property
    def verdict(self) -> Verdict:
        """``broken`` if any check is; ``held`` if all are; else ``inconclusive``."""
        return _together(self.checks)

    def count(self, verdict: Verdict) -> int:
        """Return the number of checks with this verdict."""
        return count(self.checks, verdict)


def count(checks: Iterable[Check], verdict: Verdict) -> int:
    """Return the number of checks with this verdict."""
    return sum(check.verdict == verdict for check in checks)


def _together(checks: Iterable[Check]) -> Verdict:
    verdicts = {check.verdict for check in checks}
    found = (verdict for verdict in ("broken", "inconclusive") if verdict in verdicts)
    return next(found, "held")


def judge(rules: Sequence[GateRule], results: Comparison, baseline: Comparison | None) -> Gate:
    """Check results against the rules that have a bound.

    Raises:
        StudyError: A rule matches nothing that was planned, uses a unit that its metric lacks, or
            refers to a baseline that is not given.
    """
    judged = [(number, rule) for number, rule in enumerate(rules) if rule.bounds]
    tasks = [_tasks(number, rule, results, baseline) for number, rule in judged]
    confidence = 1 - ERROR / sum(map(len, tasks))
    stores = [s for side in (results, baseline) if side is not None for s in side.dataset.stores]
    accepted = all(store.study.study.accept_unequal_boundaries for store in stores)
    return Gate(
        [
            RuleVerdict(n + 1, rule, [_check(task, confidence, accepted=accepted) for task in own])
            for (n, rule), own in zip(judged, tasks, strict=True)
        ],
        confidence,
    )


def check_rules(
    rules: Sequence[GateRule], targets: Sequence[str], points: Sequence[WorkloadPoint]
) -> None:
    """Check before a run that rules match what a study plans: metrics, targets, points and units.

    Args:
        rules: Rules of the study.
        targets: Names of the study's targets.
        points: Planned workload points.

    Raises:
        StudyError: A rule can match nothing, uses a unit that its metric lacks, or contradicts
            itself.
    """
    sections = sections_of(points)
    known = columns_of_all([section.page for section in sections])
    for number, rule in enumerate(rules):
        _check_rule(number, rule, known, targets)
        for _ in _points(number, rule, sections):
            pass


def _check_rule(
    number: int, rule: GateRule, known: Sequence[Column], targets: Sequence[str]
) -> list[Column]:
    """Check a rule against the known columns and targets, and return the columns of its metric."""
    columns = _columns(number, rule, known)
    if rule.target is not None and rule.target not in targets:
        what = f'"{rule.target}" is not a target of the study'
        raise _error(number, "target", what, suggest(rule.target, targets))
    for column in columns:
        bounds = {
            side: _in_unit_of(column, number, side, limit)
            for side, limit in rule.bounds
            if not limit.of_baseline
        }
        if len(bounds) == 2:
            _refuse_contradiction(number, rule, bounds["at_least"], bounds["at_most"])
    factors = {side: limit.number for side, limit in rule.bounds if limit.of_baseline}
    if len(factors) == 2:
        _refuse_contradiction(number, rule, factors["at_least"], factors["at_most"])
    return columns


def without_baseline(rule: GateRule) -> GateRule:
    """Return the rule without bounds that refer to a baseline; it may have no bound left."""
    return rule.model_copy(update={side: None for side, limit in rule.bounds if limit.of_baseline})


def _tasks(
    number: int, rule: GateRule, results: Comparison, baseline: Comparison | None
) -> list[_Task]:
    known = [target.label for target in results.dataset.targets]
    columns = _check_rule(number, rule, results.columns, known)
    for side, limit in rule.bounds:
        if limit.of_baseline and baseline is None:
            what = f'"{limit.text}" needs a baseline, and none is given'
            fix = "give --baseline with a result directory or the name of a saved baseline"
            raise _error(number, side, what, fix)
    tasks = []
    for section, point in _points(number, rule, results.sections):
        row, where = results.row(point), section.where(point)
        for name, cell in row.cells.items():
            if rule.target not in (None, name) or not cell.planned:
                continue
            base = _baseline_cell(row, name, baseline)
            due = [c for c in columns if is_due(c, cell, base, _like(cell, row, results))]
            tasks += [
                _Task(number, side, limit, cell, base, column, where)
                for side, limit in rule.bounds
                for column in due
            ]
    if not tasks:
        on = f"on target {rule.target} " if rule.target else ""
        what = f"{rule.metric} was not measured {on}at any point of the rule"
        raise _error(number, "metric", what, "choose another metric, or other points")
    return tasks


def _refuse_contradiction(number: int, rule: GateRule, least: float, most: float) -> None:
    """Raise StudyError if a rule's lower bound, at_least, is above its upper bound, at_most."""
    if least > most:
        texts = {side: limit.text for side, limit in rule.bounds}
        what = f"{texts['at_least']} is above at_most, {texts['at_most']}: no value satisfies both"
        raise _error(number, "at_least", what, "exchange the bounds, or write a rule for each")


def _columns(number: int, rule: GateRule, known_columns: Sequence[Column]) -> list[Column]:
    """Return the columns of a rule's metric, given as a key, a name or a name without its unit.

    A name selects the columns of all its operations.
    """
    names = {
        name: [c for c in known_columns if name in c.names]
        for column in known_columns
        for name in column.names
    }
    mean = re.sub(r"_p[0-9]+(?=_|\.|$)", "_mean", rule.metric)
    if rule.metric not in names and mean != rule.metric and mean in names:
        what = f"{rule.metric} is unknown: the imported runs have no histograms, only a mean"
        fix = f"import files with histograms (--output-format=json+), or set a bound for {mean}"
        raise _error(number, "metric", what, fix)
    if rule.metric not in names:
        known = sorted({column.name for column in known_columns})
        what = f'no run has the metric "{rule.metric}"'
        raise _error(number, "metric", what, suggest(rule.metric, known))
    return names[rule.metric]


def _points(
    number: int, rule: GateRule, sections: Sequence[Section]
) -> Iterator[tuple[Section, WorkloadPoint]]:
    """Yield the workload points that a rule names, with their sections."""
    names = {point.workload for section in sections for point in section.points}
    if rule.workload is not None and rule.workload not in names:
        what = f'"{rule.workload}" is not a workload of the study'
        raise _error(number, "workload", what, suggest(rule.workload, sorted(names)))
    compared = False
    for section in sections:
        for point in section.points:
            # A rule for all workloads is not one for their groups, which must be named.
            named = rule.workload == point.workload or (rule.workload is None and not point.part_of)
            if named and matches(section.page, point.params, as_read(section.page, rule.at)):
                compared = True
                yield section, point
    if not compared:
        text = ", ".join(f"{name} = {show(value)}" for name, value in rule.at.items())
        raise _error(number, "at", f"no point has {text}", _values_of(rule, sections))


def _values_of(rule: GateRule, sections: Sequence[Section]) -> str:
    """Return advice on a rule's ``at``: the planned values of the parameter that fits no point."""
    points = [(s.page, p) for s in sections for p in s.points]
    known = sorted({name for _, point in points for name in point.params})
    lines = []
    for name, value in rule.at.items():
        if name not in known:
            return f"{name}: {suggest(name, known)}"
        if not any(matches(p, point.params, as_read(p, {name: value})) for p, point in points):
            values = {
                show(as_written(page, name, point.params[name])): None
                for page, point in points
                if name in point.params
            }
            lines.append(f"{name} is {' or '.join(values)}")
    return "; ".join(lines) or "no point has all these values: leave one out"


def _baseline_cell(row: Row, target: str, baseline: Comparison | None) -> Cell | None:
    """Return the results that the baseline has for the same point and target; None if none."""
    there = None if baseline is None else baseline.rows.get(row.point.key)
    return None if there is None else there.cells.get(target)


def _like(cell: Cell, row: Row, results: Comparison) -> Iterator[Cell]:
    """Yield the results of all points of a cell's workload family.

    They are those of the cell's target, or of all targets if that target has meters.
    """
    targets = {target.label: target.target for target in results.dataset.targets}
    for other in results.rows.values():
        if other.point.kind == row.point.kind:
            names = results.targets if targets[cell.target].meters else [cell.target]
            yield from (other.cells[name] for name in names)


def _error(number: int, field: str, what: str, fix: str) -> StudyError:
    return StudyError(f"[[gate]] {number + 1}: {field}", what, fix)


def _check(task: _Task, confidence: float, *, accepted: bool) -> Check:
    cell, other, column = task.cell, task.other, task.column
    bound = _bound(task)
    if task.limit.of_baseline:
        value = ratio(cell, other, column, confidence, accepted=accepted)
    else:
        value = measured(cell, column, confidence)
    better: Better = "less" if task.side == "at_most" else "more"
    outcome = outcome_of(value.interval, bound, better, reached=True)
    if value.interval is None and value.boundaries:
        outcome = "refused"
    if cell.failed:  # the finished runs are no evidence about failed ones
        outcome = "worse"
    needed, reason = None, value.reason
    if outcome in ("within noise", "too noisy") and not reason:
        needed = _needed(value, bound, confidence)
        reason = "" if needed else _never(value, bound, confidence)
    return Check(
        quantity=column.key,
        better=better,
        sides=(cell.target, f"{task.side} {task.limit.text}"),
        outcome=outcome,
        reason=reason,
        interval=value.interval,
        bound=bound,
        confidence=confidence,
        where=task.where,
        points=(cell.point_id,) if cell.point_id else (),
        runs=(tuple(cell.runs_with(column) or cell.run_ids),),
        number=task.rule + 1,
        column=column,
        limit=task.limit,
        needed=needed,
        repeats=len(value.values),
        remarks=tuple(_remarks(task, value)),
        boundary=cell.power.label if column.is_power and cell.power is not None else "",
    )


def _needed(measurement: Measured, bound: float, confidence: float) -> int | None:
    return repeats_to_decide(
        measurement.values, measurement.against, bound, confidence, measurement.meter
    )


def _never(measurement: Measured, bound: float, confidence: float) -> str:
    """Return why more repeats would not decide a check.

    The bound is too close, the meter too inaccurate, or the baseline too uncertain.
    """
    exact = replace(measurement, meter=0.0)
    if measurement.meter and _needed(exact, bound, confidence):
        return "the meter is not accurate enough to decide it"
    if measurement.against:
        mean = geometric_mean(measurement.against)
        shares = [value / mean for value in measurement.values]
        if repeats_to_decide(shares, [], bound, confidence):
            given = len(measurement.against)
            repeats = f"{given} repeats" if given > 1 else "one repeat"
            return f"the baseline's {repeats} are too few to decide it: add repeats to the baseline"
    return "no number of repeats would decide it: they lie on the bound"


def _bound(task: _Task) -> float:
    if task.limit.of_baseline:
        return task.limit.number
    return _in_unit_of(task.column, task.rule, task.side, task.limit)


def _in_unit_of(column: Column, number: int, side: Bound, limit: Limit) -> float:
    """Return an absolute bound of rule ``number`` in the unit of a column."""
    if limit.unit in ("", column.unit):
        return limit.number
    factors = _UNITS.get(column.unit, {column.unit: 1.0})
    if limit.unit not in factors:
        what = f'"{limit.text}": {column.key} has no such unit'
        raise _error(number, side, what, f"use one of {', '.join(factors)}")
    return limit.number * factors[limit.unit]


def _remarks(task: _Task, measurement: Measured) -> Iterator[str]:
    cell, other = task.cell, task.other
    if cell.failed:
        yield f"{len(cell.failed)} of {cell.planned} runs failed"
    yield from partly_missing(cell, task.column)
    if measurement.boundaries:
        yield f"across power boundaries: {measurement.boundaries}"
    for flag in cell.flags:
        yield f"{flag.kind} on {flag.runs} of {len(cell.runs)} runs"
    if task.limit.of_baseline and other is not None:
        for flag in other.flags:
            if flag.kind in STATE_FLAGS:
                yield f"{flag.kind} on {flag.runs} of {len(other.runs)} runs of the baseline"
    if task.limit.of_baseline and other is not None and task.column.is_latency:
        here, there = (c.values.get(CONCURRENCY) for c in (cell, other))
        if here is not None and there is not None:
            low, high = sorted((here.estimate, there.estimate))
            if high > low * CONCURRENCY_TOLERANCE:
                yield (
                    f"at unequal concurrency: {significant(here.estimate, 3)}, and "
                    f"{significant(there.estimate, 3)} in the baseline"
                )
