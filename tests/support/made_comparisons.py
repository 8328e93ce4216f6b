"""Comparisons of synthetic runs without a directory: the real comparison code, but fast."""

from __future__ import annotations

import random
import tomllib
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

from integration.brief.brief_fixture import _record
from storlab.analysis.compare import Comparison, compare
from storlab.analysis.dataset import Dataset, RunData, TargetColumn
from storlab.analysis.points import WorkloadPoint
from storlab.analysis.verdict import verdicts
from storlab.audit.from_claims import Assertion
from storlab.brief.key_findings import assertions, key_findings
from storlab.contracts.registry import study_class
from storlab.model.decision import Better, Decision, Interval, outcome_of
from storlab.model.point import PlannedRun, Point
from storlab.model.study import StudyBase
from storlab.results.store import ResultStore
from storlab.words.answers import sentences

STUDY = """
[study]
name = "made up"
{header}
{targets}
[[workload]]
kind = "block"
access = "random"
block_size = {sizes}
read_percent = {mixes}
jobs = {jobs}
"""
Draw = Callable[[str, WorkloadPoint], Mapping[str, float]]
"""Function from target and point to the values of one run, by column key."""


def study_of(
    targets: Sequence[str],
    *,
    header: str = "",
    facts: Mapping[str, str] | None = None,
    sizes: Sequence[str] = ("4KiB", "4MiB"),
    mixes: Sequence[int] = (0, 30, 70, 100),
    jobs: Sequence[int] = (1,),
) -> StudyBase:
    tables = "".join(
        f'[[target]]\nname = "{name}"\npath = "/tmp/{place}.dat"\nsize = "1GiB"\n'
        f"{(facts or {}).get(name, '')}\n"
        for place, name in enumerate(targets)
    )
    text = STUDY.format(
        header=header, targets=tables, sizes=list(sizes), mixes=list(mixes), jobs=list(jobs)
    )
    return study_class().model_validate(tomllib.loads(text.replace("'", '"')))


def comparison_of(study: StudyBase, draw: Draw, repeats: int = 3) -> Comparison:
    """Return the comparison of ``repeats`` runs of every point with drawn values."""
    return filled(dataset_of(study, repeats), draw)


def filled(data: Dataset, draw: Draw) -> Comparison:
    """Return the comparison of these runs with new values; earlier comparisons change as well."""
    work = {point.key: point for point in data.points}
    for (key, target), runs in data.runs.items():
        for run in runs:
            run._values = dict(draw(target, work[key]))
    return compare(data)


def dataset_of(study: StudyBase, repeats: int = 3) -> Dataset:
    """Return every run of a study, without values."""
    store = cast(ResultStore, SimpleNamespace(study=study, directory=Path("/made-up")))
    names = [target.name for target in study.target]
    columns = [TargetColumn(target.name, target, store) for target in study.target]
    data = Dataset([store], columns, study.baseline, [], {}, {}, {})
    for params in study.workload[0].values():
        for name in names:
            point = _point(study, name, params)
            work = WorkloadPoint.of(point)
            if name == names[0]:
                data.points.append(work)
            place = (work.key, name)
            data.planned[place], data.point_ids[place] = repeats, point.point_id
            data.runs[place] = [
                RunData(_run(point, repeat), name, store) for repeat in range(1, repeats + 1)
            ]
    return data


def _point(study: StudyBase, target: str, params: dict[str, Any]) -> Point:
    workload = study.workload[0]
    return Point(
        target=target,
        workload=workload.label,
        workload_index=0,
        kind=workload.kind,
        engine="native",
        params=params,
    )


def _run(point: Point, repeat: int) -> Any:
    return _record(point, PlannedRun(order=repeat, repeat=repeat, point_id=point.point_id))


def noisy(draw: random.Random, means: Mapping[str, float], noise: float) -> Draw:
    """Return a function that draws throughput around the mean of each target."""

    def values(target: str, point: WorkloadPoint) -> Mapping[str, float]:
        del point
        return {"throughput_mb_s.all": means[target] * draw.lognormvariate(0, noise)}

    return values


def findings_of(comparison: Comparison) -> dict[str, Assertion]:
    """Return the first key finding about each quantity, by column key."""
    findings: dict[str, Assertion] = {}
    for row in assertions(key_findings(comparison)):
        findings.setdefault(row.quantity, row)
    return findings


def told(comparison: Comparison) -> dict[str, list[str]]:
    """Return the sentences of the verdicts by question."""
    return {
        verdict.question: [text.replace("\u00a0", " ") for text in sentences(verdict)]
        for verdict in verdicts(comparison)
    }


def decided(
    interval: Interval,
    sides: tuple[str, str] = ("A", "B"),
    quantity: str = "throughput_mb_s.all",
    better: Better = "more",
    **fields: Any,
) -> Decision:
    """Return the decision that an interval of a ratio gives."""
    return Decision(
        quantity=quantity,
        better=better,
        sides=sides,
        interval=interval,
        outcome=outcome_of(interval, 1.0, better),
        **fields,
    )


def width(interval: Interval) -> float:
    """Return the width of an interval relative to its estimate."""
    assert interval.low is not None
    assert interval.high is not None
    return (interval.high - interval.low) / interval.estimate
