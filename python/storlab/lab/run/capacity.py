"""Capacity search: a campaign whose plan grows with the results of earlier runs.

The search finds how many accelerators a target can supply with data. Each number that is tried is a
point of the plan, so its runs are stored, resumed and read like those of any campaign. The caller
decides from the stored runs what to try next, so an interrupted search continues where it stopped.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from storlab.analysis.capacity import Case, Try
from storlab.base.errors import ResultError, UsageError
from storlab.base.files import replace_file
from storlab.base.nearest import suggest
from storlab.contracts.registry import FAMILIES
from storlab.contracts.reporter import Reporter
from storlab.lab.plan.clients import point_problems
from storlab.lab.plan.plan import make_plan, memory_problem, plan_of
from storlab.lab.preflight.preflight import refuse_errors
from storlab.lab.run.campaign import Campaign
from storlab.lab.run.session import (
    check_feasible,
    checks_of,
    clients_of,
    guard_of,
    places_of,
    refuse_other_hosts,
    warn,
)
from storlab.lab.study.file import LoadedStudy
from storlab.model.point import Plan, PlannedRun, Point
from storlab.model.result import RunRecord
from storlab.process.execution import StopRequest
from storlab.results.environment import describe_environment
from storlab.results.files import is_vacant
from storlab.results.store import ResultStore

_LARGEST = 4_096  # largest value of the searched parameter


@dataclass(slots=True)
class SearchSession:
    """Result of one session of a capacity search."""

    store: ResultStore
    interrupted: bool = False
    failed: list[RunRecord] = field(default_factory=list)  # records of this session
    removed: list[str] = field(default_factory=list)


def capacity_cases(
    loaded: LoadedStudy, target: str | None = None, most: int | None = None
) -> list[Case]:
    """Return the capacity searches of a study: one per target and workload with accelerators.

    On a cluster, there is a separate search for each number of clients.

    Args:
        loaded: Study with its text.
        target: Name of the only target to search on; None for all.
        most: Largest number of accelerators to try; None for no limit.

    Raises:
        UsageError: No search is left, or a workload cannot run with the smallest number.
        StudyError: The study is invalid; see ``make_plan``.
    """
    names = [target.name for target in loaded.study.target]
    if target is not None and target not in names:
        raise UsageError("--target", f'"{target}" is not in the study', suggest(target, names))
    cases: dict[str, Case] = {}
    for point in make_plan(loaded, searched=True).points.values():
        if FAMILIES[point.kind].page.search and target in (None, point.target):
            fewest = Case(point, 1, None).first
            if fewest.point_id not in cases:
                cases[fewest.point_id] = _case(loaded, fewest, most)
    if not cases:
        searched = {k: w.page.search for k, w in FAMILIES.items() if w.page.search}
        kinds, words = sorted(searched), sorted({search.parameter for search in searched.values()})
        where = "the study" if target is None else f'target "{target}"'
        fix = f"add a workload of kind {' or '.join(kinds)}" if kinds else "reinstall storlab"
        raise UsageError(
            str(loaded.path), f"{where} has no workload with {' or '.join(words)}", fix
        )
    return list(cases.values())


def _case(loaded: LoadedStudy, point: Point, most: int | None) -> Case:
    target, case = loaded.study.target_named(point.target), Case(point, 1, None)
    undivided = [(p.field, p.what, p.fix) for p in point_problems([point])]
    if undivided:
        raise loaded.errors(undivided)

    def refusal(number: int) -> str | None:
        tried = case.with_number(number)
        problems = FAMILIES[point.kind].check(tried.params, target)
        problem = problems[0] if problems else memory_problem(loaded.study, tried)
        return None if problem is None else problem.text

    fewest = case.smallest
    first = refusal(fewest)
    if first is not None:
        words = f"one {case.search.noun}" if fewest == 1 else f"{fewest} {case.search.parameter}"
        raise UsageError(
            f"workload {point.workload} on {point.target}",
            f"cannot run with {words}: {first}",
            "correct the workload",
        )
    if most is not None and most < fewest:
        raise UsageError(
            "--max",
            f"{most} is less than one {case.search.noun} for each of {fewest} clients",
            f"use at least {fewest}, or fewer clients",
        )
    wanted = min(most or _LARGEST, _LARGEST)
    if refusal(wanted) is None:
        return Case(point, wanted, None if most else f"no more than {_LARGEST:,} are tried")
    low, high = fewest, wanted  # the workload can run with low accelerators, but not with high
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if refusal(middle) is None else (low, middle)
    return Case(point, low, refusal(high))


def search(
    loaded: LoadedStudy,
    directory: Path,
    next_tries: Callable[[ResultStore | None], Sequence[Try]],
    *,
    reporter: Callable[[], Reporter],
    stop: StopRequest,
) -> SearchSession:
    """Execute a capacity search: run what ``next_tries`` returns, until it returns nothing.

    Args:
        loaded: Study with its text.
        directory: New result directory, or that of a search of this study, which is continued.
        next_tries: Function that decides from the stored results (None if there are none) which
            numbers of accelerators to try next. Its first call is before anything is written.
        reporter: Function that creates the reporter of progress.
        stop: Stop request to watch.

    Raises:
        ResultError: The directory contains results of another study. Other errors are those of
            ``run_study``.
    """
    store = open_search(loaded, directory)
    plan = _grown(loaded, store.plan if store else None, next_tries(store))
    recorded = store.environment["guard"] if store else None
    base = Path(recorded["working_directory"]) if recorded else Path.cwd()
    clients = clients_of(loaded.study, base)
    if store is not None and clients is not None:
        refuse_other_hosts(store, clients)
    with guard_of(loaded.study, plan, base=base, recorded=recorded) as guard:
        todo, resumed = _missing(plan, store), store is not None
        checks, facts = checks_of(loaded.study, plan, todo, guard, clients, resumed=resumed)
        refuse_errors(checks)
        if store is None:
            environment = describe_environment(loaded.study, base)
            environment |= {"guard": guard.record(), "capacity": True}
            if clients is not None:
                environment["cluster"] = facts
            store = ResultStore.create(directory, loaded.text, loaded.study, plan, environment)
        session = SearchSession(store)
        with store.campaign_lock(), reporter() as progress:
            warn(progress, checks)
            places = places_of(clients, store, guard, stop, progress)
            campaign = Campaign(store, guard, progress, stop, **places)
            _rounds(loaded, plan, session, campaign, next_tries)
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
        if loaded.study.cluster is None:  # otherwise each client checks itself
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
    """Open the results of a capacity search; return None if the directory is empty or missing.

    Raises:
        ResultError: The directory contains anything other than a search of this study.
    """
    if is_vacant(directory):
        return None
    store = ResultStore.open(directory)
    if not store.environment.get("capacity") or store.study_text != loaded.text:
        raise ResultError(
            str(directory),
            "does not contain a capacity search of this study",
            "name another directory with --out",
        )
    store.check()
    return store


def _missing(plan: Plan, store: ResultStore | None) -> list[PlannedRun]:
    done = {record.run_id for record in store.records()} if store else set()
    return [run for run in plan.runs if run.run_id not in done]


def _grown(loaded: LoadedStudy, plan: Plan | None, tries: Sequence[Try]) -> Plan:
    """Return a plan extended by the runs of tries, each a point with a number of accelerators.

    The repeat is the outermost loop; which try goes first rotates from repeat to repeat.
    """
    points = dict(plan.points) if plan else {}
    runs = list(plan.runs) if plan else []
    known = {run.run_id for run in runs}
    for repeat in range(1, max((trial.runs for trial in tries), default=0) + 1):
        turn = repeat % max(1, len(tries))
        for trial in [*tries[turn:], *tries[:turn]]:
            run = PlannedRun(order=len(runs), repeat=repeat, point_id=trial.point.point_id)
            if repeat <= trial.runs and run.run_id not in known:
                points[run.point_id] = trial.point
                runs.append(run)
    return plan_of(loaded, list(points.values()), runs)


def write_capacity(store: ResultStore, document: dict[str, Any]) -> None:
    """Write ``capacity.json`` into the result directory atomically. Raises ResultError."""
    content = json.dumps(document, indent=2, ensure_ascii=False, allow_nan=False) + "\n"
    with store.storing("capacity.json cannot be stored"):
        replace_file(store.directory / "capacity.json", content.encode())
