"""Merging of result directories: match points that did the same work, and list differences.

Names of workloads and engines, and parameters that only say which program does the work, are
ignored if the match is unambiguous. Imported results can thus be compared with new ones.
Differences are stated once rather than next to every number.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from storlab.analysis.environments import FactPath, differing, facts_by_path
from storlab.analysis.groups import points_and_groups
from storlab.analysis.points import WorkloadPoint, format_value, title_of
from storlab.base.units import format_duration
from storlab.contracts.registry import FAMILIES
from storlab.model.point import Point
from storlab.model.result import RunRecord
from storlab.results.store import ResultStore

Place = tuple[int, str]
"""Id of a store, and of a point within that store."""

MOST_NAMED = 8  # differing environment facts listed by name; further ones are only counted


@dataclass(slots=True)
class Work:
    """Workload point of each planned point, and its id, made unique over all directories."""

    points: dict[Place, WorkloadPoint] = field(default_factory=dict)
    ids: dict[Place, str] = field(default_factory=dict)

    def record(self, store: ResultStore, record: RunRecord) -> RunRecord:
        """Return the record with point and run ids that are unique over all directories."""
        own = self.ids[id(store), record.point_id]
        if own == record.point_id:
            return record
        run_id = own + record.run_id.removeprefix(record.point_id)
        return record.model_copy(update={"point_id": own, "run_id": run_id})


def work_of(stores: Sequence[ResultStore]) -> Work:
    """Assign a workload point and a unique id to every point of the result directories.

    With a single directory, ids and workload points are those of its plan.
    """
    work = Work()
    every = {id(store): points_and_groups(store.plan) for store in stores}
    for number, store in enumerate(stores, 1):
        others = [every[id(other)] for other in stores if other is not store]
        for point_id, point in every[id(store)].items():
            place = (id(store), point_id)
            shared = any(point_id in other for other in others)
            whole = store.plan.points[point_id.partition(".")[0]]
            part_of = "" if whole is point else whole.workload
            work.points[place] = replace(WorkloadPoint.of(point), part_of=part_of)
            work.ids[place] = f"{point_id}-{number}" if shared else point_id
    if len(stores) > 1:
        _unify(every, work.points)
    return work


def _unify(plans: Mapping[int, Mapping[str, Point]], points: dict[Place, WorkloadPoint]) -> None:
    """Replace the workload points of the same work in several directories by a common one.

    A match is ambiguous if one directory did the work twice on a target. A second pass then
    compares all parameters of such points, not only those that define the work.
    """
    rest = [*points]
    for told in (_work_alone, _with_asides):
        same: dict[str, list[Place]] = {}
        for place in rest:
            same.setdefault(told(points[place]), []).append(place)
        united = [places for places in same.values() if _belong_together(places, plans, points)]
        for places in united:
            engines = list(dict.fromkeys(points[place].engine for place in places))
            first = points[places[0]]
            for place in places:
                points[place] = replace(first, engine=" and ".join(engines))
        rest = [place for place in rest if not any(place in places for places in united)]


def _work_alone(work: WorkloadPoint) -> str:
    return _text([work.kind, FAMILIES[work.kind].spec.compared(work.params)])


def _with_asides(work: WorkloadPoint) -> str:
    return _text([work.kind, dict(work.params)])


def _text(parts: list[Any]) -> str:
    return json.dumps(parts, sort_keys=True, default=str)


def _belong_together(
    places: Sequence[Place],
    plans: Mapping[int, Mapping[str, Point]],
    points: Mapping[Place, WorkloadPoint],
) -> bool:
    """Return whether points match unambiguously.

    They do if several directories have them, each with one set of parameters and once per target.
    """
    cells = Counter((store, plans[store][point].target) for store, point in places)
    own: dict[int, set[str]] = {}
    for place in places:
        own.setdefault(place[0], set()).add(_with_asides(points[place]))
    once = max(cells.values()) == 1 and all(len(ways) == 1 for ways in own.values())
    return len(own) > 1 and once


def differences(stores: Sequence[ResultStore], names: Sequence[str]) -> list[str]:
    """Describe the differences between result directories in sentences.

    Args:
        stores: Result directories; a single one has no differences.
        names: Display names of the directories.
    """
    if len(stores) < 2:
        return []
    sentences = [
        f"These are {len(stores)} campaigns whose runs were not interleaved: a difference between "
        "them may come from the time, the machine or the set-up.",
        _differing("Measured", stores, names, _dates),
        _differing("Engine", stores, names, _engines),
        _differing("Measure window", stores, names, _windows),
        _differing("Repeats", stores, names, _repeats),
        *_asides(stores, names),
        *_environments(stores, names),
    ]
    return [sentence for sentence in sentences if sentence]


def _differing(
    subject: str,
    stores: Sequence[ResultStore],
    names: Sequence[str],
    told: Callable[[ResultStore], str],
) -> str:
    """Return ``Engine: native 0.9 in new, fio 3.33 in old.`` or the like; empty if all agree."""
    values = [told(store) for store in stores]
    if len(set(values)) == 1 or not any(values):
        return ""
    return f"{subject}: {_by_place(values, names)}."


def _by_place(values: Sequence[str], names: Sequence[str]) -> str:
    """List each value with the names of the directories that have it."""
    where: dict[str, list[str]] = {}
    for value, name in zip(values, names, strict=True):
        where.setdefault(value or "unknown", []).append(name)
    return ", ".join(f"{value} in {' and '.join(on)}" for value, on in where.items())


def _dates(store: ResultStore) -> str:
    days = sorted({record.started_at[:10] for record in store.records() if record.started_at})
    return " to ".join(dict.fromkeys((days[0], days[-1]))) if days else ""


def _engines(store: ResultStore) -> str:
    engines = (record.engine for record in store.records())
    return " and ".join(sorted({f"{engine.name} {engine.version}".strip() for engine in engines}))


def _repeats(store: ResultStore) -> str:
    """Return the number of repeats from the plan: the study of imported results lacks it."""
    return str(max((run.repeat for run in store.plan.runs), default=0))


def _windows(store: ResultStore) -> str:
    """Return the runs' window lengths: the study of imported results has only the first file's."""
    kinds = {point.kind for point in store.plan.points.values()}
    if all(FAMILIES[kind].fixed_work for kind in kinds):
        return "the whole of fixed work"
    lengths = {
        round((record.window_end_ns - record.window_start_ns) / 1e8) * 10**8
        for record in store.records()
        if record.status == "finished"
    }
    return " to ".join(format_duration(length) for length in dict.fromkeys(_ends(lengths)))


def _asides(stores: Sequence[ResultStore], names: Sequence[str]) -> list[str]:
    """Describe differing parameters that do not change the work, such as the I/O backend."""
    sentences = []
    for kind in dict.fromkeys(p.kind for store in stores for p in store.plan.points.values()):
        spec, page = FAMILIES[kind].spec, FAMILIES[kind].page
        for name in sorted(spec.non_work_parameters - spec.matched):
            told = {
                place: " and ".join(values)
                for place, store in zip(names, stores, strict=True)
                if (values := _values_of(store, kind, name))
            }
            if len(set(told.values())) > 1:
                title = title_of(page, name)
                clause = _by_place([*told.values()], [*told])
                sentences.append(f"{title[:1].upper()}{title[1:]}: {clause}.")
    return sentences


def _values_of(store: ResultStore, kind: str, name: str) -> list[str]:
    points = [p for p in store.plan.points.values() if p.kind == kind and name in p.params]
    texts = (format_value(FAMILIES[kind].page, name, point.params[name]) for point in points)
    return [*dict.fromkeys(texts)]


def _ends(values: Iterable[int]) -> list[int]:
    ordered = sorted(values)
    return [ordered[0], ordered[-1]] if ordered else []


_HIDDEN = ("schema_version", "recorded_at", "guard", "targets", "engines", "cluster")


def _environments(stores: Sequence[ResultStore], names: Sequence[str]) -> list[str]:
    """Describe the machine facts that differ; imported results have none."""
    imported = [n for n, s in zip(names, stores, strict=True) if "imported" in s.environment]
    sentences = []
    if imported:
        sentences.append(
            f"Host, kernel and drives of {' and '.join(imported)} are unknown, because "
            f"{'it was' if len(imported) == 1 else 'they were'} imported."
        )
    known = [s for s in stores if "imported" not in s.environment]
    places = [n for n in names if n not in imported]
    facts = [_told_facts(s.environment) for s in known]
    keys = differing(facts)
    sentences += [
        f"{_words(key)}: {_by_place([str(fact.get(key, '')) for fact in facts], places)}."
        for key in keys[:MOST_NAMED]
    ]
    if len(keys) > MOST_NAMED:
        rest = len(keys) - MOST_NAMED
        sentences.append(f"{rest} more facts of the machines differ; see the configuration.")
    return sentences


def _told_facts(environment: Mapping[str, Any]) -> dict[FactPath, Any]:
    return {
        path: value
        for path, value in facts_by_path(environment).items()
        if path[0] not in _HIDDEN and value is not None and not isinstance(value, list)
    }


def _words(path: FactPath) -> str:
    """Return a path as words, such as ``CPU model``."""
    words = " ".join(path).replace("_", " ").replace("cpu", "CPU")
    return words[:1].upper() + words[1:]
