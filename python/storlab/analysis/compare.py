"""Comparison table of targets, shared by the terminal and the brief.

Each workload point and target has a cell: means with t-intervals, percentiles of histograms merged
over the repeats (without histograms the median of the repeats' own percentiles), effective
concurrency and flags. Each target has a ratio to the baseline with a log-Welch-t interval. Failed
runs are counted and listed, but excluded from means.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from statistics import median
from typing import Any

from storlab._native import Histogram
from storlab.analysis.columns import (
    COLUMNS,
    FAMILY_DISTRIBUTIONS,
    PERCENTS,
    STATISTICS,
    Column,
    plural_of,
    ratio_keys,
)
from storlab.analysis.dataset import Dataset, RunData, merge
from storlab.analysis.drift import DRIFT, Drift, Repeat, drifts_of
from storlab.analysis.efficiency import (
    WEAKEST_FIRST,
    Account,
    account_of,
    choose_boundaries,
    headline_boundaries,
    missing_reason,
    spread_ratio,
    unequal,
)
from storlab.analysis.points import Section, WorkloadPoint, page_of, sections_of
from storlab.analysis.published import PublishedCell
from storlab.analysis.stats import CONFIDENCE, mean_interval, printable, ratio_interval
from storlab.base.collector import without_collector
from storlab.base.units import format_quantity
from storlab.model.decision import Decision, Interval, Verdict, outcome_of
from storlab.results.rounds import Rounds

CONCURRENCY = "concurrency_effective.all"
PLACES = {column.key: place for place, column in enumerate(COLUMNS)}
POWER = [column for column in COLUMNS if column.is_power]
STATISTIC_OF = {percent: name for name, percent in PERCENTS.items()}
CONCURRENCY_TOLERANCE = 1.10  # latencies whose effective concurrencies differ by more are marked
FEW_BEYOND = 10  # a percentile with fewer operations beyond it is marked
FEW = "few-operations"
PER_REPEAT = "percentile-per-repeat"
UNSTEADY = "rounds-not-steady"


@dataclass(frozen=True, slots=True)
class CellFlag:
    """Warning flag of a target at a point, with the number of runs that have it."""

    kind: str
    message: str
    runs: int


@dataclass(slots=True)
class Cell:
    """Results of one target at one workload point; ``values`` maps column keys to intervals."""

    target: str
    point_id: str | None
    planned: int
    runs: list[RunData] = field(default_factory=list)
    failed: list[RunData] = field(default_factory=list)
    values: dict[str, Interval] = field(default_factory=dict)
    configured: float | None = None
    flags: list[CellFlag] = field(default_factory=list)
    power: Account | None = None  # None if no energy was measured or declared
    power_missing: str = ""  # reason why no energy was measured
    # keys of the percentiles that a flag of the cell concerns, by kind of flag: FEW, PER_REPEAT
    percentile_flags: dict[str, set[str]] = field(default_factory=dict)
    # metrics that change with the order of the runs, such as by warming up
    drifts: list[Drift] = field(default_factory=list)
    _merged: dict[tuple[str, ...], Histogram | None] = field(default_factory=dict, repr=False)

    @property
    def measured(self) -> bool:
        """Whether at least one run finished."""
        return bool(self.runs)

    @property
    def run_ids(self) -> list[str]:
        """Ids of the finished runs; failed runs are excluded."""
        return [run.record.run_id for run in self.runs]

    def runs_with(self, column: Column) -> list[str]:
        """Return the ids of the runs that have a value of a column."""
        if column.is_power:
            return [] if self.power is None else [entry.run_id for entry in self.power.entries]
        return [run.record.run_id for run in self.runs if column.key in run.values]

    @property
    def provenance(self) -> str:
        """Provenance of the runs (measured, emulated, ...); the weakest one if they differ."""
        words = {run.record.provenance for run in self.runs}
        return next((word for word in WEAKEST_FIRST if word in words), "measured")

    def provenance_of(self, column: Column) -> str:
        """Return the provenance of a column's values, which may be weaker than that of the runs."""
        name, operation = column.name, column.operation
        metrics = (m for run in self.runs for m in run.record.metrics)
        words = {m.provenance for m in metrics if m.name == name and m.operation == operation}
        own = next((word for word in WEAKEST_FIRST if word in words), "measured")
        return self.provenance if own == "measured" else own

    @property
    def boundary(self) -> str | None:
        """Power boundary of the target's meter, such as ``wall``; None if not metered."""
        return None if self.power is None else self.power.boundary

    def why_missing(self, column: Column) -> str:
        """Return why the target has no value of a column at the point."""
        if not self.measured:
            return "no run finished"
        if column.is_power and self.power is None:
            return f"no energy was measured: {self.power_missing}"
        return "no run has a value"

    def repeats(self, column: Column) -> list[float]:
        """Return a column's value in each repeat."""
        if column.is_power:
            return [] if self.power is None else self.power.repeats(column.account_name)
        values = [run.values[column.key] for run in self.runs if column.key in run.values]
        if column.key == CONCURRENCY and not values:  # some engines do not sample the concurrency
            known = (run.record.concurrency for run in self.runs)
            return [c.implied for c in known if c is not None and c.implied is not None]
        return values

    def merged(self, operation: str, time: str = "latency") -> Histogram | None:
        """Return a time distribution merged over all finished repeats.

        None if no repeat has a histogram of it, or if a repeat has only percentiles, which cannot
        be merged with the others.

        Args:
            operation: Operation whose times are merged.
            time: latency, ttfb (time to first byte), intended_latency, or a distribution of the
                workload family.
        """
        percentiles = [f"{time}_{statistic}_ns.{operation}" for statistic in PERCENTS]
        if time in FAMILY_DISTRIBUTIONS:
            operation, time = FAMILY_DISTRIBUTIONS[time].operation, "latency"
        key = (operation, time, *self.run_ids)
        if key not in self._merged:
            histograms = [run.times[time].get(operation) for run in self.runs]
            complete = not any(
                histogram is None and any(name in run.values for name in percentiles)
                for run, histogram in zip(self.runs, histograms, strict=True)
            )
            known = [histogram for histogram in histograms if histogram is not None]
            self._merged[key] = merge(known) if complete else None
        return self._merged[key]

    def percentile(self, column: Column) -> float | None:
        """Return a percentile over all finished repeats; None if it cannot be merged.

        A single repeat gives its stored percentile, as there is nothing to merge.
        """
        single = self._single(column)
        if single is not None:
            return single[0]
        merged = self.merged(column.operation, column.time)
        if merged is None or column.percent is None:
            return None
        return float(merged.percentile(column.percent))

    def count(self, column: Column) -> int | None:
        """Return the number of operations behind a percentile; None if it is not known.

        If percentiles cannot be merged, it is the smallest number of operations in a repeat.
        """
        single = self._single(column)
        if single is not None:
            return single[1]
        if column.key in self.percentile_flags.get(PER_REPEAT, ()):
            totals = [run.record.totals.get(column.operation) for run in self.runs]
            return min((t.operations for t in totals if t is not None), default=None)
        merged = self.merged(column.operation, column.time)
        return None if merged is None else merged.count

    def _single(self, column: Column) -> tuple[float, int] | None:
        """Return percentile and count from the run's totals; None if there are several runs."""
        if len(self.runs) != 1:
            return None
        operation, time = column.operation, column.time
        if time in FAMILY_DISTRIBUTIONS:
            operation, time = FAMILY_DISTRIBUTIONS[time].operation, "latency"
        totals = self.runs[0].record.totals.get(operation)
        named = {"latency": "latency", "ttfb": "ttfb", "intended_latency": "intended"}.get(time)
        summary = getattr(totals, named) if totals is not None and named is not None else None
        statistic = STATISTIC_OF.get(column.percent or 0.0)
        if summary is None or statistic is None or not summary.count:
            return None
        return float(getattr(summary, f"{statistic}_ns")), summary.count

    def flags_percentile(self, kind: str, column: Column) -> bool:
        """Return whether a flag of the cell concerns a column.

        Flags that concern only some percentiles list them; any other flag concerns all columns.
        """
        keys = self.percentile_flags.get(kind)
        return keys is None or column.key in keys

    def own_percentiles(self, column: Column) -> list[float]:
        """Return each repeat's own percentile, if they cannot be merged; else an empty list."""
        own = column.key in self.percentile_flags.get(PER_REPEAT, ())
        return self.repeats(column) if own else []

    @property
    def errors(self) -> dict[str, dict[str, int]]:
        """Number of failed operations in all finished repeats, by operation and kind of error."""
        errors: dict[str, dict[str, int]] = {}
        for run in self.runs:
            for operation, totals in run.record.totals.items():
                for kind, count in totals.errors.items():
                    kinds = errors.setdefault(operation, {})
                    kinds[kind] = kinds.get(kind, 0) + count
        return {
            operation: {kind: count for kind, count in sorted(kinds.items()) if count}
            for operation, kinds in errors.items()
            if any(kinds.values())
        }


@dataclass
class Row:
    """One workload point with the results of all targets and their comparisons to the baseline."""

    point: WorkloadPoint
    use_cases: list[str]
    cells: dict[str, Cell]  # cells by target label
    # comparisons with the baseline by label of the other target, then column key
    decisions: dict[str, dict[str, Decision]]

    @cached_property
    def ratios(self) -> dict[str, dict[str, Decision]]:
        """Comparisons with the baseline that have a ratio, by target and column key."""
        return {
            target: {key: d for key, d in decisions.items() if d.interval is not None}
            for target, decisions in self.decisions.items()
        }

    @cached_property
    def refused(self) -> dict[str, str]:
        """Reason why a target's power is not compared with the baseline's, by target."""
        return {
            target: decision.reason
            for target, decisions in self.decisions.items()
            for decision in decisions.values()
            if decision.outcome == "refused"
        }


@dataclass(slots=True)
class Comparison:
    """Complete comparison of all targets at all workload points."""

    dataset: Dataset
    baseline: str
    rows: dict[str, Row]  # rows by key of the workload point
    sections: list[Section]
    columns: list[Column]  # columns that have a value
    # published values, shown next to measured ones but never mixed with them
    published: list[PublishedCell] = field(default_factory=list)
    _section_of: dict[str, Section] = field(default_factory=dict, repr=False)
    _flagged: dict[str, dict[str, list[Row]]] | None = field(default=None, repr=False)
    # Answers to the study's questions, cached because brief, audit and terminal all need them.
    verdicts: list[Verdict] | None = field(default=None, repr=False)
    # Comparisons of two targets in every quantity, cached by workload family and targets.
    tallies: dict[tuple[str, str, str], Any] = field(default_factory=dict, repr=False)

    def flagged(self, kind: str) -> dict[str, list[Row]]:
        """Return, by target, the points at which runs have a flag of this kind.

        All cells are indexed at the first call.
        """
        if self._flagged is None:
            self._flagged = {}
            for row in self.rows.values():
                for target, cell in row.cells.items():
                    for raised in dict.fromkeys(flag.kind for flag in cell.flags):
                        by_target = self._flagged.setdefault(raised, {})
                        by_target.setdefault(target, []).append(row)
        return self._flagged.get(kind, {})

    @property
    def accepts_unequal_boundaries(self) -> bool:
        """Whether all studies accept power ratios if the meters include different equipment."""
        return all(s.study.study.accept_unequal_boundaries for s in self.dataset.stores)

    @property
    def targets(self) -> list[str]:
        """Labels of all targets, in the order of the study."""
        return [column.label for column in self.dataset.targets]

    @property
    def others(self) -> list[str]:
        """Labels of the targets that are compared with the baseline."""
        return [label for label in self.targets if label != self.baseline]

    def row(self, point: WorkloadPoint) -> Row:
        """Return the row of a workload point."""
        return self.rows[point.key]

    def section_of(self, point: WorkloadPoint) -> Section | None:
        """Return the section that contains a point."""
        if not self._section_of:
            self._section_of = {p.key: s for s in self.sections for p in s.points}
        return self._section_of.get(point.key)

    def planned(self, points: Sequence[WorkloadPoint]) -> list[str]:
        """Return the targets on which the study runs any of these points, or else all targets."""
        rows = [self.row(point) for point in points]
        named = [t for t in self.targets if any(row.cells[t].point_id for row in rows)]
        return named or self.targets

    def compared(self, row: Row) -> list[str]:
        """Return the targets to compare with the baseline in a row.

        Empty if the study does not run the row's point on the baseline.
        """
        if row.cells[self.baseline].point_id is None:
            return []
        return [target for target in self.others if row.cells[target].point_id]

    def last_point(self, section: Section, facet: Any) -> WorkloadPoint | None:
        """Return the point to quote for a small multiple: the one with the most measured targets.

        If several points have equally many, one with a measured baseline is chosen, then the one
        furthest along the axis. None if nothing was measured.
        """

        def measured(point: WorkloadPoint) -> tuple[int, bool]:
            cells = self.row(point).cells
            return sum(c.measured for c in cells.values()), cells[self.baseline].measured

        best = max(reversed(section.of_facet(facet)), key=measured, default=None)
        return best if best is not None and any(measured(best)) else None

    @property
    def kinds(self) -> dict[str, list[Section]]:
        """Sections by workload family, in page order."""
        by_kind: dict[str, list[Section]] = {}
        for section in self.sections:
            by_kind.setdefault(section.kind, []).append(section)
        return by_kind

    def series_index(self, cell: PublishedCell) -> int:
        """Return the colour index of a published series: its target's, or else an unused one."""
        if cell.config in self.targets:
            return self.targets.index(cell.config)
        others = dict.fromkeys(c.label for c in self.published if c.config not in self.targets)
        return len(self.targets) + list(others).index(cell.label)

    def has(self, name: str) -> bool:
        """Return whether a metric, or a time distribution such as ``ttfb``, was measured."""
        return any(name in (column.name, column.time) for column in self.columns)

    def column(self, key: str) -> Column | None:
        """Return the column with a key; None if no run has a value of it."""
        return next((column for column in self.columns if column.key == key), None)


def compare(dataset: Dataset, *, alone: bool = False) -> Comparison:
    """Compare all targets of a data set at every planned point, measured or not.

    Intervals have a confidence of ``CONFIDENCE``.

    Args:
        dataset: Runs to compare.
        alone: Whether targets are judged separately, as by a gate. The power of each target is then
            taken at the boundary (device, enclosure, host, wall) that its own runs report, instead
            of one common to all targets.
    """
    with without_collector():
        return _compared(dataset, alone=alone)


def _compared(dataset: Dataset, *, alone: bool) -> Comparison:
    rows = {}
    boundaries = headline_boundaries(dataset) if alone else choose_boundaries(dataset)
    accepted = all(store.study.study.accept_unequal_boundaries for store in dataset.stores)
    keys = {kind: ratio_keys(page_of(kind)) for kind in {point.kind for point in dataset.points}}
    for point in dataset.points:
        cells = {c.label: _cell(dataset, point, c.label) for c in dataset.targets}
        for label, cell in cells.items():
            _meter(cell, account_of(cell.runs, boundaries[label]))
        base = cells[dataset.baseline]
        decisions = {
            label: {
                **decisions_of(cell, base, keys[point.kind], accepted=accepted),
                **_not_measured(cell, base, keys[point.kind]),
            }
            for label, cell in cells.items()
            if label != dataset.baseline
        }
        rows[point.key] = Row(point, dataset.use_cases.get(point.key, []), cells, decisions)
    present = {key for row in rows.values() for cell in row.cells.values() for key in cell.values}
    columns = [column for column in COLUMNS if column.key in present]
    return Comparison(dataset, dataset.baseline, rows, sections_of(dataset.points), columns)


def _cell(dataset: Dataset, point: WorkloadPoint, label: str) -> Cell:
    place = (point.key, label)
    runs = dataset.of(point, label)
    cell = Cell(
        target=label,
        point_id=dataset.point_ids.get(place),
        planned=dataset.planned.get(place, 0),
        runs=[run for run in runs if run.finished],
        failed=[run for run in runs if not run.finished],
    )
    for column in _columns_of(cell):
        value = value_of(cell, column)
        if value is not None:
            cell.values[column.key] = value
    configured = [r.record.concurrency.configured for r in cell.runs if r.record.concurrency]
    cell.configured = configured[0] if configured else None
    repeats = [Repeat(r.record.run_id, r.record.started_at, r.values) for r in cell.runs]
    cell.drifts = drifts_of(repeats, point.page)
    cell.flags = [
        *_run_flags(cell.runs), *_drift_flags(cell), *_per_repeat_flags(cell), *_few_flags(cell),
        *_round_flags(cell, dataset.rounds.get(label)),
    ]  # fmt: skip
    return cell


def _columns_of(cell: Cell) -> list[Column]:
    """Return the columns, except power, for which a target's runs at a point have values."""
    keys = {CONCURRENCY, *(key for run in cell.runs for key in run.values)} if cell.runs else set()
    places = sorted(PLACES[key] for key in keys if key in PLACES)
    return [COLUMNS[place] for place in places if not COLUMNS[place].is_power]


def _meter(cell: Cell, account: Account | None) -> None:
    cell.power = account
    cell.power_missing = missing_reason(cell.runs) if account is None else ""
    for column in POWER if account is not None else ():
        if account is not None:
            value = account.value(column.account_name, CONFIDENCE)
            if value is not None:
                cell.values[column.key] = value


def value_of(cell: Cell, column: Column) -> Interval | None:
    """Return the value of a column over all repeats of a cell; None if no run has it.

    A percentile comes from the merged histograms of the repeats, with the interval of their own
    percentiles.
    """
    values = cell.repeats(column)
    if not values:
        return None
    if column.name == "errors":  # counted, not averaged: the total matters
        return Interval(sum(values), None, None, len(values))
    interval = printable(mean_interval(values, CONFIDENCE).within(0.0, column.most), values)
    if column.percent is None:
        return interval
    value = cell.percentile(column)
    if value is not None:
        return interval.around(value)
    if len(values) == 1:
        return interval
    # Without histograms there is nothing to merge, and a mean of percentiles is not a percentile.
    # The median is the percentile of one of the runs, or lies between those of two.
    cell.percentile_flags.setdefault(PER_REPEAT, set()).add(column.key)
    return interval.around(median(values))


def _run_flags(runs: Sequence[RunData]) -> list[CellFlag]:
    by_kind: dict[str, list[str]] = {}
    for run in runs:
        for kind in dict.fromkeys(flag.kind for flag in run.record.flags):
            message = next(f.message for f in run.record.flags if f.kind == kind)
            by_kind.setdefault(kind, []).append(message)
    return [CellFlag(kind, messages[0], len(messages)) for kind, messages in by_kind.items()]


def _drift_flags(cell: Cell) -> list[CellFlag]:
    """Return a flag with the values in time order, if the repeats depend on their order."""
    texts = []
    for drift in cell.drifts:
        column = COLUMNS[PLACES[drift.metric]]
        values = ", ".join(format_quantity(value, column.unit) for value in drift.values)
        kind = "trend" if drift.after is None else f"step after run {drift.after}"
        change = f"{100 * (drift.change - 1):+.0f} %"
        texts.append(f"{column.label} in order of time: {values} ({kind}, {change})")
    return [CellFlag(DRIFT, "; ".join(texts), len(cell.runs))] if texts else []


def _per_repeat_flags(cell: Cell) -> list[CellFlag]:
    """Return a flag that lists the percentiles of each repeat if these cannot be merged."""
    texts = []
    for key in cell.percentile_flags.get(PER_REPEAT, ()):
        column = COLUMNS[PLACES[key]]
        values = ", ".join(format_quantity(value, column.unit) for value in cell.repeats(column))
        texts.append(f"{column.label}, per repeat: {values}")
    return [CellFlag(PER_REPEAT, "; ".join(texts), len(cell.runs))] if texts else []


def _round_flags(cell: Cell, rounds: Rounds | None) -> list[CellFlag]:
    """Return a flag if the study asks for steady rounds, and the target has not become steady."""
    if rounds is None or rounds.verdict.steady or not cell.runs:
        return []
    return [CellFlag(UNSTEADY, rounds.text, len(cell.runs))]


def _few_flags(cell: Cell) -> list[CellFlag]:
    """Mark the percentiles that rest on few operations, and return a flag with the counts."""
    few: dict[str, list[str]] = {}
    for key in list(cell.values):
        column = COLUMNS[PLACES[key]]
        if column.percent is None or column.is_intended:
            continue
        count = cell.count(column)
        if count is not None and count * (1 - column.percent / 100) < FEW_BEYOND:
            cell.percentile_flags.setdefault(FEW, set()).add(column.key)
            if column.time == "latency":
                name = column.label.partition(" ")[0]
                names = few.setdefault(STATISTICS[column.name.split("_")[-2]], [])
                names.append(f"{plural_of(name)}: {count:,} operations")
    if not few:
        return []
    message = "; ".join(
        f"{statistic} rests on fewer than {FEW_BEYOND} operations beyond it ({'; '.join(names)})"
        for statistic, names in few.items()
    )
    return [CellFlag(FEW, message, len(cell.runs))]


def decisions_of(
    cell: Cell, base: Cell, keys: Sequence[str], *, accepted: bool = False
) -> dict[str, Decision]:
    """Compare one target with another in several columns; return the results by column key.

    Args:
        cell: Results of the target.
        base: Results of the target that it is compared with, at the same point.
        keys: Columns to compare; those without positive values on both sides are left out.
        accepted: Whether power at unequal boundaries may be compared.
    """
    columns = (COLUMNS[place] for place in sorted(PLACES[key] for key in keys if key in PLACES))
    decided = ((c.key, decide(cell, base, c, accepted=accepted)) for c in columns)
    return {key: decision for key, decision in decided if decision is not None}


def _not_measured(cell: Cell, base: Cell, keys: Sequence[str]) -> dict[str, Decision]:
    """Return a decision for each column of which only one of two planned cells has a value."""
    decisions: dict[str, Decision] = {}
    points = tuple(side.point_id for side in (cell, base) if side.point_id)
    for key in keys if len(points) == 2 else ():
        lacking = [side for side in (cell, base) if key not in side.values]
        if key in PLACES and len(lacking) == 1:
            column = COLUMNS[PLACES[key]]
            decisions[key] = Decision(
                quantity=key,
                better=column.better,
                sides=(cell.target, base.target),
                outcome="not measured",
                reason=f"{lacking[0].target}: {lacking[0].why_missing(column)}",
                points=points,
                runs=(tuple(cell.runs_with(column)), tuple(base.runs_with(column))),
            )
    return decisions


def decide(
    cell: Cell,
    base: Cell,
    column: Column,
    *,
    accepted: bool,
    comparisons: int = 1,
    share: float = 1.0,
) -> Decision | None:
    """Compare two targets in one metric at one point; None unless both have positive values.

    The interval is the 95 % interval of this comparison alone. The outcome may have to hold for
    several comparisons together: it then rests on a wider interval (Bonferroni).

    Args:
        cell: Results of the first target.
        base: Results of the second target.
        column: Metric to compare.
        accepted: Whether power at unequal boundaries may be compared; otherwise it is refused.
        comparisons: Number of comparisons whose outcomes hold together with 95 % confidence.
        share: Factor by which the ratio is multiplied, for values per terabyte or price.
    """
    boundaries = ""
    if column.is_power:
        if cell.power is None or base.power is None:
            return None
        boundaries = unequal(cell.power, base.power)
    refused = bool(boundaries) and not accepted
    interval = None if refused else _ratio(cell, base, column, CONFIDENCE)
    if interval is None and not refused:
        return None
    judged = interval
    if comparisons > 1 and not refused:
        judged = _ratio(cell, base, column, 1 - (1 - CONFIDENCE) / comparisons)
    if interval is not None and judged is not None and share != 1.0:
        interval, judged = interval.scaled(share), judged.scaled(share)
    outcome = "refused" if refused else outcome_of(judged, 1.0, column.better)
    if outcome == "too noisy" and interval is not None and not interval.is_open:
        outcome = "within noise"  # only the wider interval spans more than a factor of ten
    return Decision(
        quantity=column.key,
        better=column.better,
        sides=(cell.target, base.target),
        outcome=outcome,
        reason=boundaries if refused else "",
        interval=interval,
        comparisons=comparisons,
        points=tuple(side.point_id for side in (cell, base) if side.point_id),
        runs=(tuple(cell.runs_with(column)), tuple(base.runs_with(column))),
        concurrency=_concurrency_difference(cell, base) if column.is_latency else None,
        boundaries="" if refused else boundaries,
        share=share,
    )


def _ratio(cell: Cell, base: Cell, column: Column, confidence: float) -> Interval | None:
    if column.is_power:
        first, other = (
            None if side.power is None else side.power.spread(column.account_name)
            for side in (cell, base)
        )
        if first is None or other is None or min(first.estimate, other.estimate) <= 0:
            return None
        return spread_ratio(first, other, confidence)
    above, below = cell.values.get(column.key), base.values.get(column.key)
    if above is None or below is None or above.estimate <= 0 or below.estimate <= 0:
        return None
    values, base_values = cell.repeats(column), base.repeats(column)
    if min(*values, *base_values, 1.0) <= 0:
        return None
    # The printed ratio is the quotient of the printed values; their interval is widened to hold it.
    interval = ratio_interval(values, base_values, confidence)
    return interval.around(above.estimate / below.estimate)


def _concurrency_difference(cell: Cell, base: Cell) -> tuple[float, float] | None:
    """Return both effective concurrencies if they differ by more than the tolerance, else None."""
    key = CONCURRENCY
    if key not in cell.values or key not in base.values:
        return None
    first, other = cell.values[key].estimate, base.values[key].estimate
    if min(first, other) > 0 and max(first, other) / min(first, other) <= CONCURRENCY_TOLERANCE:
        return None
    return (first, other)
