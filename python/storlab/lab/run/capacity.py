"""A campaign whose plan grows: the next numbers of accelerators depend on what the last ones gave.

Every number that is tried is a point of the plan, so that its runs are stored, can be resumed and
are read like those of any campaign. What to try next is decided on the floor above, from the stored
runs alone: an interrupted search goes on where it was.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from storlab.base.errors import ResultError, UsageError
from storlab.base.files import replace_file
from storlab.base.nearest import suggest
from storlab.contracts.registry import FAMILIES
from storlab.contracts.reporter import Reporter
from storlab.lab.guard.guard import Guard
from storlab.lab.plan.plan import make_plan, plan_of
from storlab.lab.preflight.preflight import check_study, refuse_errors
from storlab.lab.results.environment import describe_environment
from storlab.lab.results.store import ResultStore
from storlab.lab.run.campaign import Campaign
from storlab.lab.run.session import check_feasible
from storlab.lab.study.file import LoadedStudy
from storlab.model.point import Plan, PlannedRun, Point
from storlab.model.result import RunRecord
from storlab.model.study import StudyBase
from storlab.process.execution import StopRequest

PARAMETER = "accelerators"
_LARGEST = 4_096  # accelerators that a search asks for


@dataclass(frozen=True, slots=True)
class Case:
    """One search: a workload on a target, every parameter fixed but the accelerators."""

    point: Point  # with one accelerator
    largest: int  # that may be tried
    limit: str | None  # why no more than that, where it is not the user's wish

    def with_accelerators(self, number: int) -> Point:
        """The point that has so many."""
        params = {**self.point.params, PARAMETER: number}
        return self.point.model_copy(update={"params": params})


@dataclass(frozen=True, slots=True)
class Try:
    """A point, and how many runs of it there should be."""

    point: Point
    runs: int


@dataclass(slots=True)
class SearchSession:
    """How a session of a search ended."""

    store: ResultStore
    interrupted: bool = False
    failed: list[RunRecord] = field(default_factory=list)  # of this session
    removed: list[str] = field(default_factory=list)


def capacity_cases(
    loaded: LoadedStudy, target: str | None = None, most: int | None = None
) -> list[Case]:
    """Every search that a study asks for: its workloads with accelerators on their targets.

    ``target`` narrows them to one, ``most`` bounds the accelerators. Raises UsageError where none
    is left or a workload does not run with one accelerator, StudyError as ``make_plan``.
    """
    names = [each.name for each in loaded.study.target]
    if target is not None and target not in names:
        raise UsageError("--target", f'"{target}" is not in the study', suggest(target, names))
    found: dict[str, Case] = {}
    for point in make_plan(loaded).points.values():
        if PARAMETER in point.params and target in (None, point.target):
            one = point.model_copy(update={"params": {**point.params, PARAMETER: 1}})
            found.setdefault(one.point_id, _case(loaded.study, one, most))
    if not found:
        kinds = sorted(k for k, w in FAMILIES.items() if PARAMETER in w.spec.model_fields)
        where = "the study" if target is None else f'target "{target}"'
        fix = f"add a workload of kind {' or '.join(kinds)}" if kinds else "install storlab whole"
        raise UsageError("STUDY", f"{where} has no workload with accelerators", fix)
    return list(found.values())


def _case(study: StudyBase, one: Point, most: int | None) -> Case:
    target = study.target_named(one.target)

    def refusal(number: int) -> str | None:
        params = {**one.params, PARAMETER: number}
        problems = FAMILIES[one.kind].check(params, target)
        return problems[0].text if problems else None

    first = refusal(1)
    if first is not None:
        raise UsageError(
            f"workload {one.workload} on {one.target}",
            f"does not run with one accelerator: {first}",
            "correct the workload",
        )
    wanted = min(most or _LARGEST, _LARGEST)
    if refusal(wanted) is None:
        return Case(one, wanted, None if most else f"no more than {_LARGEST:,} are tried")
    low, high = 1, wanted  # the workload runs with low accelerators, and not with high
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if refusal(middle) is None else (low, middle)
    return Case(one, low, refusal(high))


def search(
    loaded: LoadedStudy,
    directory: Path,
    next_tries: Callable[[ResultStore | None], Sequence[Try]],
    *,
    reporter: Callable[[], Reporter],
    stop: StopRequest,
) -> SearchSession:
    """Run what ``next_tries`` asks for, and ask it again, until it asks for nothing.

    It is given the result directory, None before there is one, and first asked before anything is
    written. A directory of the same study is gone on with. Raises as ``run_study``, and ResultError
    for a directory of another study.
    """
    store = open_search(loaded, directory)
    plan = _grown(loaded, store.plan if store else None, next_tries(store))
    recorded = store.environment["guard"] if store else None
    base = Path(recorded["working_directory"]) if recorded else Path.cwd()
    with Guard(loaded.study, plan, base=base, recorded=recorded) as guard:
        check_feasible(loaded.study, plan, _missing(plan, store), guard.access)
        checks = check_study(loaded.study, plan, base, guard.stores)
        refuse_errors(checks)
        if store is None:
            environment = describe_environment(loaded.study, base)
            environment |= {"guard": guard.record(), "capacity": True}
            store = ResultStore.create(directory, loaded.text, loaded.study, plan, environment)
        session = SearchSession(store)
        with store.campaign_lock(), reporter() as told:
            for check in checks:
                if check.status == "warning":
                    told.note(f"warning: {check.name}: {check.what}")
            _rounds(loaded, plan, session, Campaign(store, guard, told, stop), next_tries)
    return session


def _rounds(
    loaded: LoadedStudy,
    plan: Plan,
    session: SearchSession,
    campaign: Campaign,
    next_tries: Callable[[ResultStore | None], Sequence[Try]],
) -> None:
    store = session.store
    while True:
        check_feasible(loaded.study, plan, _missing(plan, store), campaign.guard.access)
        store.extend(plan)
        summary = campaign.execute(keep=True)
        session.failed += summary.failed
        if summary.interrupted or summary.missing:
            session.interrupted = True
            return
        tries = next_tries(store)
        if not tries:
            session.removed = campaign.clean_up()
            return
        plan = _grown(loaded, plan, tries)


def open_search(loaded: LoadedStudy, directory: Path) -> ResultStore | None:
    """The search that lies in a directory, None where that is empty or missing.

    Raises ResultError where it holds anything else than a search of this study.
    """
    if not directory.exists() or (directory.is_dir() and not any(directory.iterdir())):
        return None
    store = ResultStore.open(directory)
    if not store.environment.get("capacity") or store.study_text != loaded.text:
        raise ResultError(
            str(directory),
            "is not a capacity search of this study",
            "choose another directory with --out",
        )
    store.check()
    return store


def _missing(plan: Plan, store: ResultStore | None) -> list[PlannedRun]:
    done = {record.run_id for record in store.records()} if store else set()
    return [run for run in plan.runs if run.run_id not in done]


def _grown(loaded: LoadedStudy, plan: Plan | None, tries: Sequence[Try]) -> Plan:
    """The plan with these tries. Repeats are the outermost loop, and the cases take turns."""
    points = dict(plan.points) if plan else {}
    runs = list(plan.runs) if plan else []
    known = {run.run_id for run in runs}
    for repeat in range(1, max((each.runs for each in tries), default=0) + 1):
        turn = repeat % max(1, len(tries))
        for each in [*tries[turn:], *tries[:turn]]:
            run = PlannedRun(order=len(runs), repeat=repeat, point_id=each.point.point_id)
            if repeat <= each.runs and run.run_id not in known:
                points[run.point_id] = each.point
                runs.append(run)
    return plan_of(loaded, list(points.values()), runs)


def write_capacity(store: ResultStore, found: dict[str, Any]) -> None:
    """``capacity.json`` of the result directory, in one step."""
    content = json.dumps(found, indent=2, ensure_ascii=False, allow_nan=False) + "\n"
    replace_file(store.directory / "capacity.json", content.encode())
