"""Audit of the claims in storlab's own brief against the records of their runs.

Claims are the rows of the key findings, the answers, and the sentences that open sections. Each
lists the numbers that it prints. They are recomputed from the counts of the runs over the measure
window (bytes, operations, mean latencies, histograms), not from the metrics that the brief used. If
any number differs, the brief is not written.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Literal

from storlab.analysis.columns import RATES_PER_WATT
from storlab.analysis.drift import DRIFT, Repeat, drifts_of
from storlab.analysis.points import page_of
from storlab.analysis.stats import ratio_interval
from storlab.audit.claim_values import estimate
from storlab.audit.finding import Finding
from storlab.audit.fixed_work import counted_quantity, fixed_work, mean_span_energy_j
from storlab.base.errors import ExitCode, StorlabError
from storlab.base.units import J_PER_WH, MB, NS_PER_S, significant
from storlab.contracts.registry import FAMILIES
from storlab.model.decision import Decision, Interval
from storlab.model.result import OperationTotals, RunRecord
from storlab.workloads.common.flags import flag_meanings

RULE = "own_claim"
CONCURRENCY_TOLERANCE = 1.10
RELATIVE_TOLERANCE = 1e-3  # tolerance between two ways to add up the same numbers
LATENCY_TOLERANCE = 0.05  # histogram bins of a reference engine are up to 2 % wide

_UNITS = {"MB/s": 1e6, "ns": 1e-9, "µs": 1e-6, "ms": 1e-3, "s": 1.0, "MB/s/W": 1e6, "TB/kWh": 1e12}
_UNITS |= {"Wh": J_PER_WH, "J": 1.0}
"""Factor of each printed unit to SI base units, in which numbers are recomputed."""

PER_WATT = {
    quotient: metric
    for workload in FAMILIES.values()
    for metric, quotient in workload.page.metrics.per_watt.items()
}
"""Metric that is divided by mean power, by the name of the quotient."""

NumberKind = Literal["value", "baseline", "multiple", "inverse", "least more", "least less"]
_WRONG: dict[NumberKind, str] = {
    "value": "A value in the sentence differs from that of the runs.",
    "baseline": "A value in the sentence differs from that of the runs.",
    "multiple": "The multiple in the sentence differs from that of the runs.",
    "inverse": "The multiple in the sentence differs from that of the runs.",
    "least more": "The smallest multiple in the sentence differs from that of the runs.",
    "least less": "The smallest multiple in the sentence differs from that of the runs.",
}


@dataclass(frozen=True, slots=True)
class ClaimNumber:
    """Number in the sentence of a claim: a value of one of two targets, or how they compare.

    ``multiple`` is target / baseline and ``inverse`` is baseline / target. ``least more`` is the
    end nearest to 1 of the interval of ``multiple``, and ``least less`` that of ``inverse``.
    ``step`` is the place value of the last significant digit if further digits follow it: 100 if
    1,234 is printed as 1,200.
    """

    kind: NumberKind
    text: str  # as printed, e.g. 1,234
    words: str  # with adjacent text, e.g. 1,234 MB/s
    unit: str = ""  # unit of a value
    step: float = 0.0


@dataclass(frozen=True, slots=True)
class Assertion:
    """Statement of a brief about the comparison of two targets, with its numbers and warnings."""

    statement: str
    decision: Decision
    caveat: str = ""  # qualification as a sentence
    beside: frozenset[str] = frozenset()  # kinds of warnings printed next to the statement
    numbers: tuple[ClaimNumber, ...] = ()  # numbers in the statement
    # power boundary (device, enclosure, host, wall) of each side's meter; None if not metered
    boundaries: tuple[str | None, ...] = (None, None)

    @property
    def quantity(self) -> str:
        """Column key of the compared metric."""
        return self.decision.quantity

    @property
    def sides(self) -> Sequence[tuple[str, tuple[str, ...]]]:
        """Both targets with their runs."""
        return list(zip(self.decision.sides, self.decision.runs, strict=True))


@dataclass(frozen=True, slots=True)
class StatedValue:
    """Mean of one target in a sentence of a brief."""

    statement: str
    quantity: str  # column key, such as latency_mean_ns.read
    sides: Sequence[tuple[str, tuple[str, ...]]]  # the only target with its runs
    numbers: tuple[ClaimNumber, ...]
    beside: frozenset[str] = frozenset()  # kinds of warnings printed next to the statement
    boundaries: tuple[str | None, ...] = (None,)  # power boundary; None if not metered


@dataclass(frozen=True)
class BriefClaims:
    """Claims of one brief and the run records they are checked against, by run id.

    ``places`` maps run ids to result directories if there are several. Runs in different
    directories may differ in parameters that do not define the work, such as the engine's.
    """

    claims: Sequence[Assertion | StatedValue]
    records: Mapping[str, RunRecord]
    places: Mapping[str, str] = field(default_factory=dict)

    @cached_property
    def finished(self) -> Mapping[tuple[str | None, str], list[RunRecord]]:
        """Finished runs of each point, by result directory and point id."""
        by_point: dict[tuple[str | None, str], list[RunRecord]] = {}
        for run_id, record in self.records.items():
            if record.status == "finished":
                key = (self.places.get(run_id), record.point_id)
                by_point.setdefault(key, []).append(record)
        return by_point


class AuditError(StorlabError):
    """A brief contradicts the runs that it was made from, so it is not written.

    ``findings`` are the contradictions.
    """

    exit_code = ExitCode.AUDIT

    def __init__(self, where: str, findings: Sequence[Finding]) -> None:
        self.findings = list(findings)
        first = self.findings[0]
        more = f" (and {len(findings) - 1} more)" if len(findings) > 1 else ""
        super().__init__(
            where,
            f"the audit stopped the brief{more}: {first.why} The brief states: {first.printed}. "
            f"From the runs {', '.join(first.rows[:6])}: {first.recomputed}",
            "report this with the result directory, which was not changed: storlab has a "
            "defect, or a run is damaged",
        )


def audit_brief(model: BriefClaims) -> list[Finding]:
    """Return all contradictions between the claims of a brief and the runs they name."""
    return [finding for claim in model.claims for finding in _audit(claim, model)]


def stop_on_error(where: str, findings: Sequence[Finding]) -> None:
    """Raise AuditError if any finding is an error."""
    errors = [finding for finding in findings if finding.severity == "error"]
    if errors:
        raise AuditError(where, errors)


def _audit(claim: Assertion | StatedValue, model: BriefClaims) -> Iterator[Finding]:
    records = model.records
    wrong_runs = list(_run_problems(claim, model))
    if wrong_runs:
        yield _finding(claim, "; ".join(wrong_runs), "A claim may use only "
                       "finished runs of the targets that it names, and these runs must do "
                       "the same work.")  # fmt: skip
        return
    metric, is_ratio = claim.quantity, isinstance(claim, Assertion)
    runs = [[records[run] for run in side] for _, side in claim.sides]
    if is_power(metric):
        sides = zip(runs, claim.boundaries, strict=True)
        values = [[summed(metric, side, boundary)] for side, boundary in sides]
    else:
        values = [[recompute(metric, record) for record in side] for side in runs]
    known = [[value for value in side if value is not None] for side in values]
    twice = [text for side in runs for record in side for text in _record_problems(claim, record)]
    if twice:
        yield _finding(claim, "; ".join(twice), "One run contradicts itself.")
    pairs = zip(known, values, strict=True)
    if any(len(k) != len(v) or (is_ratio and min(k) <= 0) for k, v in pairs):
        yield _finding(claim, f"some runs have no {metric}", "The claimed value was not measured "
                       "in every run that the claim names.")  # fmt: skip
        return
    estimates = [estimate(metric, r, v) for r, v in zip(runs, known, strict=True)]
    again = Interval(1.0, None, None, 1)
    if isinstance(claim, Assertion):
        again = ratio_interval(known[0], known[1], claim.decision.confidence)
        again = again.around(estimates[0] / estimates[1])
        again = again.scaled(claim.decision.share)
        yield from _ratio_findings(claim, again)
    yield from _number_findings(claim, estimates, again)
    yield from _context_findings(claim, runs, model)


def _run_problems(claim: Assertion | StatedValue, model: BriefClaims) -> Iterator[str]:
    records = model.records
    finished: list[RunRecord] = []
    for target, runs in claim.sides:
        names = {records[run].target for run in runs if run in records}
        if len(names) > 1:
            yield f"the runs of {target} are of {' and '.join(sorted(names))}"
        if not runs:
            yield f"no run of {target}"
        for run_id in runs:
            record = records.get(run_id)
            if record is None:
                yield f"run {run_id} does not exist"
            elif record.status != "finished":
                yield f"run {run_id} is {record.status}"
            else:
                finished.append(record)
    other = _of_other_work(finished, model.places)
    if other:
        yield f"runs {' and '.join(run.run_id for run in other)} did different work"
    if isinstance(claim, Assertion) and set.intersection(*map(set, claim.decision.runs)):
        yield "a run is counted on both sides of the ratio"


def _of_other_work(
    records: Sequence[RunRecord], places: Mapping[str, str]
) -> tuple[RunRecord, RunRecord] | None:
    """Return two runs that did different work, or None if all did the same.

    Runs of different directories are compared by the parameters that define the work, runs of one
    directory by all parameters.
    """
    own: dict[str | None, RunRecord] = {}
    for record in records:
        first, like = records[0], own.setdefault(places.get(record.run_id), record)
        compared = FAMILIES[first.kind].spec.compared
        if first.kind != record.kind or compared(first.params) != compared(record.params):
            return first, record
        if like.params != record.params:
            return like, record
    return None


def _ratio_findings(claim: Assertion, again: Interval) -> Iterator[Finding]:
    ratio, confidence = claim.decision.ratio, claim.decision.confidence
    if not math.isclose(ratio.estimate, again.estimate, rel_tol=RELATIVE_TOLERANCE):
        ratios = f"{significant(again.estimate, 6)}, not {significant(ratio.estimate, 6)}"
        yield _finding(claim, f"ratio {ratios}",
                       "The ratio does not follow from the runs.")  # fmt: skip
        return
    if is_power(claim.decision.quantity):
        return  # the interval includes the meter's uncertainty, which runs do not contain
    ends = zip((ratio.low, ratio.high), (again.low, again.high), strict=True)
    for printed, recomputed in ends:
        if (printed is None) != (recomputed is None) or (
            printed is not None and recomputed is not None and not _near(printed, recomputed)
        ):
            text, sure = f"{again.low} to {again.high}", significant(100 * confidence, 6)
            yield _finding(claim, f"{sure} % interval {text}",
                           "The interval does not follow from the runs.")  # fmt: skip
            return
    if claim.decision.decided and not again.excludes(1.0):
        yield _finding(claim, f"95 % interval {again.low} to {again.high}",
                       "The interval includes 1, so the difference may be noise.")  # fmt: skip


def _near(first: float, other: float) -> bool:
    if math.isinf(first) or math.isinf(other):
        return first == other
    return math.isclose(first, other, rel_tol=RELATIVE_TOLERANCE, abs_tol=1e-12)


def _number_findings(
    claim: Assertion | StatedValue, estimates: Sequence[float], again: Interval
) -> Iterator[Finding]:
    """Yield a finding for each number of a claim that differs from its value in the runs.

    A number that is missing from the claim's sentence is a finding as well.

    Args:
        claim: Claim of a brief, with its numbers.
        estimates: Mean of each target, recomputed from the runs.
        again: Ratio of the targets with its interval, recomputed from the runs.
    """
    mean, base = estimates[0], estimates[-1]
    ratio, ends = again.estimate, again
    if isinstance(claim, Assertion) and is_power(claim.quantity):
        ends = claim.decision.ratio  # includes the meter's uncertainty, which runs do not contain
    for number in claim.numbers:
        factor = _UNITS.get(number.unit, 1.0)
        truth, text = {
            "value": (mean / factor, number.unit),
            "baseline": (base / factor, number.unit),
            "multiple": (ratio, "times"),
            "inverse": (1 / ratio, "times"),
            "least more": (ends.low or 0.0, "times at least"),
            "least less": (1 / (ends.high or math.inf), "times at least"),
        }[number.kind]
        # Units that are not in _UNITS get a tolerance: the value here is a mean over runs, but that
        # in the brief may be a ratio of sums.
        slack = 1e-6 if not number.unit or number.unit in _UNITS else RELATIVE_TOLERANCE
        is_printed = number.text in number.words and number.words in claim.statement
        least = number.kind in ("least more", "least less")
        holds = _bounds if least else _rounds_to
        if not is_printed or not holds(number, truth, slack):
            recomputed = f"{significant(truth, 5)} {text}, not {number.text}"
            yield _finding(claim, recomputed, _WRONG[number.kind])


def _rounds_to(number: ClaimNumber, truth: float, slack: float) -> bool:
    """Return whether the recomputed value is rounded to the printed number."""
    # The step may not exceed the recomputed value: a larger step would accept any number.
    half = 0.5 * max(_last_digit(number), min(number.step, abs(truth)))
    return abs(_printed(number) - truth) <= half * (1 + 1e-6) + slack * abs(truth)


def _bounds(number: ClaimNumber, truth: float, slack: float) -> bool:
    """Return whether the printed number is the recomputed lower bound, rounded down."""
    over = _printed(number) - truth
    return -_last_digit(number) * (1 + 1e-6) <= over + slack * abs(truth) and over <= slack * truth


def _printed(number: ClaimNumber) -> float:
    return float(number.text.replace(",", ""))


def _last_digit(number: ClaimNumber) -> float:
    """Return the place value of the last printed digit."""
    return float(f"1e-{len(number.text.partition('.')[2])}")


def _context_findings(
    claim: Assertion | StatedValue, runs: list[list[RunRecord]], model: BriefClaims
) -> Iterator[Finding]:
    """Yield a finding for each caveat that is missing from a claim.

    Caveats are flags of the runs, different concurrency, and different power boundaries.
    """
    metric = claim.quantity
    flags = {flag.kind for side in runs for record in side for flag in record.flags}
    flags |= {DRIFT for side in runs if _drifts(side[0], model)}
    beside = (
        meaning.kind
        for meaning in flag_meanings().values()
        if meaning.claims and metric.startswith(meaning.about or "")
    )
    missing = [kind for kind in beside if kind in flags - claim.beside]
    if missing:
        yield _finding(claim, f"runs flagged {', '.join(missing)}",
                       "The claim omits a warning that its runs have.")  # fmt: skip
    if isinstance(claim, StatedValue):
        return
    if metric.startswith(("latency", "ttfb", "intended")) and not claim.caveat:
        implied = [mean_outstanding(side) for side in runs]
        first, other = implied
        if first and other and max(first, other) / min(first, other) > CONCURRENCY_TOLERANCE:
            both = f"{significant(first, 3)} against {significant(other, 3)}"
            yield _finding(claim, f"effective concurrency {both}",
                           "The latencies were taken at different effective concurrency, and the "
                           "claim does not say so.")  # fmt: skip
    bounds = claim.boundaries
    unequal = None not in bounds and bounds[0] != bounds[1]
    if is_power(metric) and unequal and "unequal-boundaries" not in claim.beside:
        yield _finding(claim, f"boundary {bounds[0]} against {bounds[1]}",
                       "Power was measured at unequal boundaries, and the claim does not say "
                       "so.")  # fmt: skip


def _drifts(one: RunRecord, model: BriefClaims) -> bool:
    """Return whether the values of a run's point drift over its repeats."""
    repeats = [
        Repeat(
            record.run_id,
            record.started_at,
            {f"{m.name}.{m.operation}": m.value for m in record.metrics if m.boundary is None},
        )
        for record in model.finished[model.places.get(one.run_id), one.point_id]
    ]
    return bool(drifts_of(repeats, FAMILIES[one.kind].page))


def is_power(metric: str) -> bool:
    """Return whether a metric is derived from watts or joules, and so has a power boundary."""
    name = metric.partition(".")[0]
    return name.startswith(("power", "energy", "efficiency", "idle_power", "span_energy")) or (
        name in RATES_PER_WATT or name in PER_WATT
    )


def mean_outstanding(records: Sequence[RunRecord]) -> float | None:
    """Return the mean operations in flight by Little's law: operations x mean latency / window.

    None if no run recorded latencies.
    """
    outstanding = []
    for record in records:
        work = page_of(record.kind).operations.main
        totals = [t for op, t in record.totals.items() if op in work and t.latency is not None]
        window_ns = record.window_end_ns - record.window_start_ns
        if totals and window_ns > 0:
            waited = sum(t.operations * t.latency.mean_ns for t in totals if t.latency)
            outstanding.append(waited / window_ns)
    return sum(outstanding) / len(outstanding) if outstanding else None


def recompute(metric: str, record: RunRecord) -> float | None:
    """Return a metric in SI base units, recomputed from the run's counters if possible.

    Other metrics are returned as recorded, converted to SI base units.

    Args:
        metric: Column key such as ``latency_mean_ns.read``.
        record: The run.

    Returns:
        The value in B/s, 1/s, s or B/J, or None if the run has no such value.
    """
    name, _, operation = metric.partition(".")
    quantity = counted_quantity(name, record)
    if quantity is not None:
        return fixed_work(quantity, operation, record)
    page = page_of(record.kind)
    chosen = _chosen(record, operation)
    if page.operations.over_spans:
        time_ns = sum(s.end_ns - s.start_ns for s in record.spans if s.kind in chosen)
    else:
        time_ns = record.window_end_ns - record.window_start_ns
    time_s = time_ns / NS_PER_S
    if name == "throughput_mb_s" and chosen and time_s > 0:
        return sum(t.bytes for op, t in chosen.items() if op in page.operations.moved) / time_s
    if name == page.operations.rate.name and chosen and time_s > 0:
        counted = (operation,) if operation in page.operations.auxiliary else page.operations.main
        return sum(t.operations for op, t in chosen.items() if op in counted) / time_s
    recorded = record.metric(name, operation or "all")
    if recorded is None:
        return None
    if name.endswith("_ns"):
        return recorded / NS_PER_S
    return recorded * MB if name.endswith("_mb_s") else recorded


def summed(metric: str, records: Sequence[RunRecord], boundary: str | None) -> float | None:
    """Return a power metric of several runs in SI base units, from sums over the runs.

    None if a run has no energy at the boundary, or if the metric is not a power metric.
    """
    joules = [_energy_j(record, boundary) for record in records]
    energy_j = sum(joule for joule in joules if joule is not None)
    if not records or None in joules or energy_j <= 0:
        return None
    if metric.startswith("span_energy"):
        return mean_span_energy_j(metric.partition(".")[2], records, boundary)
    name = metric.partition(".")[0]
    if name in PER_WATT:
        return _mean_per_watt(PER_WATT[name], records, boundary)
    moved, operations, window_s = 0.0, 0.0, 0.0
    for record in records:
        page = page_of(record.kind)
        moved += sum(t.bytes for op, t in record.totals.items() if op in page.operations.moved)
        done = (t.operations for op, t in record.totals.items() if op in page.operations.main)
        operations += sum(done)
        window_s += (record.window_end_ns - record.window_start_ns) / NS_PER_S
    known = {
        "efficiency_mb_s_w": moved / energy_j,
        "efficiency_tb_kwh": moved / energy_j * 3.6e6,
        **dict.fromkeys(RATES_PER_WATT, operations / energy_j),
        "power_w": energy_j / window_s if window_s > 0 else None,
        **dict.fromkeys(("energy_j", "energy_wh"), energy_j / len(records)),
    }
    return known.get(name)


def _mean_per_watt(metric: str, records: Sequence[RunRecord], boundary: str | None) -> float | None:
    """Return the mean over runs of a metric divided by the run's mean power."""
    quotients = []
    for record in records:
        value, energy_j = recompute(f"{metric}.all", record), _energy_j(record, boundary)
        if value is None or not energy_j:
            return None
        window_s = (record.window_end_ns - record.window_start_ns) / NS_PER_S
        quotients.append(value * window_s / energy_j)
    return sum(quotients) / len(quotients)


def _energy_j(record: RunRecord, boundary: str | None) -> float | None:
    energies = (
        metric.value
        for metric in record.metrics
        if metric.name == "energy_j" and boundary in (None, metric.boundary)
    )
    return next(energies, None)


def _record_problems(claim: Assertion | StatedValue, record: RunRecord) -> Iterator[str]:
    """Yield a problem if a run's recorded mean latency differs from that of the engine's totals."""
    name, _, operation = claim.quantity.partition(".")
    totals = _chosen(record, operation).get(operation)
    if totals is None:
        return
    summary = {"latency_mean_ns": totals.latency, "ttfb_mean_ns": totals.ttfb}.get(name)
    if summary is None:
        return
    recorded = record.metric(name, operation)
    counted = summary.mean_ns
    if recorded is not None and abs(recorded - counted) > LATENCY_TOLERANCE * counted:
        yield (
            f"run {record.run_id} recorded a mean {operation} {name.split('_')[0]} of "
            f"{significant(recorded, 4)} ns, and its engine counted {significant(counted, 4)} ns"
        )


def _chosen(record: RunRecord, operation: str) -> dict[str, OperationTotals]:
    return {
        str(op): totals for op, totals in record.totals.items() if operation in ("", "all", str(op))
    }


def _finding(claim: Assertion | StatedValue, recomputed: str, why: str) -> Finding:
    rows = [run for _, side in claim.sides for run in side]
    return Finding(
        rule=RULE,
        severity="error",
        rows=rows,
        printed=claim.statement,
        recomputed=recomputed,
        why=why,
    )
