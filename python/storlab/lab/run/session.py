"""Sessions of a campaign: starting a new campaign, or resuming an interrupted one.

The order matters: first the guard is entered, for all targets at once; then preflight and all other
checks are made; only after that is anything written.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from pathlib import Path
from typing import Any

from storlab.analysis.offered_load import at_rate, level_of
from storlab.base.errors import EngineError, GuardError, ResultError, StorlabError
from storlab.contracts.check import Check
from storlab.contracts.family import Access
from storlab.contracts.registry import get_engine
from storlab.contracts.reporter import Reporter
from storlab.lab.guard.guard import Guard
from storlab.lab.plan.home_space import HomeNeed, home_need
from storlab.lab.plan.jobs import make_job
from storlab.lab.preflight.clients import check_arguments, check_clients
from storlab.lab.preflight.preflight import check_study, refuse_errors
from storlab.lab.prepare import dataset
from storlab.lab.run.campaign import Campaign, Summary, left_behind
from storlab.lab.run.reach import ClientsReach
from storlab.lab.site.client_view import plan_of_targets
from storlab.lab.site.clients import Clients
from storlab.lab.site.clients_site import ClientsSite, ClusterGuard
from storlab.lab.study.file import LoadedStudy
from storlab.lab.study.logo import logo_checks
from storlab.model.point import Plan, PlannedRun, Point
from storlab.model.s3 import grant
from storlab.model.study import StudyBase, Target
from storlab.process.execution import StopRequest
from storlab.results.environment import describe_environment
from storlab.results.files import is_vacant, occupied
from storlab.results.store import ResultStore

ASSUMED_RATE_S = 1e6
"""Rate of load levels in operations per second, to check jobs before the maximum is known."""


def run_study(
    loaded: LoadedStudy,
    plan: Plan,
    directory: Path,
    *,
    plan_hash: str | None,
    reporter: Callable[[], Reporter],
    stop: StopRequest,
    clean: bool = False,
    warnings: Sequence[Check] = (),
) -> tuple[ResultStore, Summary]:
    """Execute a study into a new result directory.

    Args:
        loaded: Study with its text.
        plan: Plan of the study.
        directory: Result directory, missing or empty.
        plan_hash: Hash of the plan that the user reviewed, as consent to overwrite devices; or
            None.
        reporter: Function that creates the reporter of progress.
        stop: Stop request to watch.
        clean: Whether to remove data even if runs are missing at the end.
        warnings: Further checks to report, such as those of the study's questions.

    Raises:
        GuardError: A target is refused; nothing is written.
        PreflightError: A check failed; nothing is written.
        EngineError: An engine cannot execute the plan; nothing is written.
        ResultError: The directory is not empty, or results cannot be stored.
    """
    if not is_vacant(directory):
        raise occupied(directory)
    clients = clients_of(loaded.study, Path.cwd())
    with guard_of(loaded.study, plan, plan_hash=plan_hash) as guard:
        checks, facts = checks_of(loaded.study, plan, plan.runs, guard, clients)
        checks = [*checks, *logo_checks(loaded, Path.cwd()), *warnings]
        refuse_errors(checks)
        environment = describe_environment(loaded.study, Path.cwd())
        folder = str(loaded.path.parent.absolute())
        environment["guard"] = {**guard.record(), "study_directory": folder}
        if clients is not None:
            environment["cluster"] = facts
        store = ResultStore.create(directory, loaded.text, loaded.study, plan, environment)
        with store.campaign_lock(), reporter() as told:
            warn(told, checks)
            places = places_of(clients, store, guard, stop, told)
            return store, Campaign(store, guard, told, stop, **places).execute(clean=clean)


def resume_study(
    store: ResultStore,
    *,
    retry_failed: bool,
    reporter: Callable[[], Reporter],
    stop: StopRequest,
    clean: bool = False,
) -> Summary:
    """Execute the missing runs of a campaign, on the same devices and with the same consent.

    Raises:
        ResultError: Another process executes the campaign, or the results were not created by
            ``storlab run``. Other errors are those of :func:`run_study`.
    """
    recorded: Mapping[str, Any] | None = store.environment.get("guard")
    if recorded is None:
        raise ResultError(
            str(store.directory),
            "was not created by `storlab run`, so there is nothing to resume",
            "start a campaign with `storlab run STUDY`",
        )
    base = Path(recorded["working_directory"])
    with store.campaign_lock():
        todo = store.missing(retry_failed)
        clients = clients_of(store.study, base)
        if clients is not None:
            refuse_other_hosts(store, clients)
        with guard_again(store, base, recorded) as guard:
            checks: Sequence[Check] = []
            if todo or clients is not None:  # otherwise there is no load to check for
                left = [run.run_id for run in left_behind(store, todo)]
                checks, _ = checks_of(
                    store.study, store.plan, todo, guard, clients, resumed=True, left=left
                )
            refuse_errors(checks)
            with reporter() as told:
                warn(told, checks)
                places = places_of(clients, store, guard, stop, told)
                campaign = Campaign(store, guard, told, stop, **places)
                return campaign.execute(retry_failed=retry_failed, clean=clean)


def refuse_other_hosts(store: ResultStore, clients: Clients) -> None:
    """Check that a resumed campaign has the same hosts as when it began.

    The list of hosts may come from a file or from Slurm and may have changed. Runs on other clients
    would not be repeats of the stored runs, and each client has its own data.

    Raises:
        ResultError: The hosts differ.
    """
    before = set(store.environment.get("cluster") or {})
    now = {place.name for place in clients.places(clients.most)}
    if not before or before == now:
        return
    changes = [
        f"{word} {', '.join(sorted(names)[:5])}"
        for word, names in (("without", before - now), ("with", now - before))
        if names
    ]
    raise ResultError(
        str(store.directory),
        f"the cluster has other hosts than when the campaign began: {' and '.join(changes)}",
        "use the same hosts (hostfile, or the allocation of Slurm), or start a new campaign with "
        "`storlab run`",
    )


def guard_of(study: StudyBase, plan: Plan, **settings: Any) -> Guard:
    """Return a new guard: for this machine's targets, or for the controller of a cluster."""
    return (Guard if study.cluster is None else ClusterGuard)(study, plan, **settings)


def guard_again(store: ResultStore, base: Path, recorded: Mapping[str, Any]) -> Guard:
    """Return a guard for a campaign that was started before, from the record of its guard."""
    return guard_of(
        store.study,
        store.plan,
        plan_hash=recorded["plan_hash_given"],
        base=base,
        recorded=recorded,
    )


def clients_of(study: StudyBase, base: Path) -> Clients | None:
    """Return the clients of a study's cluster; None if this machine generates the load."""
    return None if study.cluster is None else Clients.of(study.cluster, base)


def places_of(
    clients: Clients | None, store: ResultStore, guard: Guard, stop: StopRequest, told: Reporter
) -> dict[str, Any]:
    """Return the arguments ``site`` and ``reach`` of ``Campaign``; an empty dict without cluster.

    They make the campaign generate its load on the clients.
    """
    if clients is None:
        return {}

    def question(target: Target) -> dict[str, Any]:
        hold = guard.stores.get(target.name)
        granted = {} if hold is None else {target.name: grant(hold.access)}
        own = plan_of_targets(store.plan, {target.name})
        asked = check_arguments(store.study, own, guard.base, guard.campaign)
        return {**asked, "granted": granted, "direct": [], "engines": []}

    work = store.directory / "work"
    return {
        "site": ClientsSite(clients, store, guard, stop, told),
        "reach": ClientsReach(clients, guard, question, work, lambda: stop.pause(0)),
    }


def checks_of(
    study: StudyBase,
    plan: Plan,
    runs: Sequence[PlannedRun],
    guard: Guard,
    clients: Clients | None,
    *,
    resumed: bool = False,
    left: Collection[str] = (),
) -> tuple[Sequence[Check], dict[str, Any]]:
    """Run the preflight checks, on this machine or on clients.

    Args:
        study: Study to check.
        plan: Plan of the study.
        runs: Runs to execute.
        guard: Guard, already entered.
        clients: Clients of the cluster; None if this machine generates the load.
        resumed: Whether the campaign has run before.
        left: Ids of interrupted runs, whose remaining files count as free space.

    Returns:
        The checks, and the facts of each client by its name.
    """
    if clients is None:
        check_feasible(study, plan, runs, guard.access, left)
        return check_study(study, plan, guard.base, guard.stores, left), {}
    return check_clients(
        study,
        plan,
        clients,
        guard.base,
        campaign=guard.campaign,
        resumed=resumed,
        stores=guard.stores,
    )


def rehearse(study: StudyBase, plan: Plan, base: Path) -> Check:
    """Check whether the guard and the engines would accept a plan if the user consents to it.

    Nothing is written. Devices to which the study writes are opened exclusively for a moment.
    """
    try:
        settings: dict[str, Any] = {"plan_hash": plan.plan_hash, "base": base, "look_only": True}
        with guard_of(study, plan, **settings) as guard:
            if study.cluster is None:
                check_feasible(study, plan, plan.runs, guard.access)
    except StorlabError as error:
        return Check(
            name="guard" if isinstance(error, GuardError) else "run",
            status="error",
            what=f"{error.where}: {error.what}",
            fix=error.fix,
        )
    return Check(name="guard", status="ok", what="accepts all targets")


def warn(reporter: Reporter, checks: Sequence[Check]) -> None:
    """Report the warnings of the preflight checks in the progress output."""
    for check in checks:
        if check.status == "warning":
            reporter.note(f"warning: {check.name}: {check.what}")


def check_feasible(
    study: StudyBase,
    plan: Plan,
    runs: Sequence[PlannedRun],
    access: Mapping[str, Access],
    left: Collection[str] = (),
) -> None:
    """Check that each engine can execute its points, and that data sets fit; write nothing.

    Args:
        study: Study to check.
        plan: Plan of the study.
        runs: Runs to execute.
        access: Files, devices and stores that the guard granted, by target.
        left: Ids of interrupted runs, whose remaining files count as free space.

    Raises:
        EngineError: An engine is missing, or refuses a job.
        PreflightError: A file system has too little space for data sets.
    """
    for name in sorted({plan.points[run.point_id].engine for run in runs}):
        get_engine(name).describe()  # raises if the engine is missing
    first = {run.point_id: run for run in reversed(runs)}
    for point_id, run in first.items():
        point = plan.points[point_id]
        engine = get_engine(point.engine)
        if point.kind not in engine.kinds:
            raise EngineError(
                f"engine {engine.name}",
                f"cannot run {point.kind} workloads",
                f"set another engine for workload {point.workload}",
            )
        try:
            driven = point if level_of(point) is None else at_rate(point, ASSUMED_RATE_S)
            job = make_job(study, driven, run, access[point.target], Path.cwd())
        except ValueError as error:
            where = f"workload {point.workload} on {point.target}"
            raise EngineError(where, str(error), "correct the study") from error
        why = engine.refuse(job)
        if why is not None:
            raise EngineError(
                f"engine {engine.name}",
                f"cannot run {point.workload} on {point.target}: {why}",
                "change the workload, or set another engine for it",
            )
    used = {plan.points[run.point_id].target for run in runs}
    dataset.check_space(
        [m for name in sorted(used) for m in access[name].members],
        _home_needs(study, [plan.points[point_id] for point_id in first], access, left),
    )


def _home_needs(
    study: StudyBase,
    points: Sequence[Point],
    access: Mapping[str, Access],
    left: Collection[str],
) -> dict[Path, list[HomeNeed]]:
    needs: dict[Path, list[HomeNeed]] = {}
    for target in study.target:
        own = [point for point in points if point.target == target.name]
        home = access[target.name].home if own else None
        if home is not None:
            # Relative paths in the study are relative to where the campaign was started, which may
            # not be the current directory.
            granted = target.model_copy(update={"directory": str(home.parent)})
            needs.setdefault(home, []).append(home_need(own, study.study, granted, left))
    return needs
