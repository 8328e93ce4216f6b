"""Comparison of two engines, native and a reference such as fio, at the points that both ran.

Each metric is compared by the ratio native / reference with its log-Welch-t interval. The workload
family's page sets the margin m: 5 % for rates, means and medians, 10 % for p99. The zone of
equivalence is [1 / (1 + m), 1 + m]. The verdict on a metric is

- ``differ``: the ratio lies outside the zone, and its interval excludes 1 at the
  Bonferroni-corrected confidence of all comparisons, so that many points do not produce a chance
  finding;
- ``agree``: the ratio lies inside the zone, and its 95 % interval does not extend beyond the zone
  on both sides;
- ``inconclusive``: all other cases: too few or too noisy repeats.

``agree`` means that the repeats show no difference beyond the margin. ``equivalent`` is the
stronger claim that the whole interval lies inside the zone.

A point agrees if none of its metrics differs and more than half of them agree. The study agrees if
every point agrees; anything less is inconclusive, which does not count as agreement.

CPU per operation, errors and effective concurrency are reported but never judged.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import Any, Literal

from pydantic import computed_field

from storlab.analysis.groups import points_and_groups, records_by_group
from storlab.analysis.points import CLIENTS, WorkloadPoint, describe, page_of
from storlab.analysis.repeats import repeats_to_decide
from storlab.analysis.stats import CONFIDENCE, ratio_interval
from storlab.base.errors import ResultError
from storlab.base.units import significant
from storlab.contracts.page import Page
from storlab.model.decision import Decision, Outcome, equivalence, outcome_of
from storlab.model.point import Point
from storlab.model.result import RunRecord
from storlab.results.store import ResultStore

Verdict = Literal["agree", "differ", "inconclusive", "reported"]


class MetricAgreement(Decision):
    """Comparison of native and reference engine in one metric at one point, as native / reference.

    The outcomes "better" and "worse" only mean that the native value is larger or smaller.
    """

    unit: str
    native: float
    """Mean of the native engine."""
    reference: float
    """Mean of the reference engine."""
    margin: float | None
    """Allowed relative difference; None if the metric is not judged."""
    needed: int | None = None
    """Repeats per engine needed for a verdict; None if there is one, or if no number suffices."""

    @property
    def name(self) -> str:
        """Name of the metric, without the operation."""
        return self.quantity.partition(".")[0]

    @property
    def operation(self) -> str:
        """Kind of operation that the metric measures, or "all"."""
        return self.quantity.partition(".")[2]

    @computed_field  # type: ignore[prop-decorator]
    @property
    def verdict(self) -> Verdict:
        """Verdict on the metric; ``reported`` if no margin is set to judge it by."""
        if self.margin is None:
            return "reported"
        verdicts: dict[Outcome, Verdict] = {
            "better": "differ", "worse": "differ", "equivalent": "agree",
        }  # fmt: skip
        return verdicts.get(self.outcome, "inconclusive")

    @property
    def outside(self) -> bool:
        """Whether the ratio differs from 1 by more than the margin."""
        ratio = self.ratio.estimate
        return self.margin is not None and abs(math.log(ratio)) > math.log1p(self.margin)

    @computed_field  # type: ignore[prop-decorator]
    @property
    def equivalent(self) -> bool | None:
        """Whether the ratio's whole interval lies within the margin (two one-sided tests).

        None if the metric is not judged or has no interval.
        """
        low, high = self.ratio.low, self.ratio.high
        if self.margin is None or low is None or high is None:
            return None
        return low >= 1 / (1 + self.margin) and high <= 1 + self.margin


@dataclass(frozen=True, slots=True)
class PointAgreement:
    """Comparison of native and reference engine at one point that both ran."""

    target: str
    workload: str
    where: str  # parameters of the point in words
    params: Mapping[str, Any]
    native_point: str
    reference_point: str
    metrics: list[MetricAgreement]
    failed: list[str]  # ids of failed runs of either engine
    notes: list[str]

    @property
    def verdict(self) -> Verdict:
        """Verdict over the judged metrics.

        ``differ`` if any metric differs; ``agree`` if none differs and more than half agree;
        otherwise ``inconclusive``.
        """
        judged = [m.verdict for m in self.metrics if m.margin is not None]
        if "differ" in judged:
            return "differ"
        return "agree" if 2 * judged.count("agree") > len(judged) else "inconclusive"

    @property
    def needed(self) -> int | None:
        """Number of repeats per engine with which the verdict would not be ``inconclusive``.

        A single metric that differs suffices for ``differ``; for ``agree``, more than half of the
        metrics must agree. None if the verdict is not ``inconclusive``, or if no number of repeats
        suffices.
        """
        judged = [m for m in self.metrics if m.margin is not None]
        if self.verdict != "inconclusive" or not judged:
            return None
        left = [(m.needed, m.outside) for m in judged if m.verdict == "inconclusive"]
        known = sorted((number, outside) for number, outside in left if number is not None)
        wanting = len(judged) // 2 + 1 - sum(m.verdict == "agree" for m in judged)
        enough = [number for number, _ in known[wanting - 1 : wanting]]
        return min([*enough, *(number for number, outside in known if outside)], default=None)

    def as_dict(self) -> dict[str, Any]:
        """Return the fields as plain values for JSON."""
        return {
            "target": self.target,
            "workload": self.workload,
            "params": dict(self.params),
            "native_point": self.native_point,
            "reference_point": self.reference_point,
            "verdict": self.verdict,
            "repeats_to_decide": self.needed,
            "metrics": [metric.model_dump() for metric in self.metrics],
            "failed_runs": self.failed,
            "notes": self.notes,
        }


@dataclass(frozen=True, slots=True)
class Agreement:
    """Comparison of the native engine with a reference engine over all points that both ran."""

    reference: str
    points: list[PointAgreement]
    confidence: float
    family_confidence: float

    @property
    def agree(self) -> bool:
        """Whether every point agrees; False may also mean inconclusive (see ``verdict``)."""
        return self.verdict == "agree"

    @property
    def verdict(self) -> Verdict:
        """``differ`` if any point differs, ``agree`` if all agree, otherwise ``inconclusive``."""
        verdicts = {point.verdict for point in self.points}
        if "differ" in verdicts:
            return "differ"
        return "agree" if verdicts == {"agree"} else "inconclusive"

    @property
    def repeats(self) -> int:
        """Largest number of repeats that any metric is computed from."""
        return max((m.ratio.n for point in self.points for m in point.metrics), default=0)

    @property
    def too_few(self) -> bool:
        """Whether some point lacks two finished runs per engine, so that its spread is unknown."""
        return any(
            all(m.ratio.n < 2 for m in point.metrics if m.margin is not None)
            for point in self.points
        )

    @property
    def needed(self) -> int | None:
        """Repeats per engine that would leave no point inconclusive; None if no number would."""
        left = [point.needed for point in self.points if point.verdict == "inconclusive"]
        known = [number for number in left if number is not None]
        return max(known) if known and len(known) == len(left) else None

    def counts(self) -> dict[str, int]:
        """Return how many metrics were judged, had each verdict, and were shown equivalent."""
        judged = [m for point in self.points for m in point.metrics if m.margin is not None]
        statistics = {
            name: sum(m.verdict == name for m in judged)
            for name in ("agree", "differ", "inconclusive")
        }
        return {
            "judged": len(judged),
            **statistics,
            "equivalent": sum(bool(m.equivalent) for m in judged),
        }

    def as_dict(self) -> dict[str, Any]:
        """Return the fields as plain values for JSON, with ``agree`` first."""
        return {
            "agree": self.agree,
            "verdict": self.verdict,
            "counts": self.counts(),
            "repeats_to_decide": self.needed if self.verdict == "inconclusive" else None,
            "reference": self.reference,
            "confidence": self.confidence,
            "family_confidence": self.family_confidence,
            "points": [point.as_dict() for point in self.points],
        }


def agreement(store: ResultStore, reference: str = "fio") -> Agreement:
    """Compare the native engine with ``reference`` at the points that both ran.

    Raises:
        ResultError: No point was run by both engines.
    """
    points = points_and_groups(store.plan)
    pairs = list(_pairs(points, reference))
    if not pairs:
        raise ResultError(
            str(store.directory),
            f"has no point that both native and {reference} ran",
            "run `storlab crosscheck STUDY` to measure the same points with both engines",
        )
    records: dict[str, list[RunRecord]] = {}
    for record in store.records():
        for part in records_by_group(record, points[record.point_id]).values():
            records.setdefault(part.point_id, []).append(part)
    sides = [_sides(pair, records) for pair in pairs]
    margins = [page_of(points[native].kind).metrics.margins for native, _ in pairs]
    judged = sum(
        margin[name] is not None
        for margin, side in zip(margins, sides, strict=True)
        for name, _, _ in side
    )
    family_confidence = 1 - (1 - CONFIDENCE) / max(1, judged)
    return Agreement(
        reference=reference,
        points=[
            _point(points, pair, side, records, family_confidence)
            for pair, side in zip(pairs, sides, strict=True)
        ],
        confidence=CONFIDENCE,
        family_confidence=family_confidence,
    )


_Key = tuple[str, str, str]  # name, operation, unit
_Sides = dict[_Key, tuple[list[float], list[float]]]  # native, reference


def _pairs(points: Mapping[str, Point], reference: str) -> Iterable[tuple[str, str]]:
    """Yield the ids (native, reference) of points that differ only in their engine."""
    by_engine: dict[str, dict[str, str]] = {"native": {}, reference: {}}
    for point_id, point in points.items():
        if point.engine in by_engine:
            same = point.model_copy(update={"engine": ""}).point_id
            by_engine[point.engine][same] = point_id
    for same, native in by_engine["native"].items():
        if same in by_engine[reference]:
            yield native, by_engine[reference][same]


def _finished(records: Sequence[RunRecord]) -> list[RunRecord]:
    return [record for record in records if record.status == "finished"]


def _sides(pair: tuple[str, str], records: Mapping[str, list[RunRecord]]) -> _Sides:
    """Return the values of both engines by metric, for metrics whose values are all positive."""
    native, reference = (_values(_finished(records.get(point_id, []))) for point_id in pair)
    sides: _Sides = {}
    for key, values in native.items():
        others = reference.get(key, [])
        if values and others and min(*values, *others) > 0:
            sides[key] = (values, others)
    return sides


def _values(records: Sequence[RunRecord]) -> dict[_Key, list[float]]:
    values: dict[_Key, list[float]] = {}
    if not records:
        return values
    page = page_of(records[0].kind)  # all records are of one point
    for name in page.metrics.margins:
        kinds = _operations(name, page)
        for record in records:
            for metric in record.metrics:
                if metric.name == name and metric.operation in kinds:
                    key = (name, metric.operation, metric.unit)
                    values.setdefault(key, []).append(metric.value)
    return values


def _operations(name: str, page: Page) -> tuple[str, ...]:
    """Return the kinds of operation (read, write, ...) for which a metric is compared.

    In a mixed workload, latencies are compared per kind, because merged latencies would hide which
    kind differs.
    """
    if name.startswith(("latency_", "ttfb_")):
        return page.operations.main
    if name == "throughput_mb_s" and page.operations.by_operation:
        return ("all", *page.operations.moved)
    return ("all",)


def _where(point: Point, points: Iterable[Point]) -> str:
    """Describe a point by its swept parameters, and always by size, mix and concurrency."""
    page = page_of(point.kind)
    same = [WorkloadPoint.of(p).params for p in points if p.workload == point.workload]
    always = {
        page.parameters.facet,
        page.parameters.mix,
        *page.parameters.axes,
        *page.text.stated,
        CLIENTS,
    }
    own = WorkloadPoint.of(point).params
    names = [
        name
        for name, value in own.items()
        if value is not None
        and (name in always or any(params.get(name) != value for params in same))
    ]
    return describe(page, own, names)


def _point(
    points: Mapping[str, Point],
    pair: tuple[str, str],
    sides: _Sides,
    records: Mapping[str, list[RunRecord]],
    family_confidence: float,
) -> PointAgreement:
    point = points[pair[0]]
    runs = [record for point_id in pair for record in records.get(point_id, [])]
    margins = page_of(point.kind).metrics.margins
    engines = point.engine, points[pair[1]].engine
    metrics = [
        _metric(engines, key, *values, margins[key[0]], family_confidence)
        for key, values in sides.items()
    ]
    return PointAgreement(
        target=point.target,
        workload=point.workload,
        where=_where(point, points.values()),
        params=WorkloadPoint.of(point).params,
        native_point=pair[0],
        reference_point=pair[1],
        metrics=metrics,
        failed=[record.run_id for record in runs if record.status == "failed"],
        notes=[*_concurrency_note(metrics), *_engine_notes(runs)],
    )


def _metric(
    engines: tuple[str, str],
    key: _Key,
    native: list[float],
    reference: list[float],
    margin: float | None,
    family_confidence: float,
) -> MetricAgreement:
    name, operation, unit = key
    interval, family = (
        ratio_interval(native, reference, confidence).around(fmean(native) / fmean(reference))
        for confidence in (CONFIDENCE, family_confidence)
    )
    needed = None
    if margin is None:
        outcome = outcome_of(interval, 1.0, "")
    else:
        outcome = equivalence(interval, family, margin)
        if outcome in ("within noise", "too noisy"):
            needed = repeats_to_decide(native, reference, margin, CONFIDENCE, family_confidence)
    return MetricAgreement(
        quantity=f"{name}.{operation}",
        sides=engines,
        outcome=outcome,
        interval=interval,
        unit=unit,
        native=fmean(native),
        reference=fmean(reference),
        margin=margin,
        needed=needed,
    )


def _concurrency_note(metrics: Sequence[MetricAgreement]) -> list[str]:
    for metric in metrics:
        if metric.name == "concurrency_effective" and abs(metric.ratio.estimate - 1) > 0.10:
            return [
                f"effective concurrency differs: {significant(metric.native, 3)} native, "
                f"{significant(metric.reference, 3)} reference; latencies are not taken under "
                "the same load"
            ]
    return []


def _engine_notes(records: Sequence[RunRecord]) -> list[str]:
    return list(dict.fromkeys(note for record in records for note in record.notes))
