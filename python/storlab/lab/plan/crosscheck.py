"""Plan of a crosscheck, which runs the same points with two engines in turn to compare them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from storlab.analysis.offered_load import maxima_first, with_maxima
from storlab.base.errors import UsageError
from storlab.base.units import parse_size
from storlab.contracts.registry import ENGINES, FAMILIES, get_engine
from storlab.model.point import Plan, PlannedRun, Point


def reference_of(plan: Plan, wanted: Sequence[str] = ()) -> str:
    """Return the default reference engine: the first one besides native that runs these points.

    Args:
        plan: Plan with the points.
        wanted: Selection of points, see :func:`chosen`; empty for all.

    Raises:
        UsageError: The points are of several kinds that no single engine runs, or no other engine
            runs them.
    """
    kinds = sorted({point.kind for point in _checkable(chosen(_engineless(plan), wanted))})
    engines = {
        kind: next((name for name in _others() if kind in get_engine(name).kinds), None)
        for kind in kinds
    }
    references = sorted({name for name in engines.values() if name is not None})
    if len(references) == 1 and None not in engines.values():
        return references[0]
    if not references:
        raise UsageError(
            "--reference",
            f"has no default: no other engine runs {' and '.join(kinds)} workloads",
            "crosscheck a study of workloads that another engine runs: "
            f"{', '.join(sorted({k for name in _others() for k in get_engine(name).kinds}))}",
        )
    raise UsageError(
        "--reference",
        f"has no default: no engine runs {' and '.join(kinds)} workloads together",
        f"check one family at a time: --reference {' or --reference '.join(references)}",
    )


def _checkable(points: Iterable[Point]) -> list[Point]:
    """Return the points that only measure a target, so that two engines should agree on them.

    In other workloads, such as preprocessing, the engines themselves are compared.

    Raises:
        UsageError: All points have workloads that compare engines.
    """
    every = list(points)
    measured = {
        p.kind: compared.parameter
        for p in every
        if (compared := FAMILIES[p.kind].page.implementations)
    }
    checkable = [point for point in every if point.kind not in measured]
    if not checkable:
        kinds, names = (" and ".join(sorted(set(words))) for words in (measured, measured.values()))
        raise UsageError(
            "crosscheck",
            f"{kinds} workloads measure the engines themselves, so no engine is a reference",
            f"compare engines in the brief of a study that lists them in {names}",
        )
    return checkable


def _others() -> list[str]:
    return [name for name in list(ENGINES) if name != "native"]


def crosscheck_plan(
    plan: Plan, reference: str, repeats: int = 5, wanted: Sequence[str] = ()
) -> Plan:
    """Return a plan that runs each point with the native engine and then with a reference engine.

    Which engine goes first alternates between points and between repeats (order ABBA), so that a
    drift of the machine affects both engines alike. Points with a load level bring the point in
    closed loop that finds their maximum; both engines take their rates from its native runs.

    Args:
        plan: Plan of the study.
        reference: Name of the reference engine.
        repeats: Runs of each point and engine, at least 2.
        wanted: Selection of points, see :func:`chosen`; empty for all. Points of a kind that
            the reference engine cannot run are left out.

    Raises:
        UsageError: No point is left, ``reference`` is ``native``, or ``repeats`` is below 2.
        EngineError: There is no engine of the name ``reference``.
    """
    if reference == "native":
        others = " or ".join(f"--reference {name}" for name in _others())
        raise UsageError("--reference", "native cannot be checked against itself", f"use {others}")
    if repeats < 2:
        what = f"is {repeats}, but a confidence interval needs at least 2"
        raise UsageError("--repeats", what, "use 3 or more")
    kinds = get_engine(reference).kinds
    engineless = _engineless(plan)
    every = with_maxima(list(chosen(engineless, wanted)), engineless)
    points = [point for point in _checkable(every) if point.kind in kinds]
    if not points:
        raise UsageError(
            f"--reference {reference}",
            f"runs only {' and '.join(kinds)} workloads, but these points are of another kind",
            "remove --reference, or name another engine",
        )
    notes = [f"crosscheck: every point is run by native and by {reference}"]
    if len(points) < len(every):
        left = len(every) - len(points)
        notes.append(f"crosscheck: {left} points that {reference} cannot run are left out")
    pairs = [tuple(_by(point, engine) for engine in ("native", reference)) for point in points]
    runs: list[PlannedRun] = []
    for repeat in range(1, repeats + 1):
        for place, pair in enumerate(pairs):
            turned = pair if (repeat + place) % 2 else pair[::-1]
            for point in turned:
                runs.append(PlannedRun(order=len(runs), repeat=repeat, point_id=point.point_id))
    share = len(runs) / max(1, len(plan.runs))
    both = {point.point_id: point for pair in pairs for point in pair}
    return plan.model_copy(
        update={
            "points": both,
            "runs": maxima_first(runs, both),
            "rounds": None,
            "estimated_ns": round(plan.estimated_ns * share),
            "estimated_ns_by_target": {
                name: round(value * share) for name, value in plan.estimated_ns_by_target.items()
            },
            "notes": [*plan.notes, *notes],
        }
    )


def _engineless(plan: Plan) -> list[Point]:
    """Return one point for each group of a plan's points that differ only in the engine."""
    engineless: dict[str, Point] = {}
    for run in plan.runs:
        point = plan.points[run.point_id]
        engineless.setdefault(_by(point, "native").point_id, point)
    return list(engineless.values())


def _by(point: Point, engine: str) -> Point:
    return point.model_copy(update={"engine": engine})


def chosen(points: Sequence[Point], wanted: Sequence[str]) -> Iterable[Point]:
    """Return the points that match any of the selections; all of them if there is no selection.

    Args:
        points: Points of a study.
        wanted: Selections, each the beginning of a point's id, or terms such as
            ``target=disk,jobs=4,block_size=256KiB`` that must all hold.

    Raises:
        UsageError: A selection matches no point.
    """
    if not wanted:
        return points
    kept: dict[str, Point] = {}
    for wish in wanted:
        matching = [point for point in points if wish and _matches(point, wish)]
        if not matching:
            targets = ", ".join(dict.fromkeys(point.target for point in points))
            raise UsageError(
                f'--point "{wish}"',
                f"matches no point of the study, which has {len(points)}",
                "use terms such as jobs=4,block_size=256KiB, or a point id, such as "
                f"{points[0].point_id}; the targets are {targets}",
            )
        kept |= {point.point_id: point for point in matching}
    return [point for point in points if point.point_id in kept]


def _matches(point: Point, wish: str) -> bool:
    if "=" not in wish:
        ids = [_by(point, engine).point_id for engine in (point.engine, "native")]
        return any(point_id.startswith(wish) for point_id in ids)
    wanted: dict[str, Any] = {"target": point.target, "workload": point.workload, **point.params}
    if point.clients is not None:
        wanted["clients"] = point.clients
    return terms_hold(wanted, wish)


def terms_hold(values: Mapping[str, Any], terms: str) -> bool:
    """Return whether all terms, such as ``jobs=4,block_size=256KiB``, hold for a point's values."""
    for term in terms.split(","):
        name, _, value = (part.strip() for part in term.partition("="))
        if name not in values or not _same(values[name], value):
            return False
    return True


def _same(value: Any, text: str) -> bool:
    if str(value).lower() == text.lower():
        return True
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return False
    try:
        return float(text) == value
    except ValueError:
        pass
    try:
        return parse_size(text) == value
    except ValueError:
        return False
