"""Site for the clients of a cluster: each task is one mpiexec, apart from this process."""

from __future__ import annotations

import os
import shutil
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

from storlab.base.errors import ResultError
from storlab.base.units import NS_PER_S
from storlab.cluster.mpiexec import Launcher, Ranks, find_launcher
from storlab.cluster.places import client_counts, client_hosts, places
from storlab.cluster.session import Gathered, Session, program
from storlab.cluster.task import ClientPlace, Order, Task, input_file
from storlab.contracts.engine import Engine
from storlab.contracts.registry import FAMILIES
from storlab.contracts.reporter import Reporter
from storlab.lab.guard.guard import Guard
from storlab.lab.plan.jobs import run_context
from storlab.lab.prepare.dataset import PrepareError
from storlab.lab.prepare.precondition import precondition, target_slug
from storlab.lab.site.claim import WAITS
from storlab.lab.site.claim_arguments import away_ns, claim_of, claimed_directories
from storlab.lab.site.clean_store import clean_or_tell, clean_store
from storlab.lab.site.clients_run import ClientsRun
from storlab.lab.site.cross_client_verify import States, Written, handed_on, told
from storlab.lab.site.grants import grant
from storlab.lab.site.report import ClientReport
from storlab.lab.site.verification import merged
from storlab.model.cluster import Cluster
from storlab.model.point import Plan, PlannedRun, Point
from storlab.model.result import RunOutcome, VerifyReport
from storlab.model.study import StudyBase, Target
from storlab.process.execution import POLL_S, Interrupted, StopRequest, finish
from storlab.results.store import ResultStore
from storlab.stores.data_file import is_kernel_place
from storlab.stores.home import home_of

RANK = "storlab.lab.site.rank"
ASK_STORES_NS = 6 * NS_PER_S


@dataclass(frozen=True, slots=True)
class Clients:
    """Clients of a study, and the MPI launcher that starts them."""

    cluster: Cluster
    hosts: list[str]
    launcher: Launcher

    @classmethod
    def of(cls, cluster: Cluster, base: Path) -> Clients:
        """Find the hosts and the launcher of a cluster.

        Raises:
            StudyError: The list of hosts cannot be read.
            EngineError: There is no launcher.
        """
        kind = cluster.launcher
        return cls(cluster, client_hosts(cluster, base), find_launcher(cluster.mpiexec, kind))

    @property
    def most(self) -> int:
        """Return the largest number of clients that the study uses."""
        return max(client_counts(self.cluster, self.hosts))

    def places(self, count: int) -> list[ClientPlace]:
        """Return the first ``count`` clients."""
        return places(self.cluster, self.hosts, count)

    def begin(
        self,
        task: Task,
        count: int,
        directory: Path,
        arguments: dict[str, Any],
        inputs: Mapping[int, bytes] | None = None,
    ) -> tuple[Session, list[ClientPlace]]:
        """Start a task on the first ``count`` clients, as ``begin_on`` does."""
        chosen = self.places(count)
        return self.begin_on(task, chosen, directory, arguments, inputs), chosen

    def begin_on(
        self,
        task: Task,
        chosen: Sequence[ClientPlace],
        directory: Path,
        arguments: dict[str, Any],
        inputs: Mapping[int, bytes] | None = None,
    ) -> Session:
        """Start a task on given clients.

        Args:
            task: Name of the task.
            chosen: Clients with ranks 1, 2, ...
            directory: Directory to create for the task; an existing one is replaced.
            arguments: Arguments of the task.
            inputs: Content for single clients, by rank.

        Raises:
            ResultError: The directory cannot be written.
        """
        try:
            shutil.rmtree(directory, ignore_errors=True)
            directory.mkdir(parents=True)
            for rank, content in (inputs or {}).items():
                input_file(directory, rank).write_bytes(content)
        except OSError as error:
            what = f"what the clients are told cannot be written: {error.strerror}"
            raise ResultError(str(directory), what, "make room there") from error
        cluster = self.cluster
        order = Order(
            task=task,
            work_dir=str(directory),
            clients=list(chosen),
            lost_after_ns=cluster.lost_after,
            arm_within_ns=cluster.arm_within,
            nonce=os.urandom(6).hex(),
            arguments=arguments,
            facts_within_ns=ASK_STORES_NS if task == "check" and arguments.get("granted") else 0,
        )
        ranks = Ranks(
            hosts=self.hosts if cluster.is_local else [place.host for place in chosen],
            clients=len(chosen),
            mpi_args=cluster.mpi_args,
            agent=cluster.launch_agent,
            interface=cluster.interface,
        )
        words = [*program(cluster.python, RANK), task]
        return Session(self.launcher, ranks, words, order, directory)


@dataclass(frozen=True, slots=True)
class ClientTaskCall:
    """Cluster task without load on given clients."""

    task: Task
    where: str  # name of the target, for messages
    chosen: list[ClientPlace]
    arguments: dict[str, Any]
    inputs: Mapping[int, bytes] = field(default_factory=dict)

    def carry_out(
        self, clients: Clients, directory: Path, stop: StopRequest, reporter: Reporter | None
    ) -> list[ClientReport]:
        """Execute the task, in a directory that is removed afterwards.

        Args:
            clients: Clients of the cluster.
            directory: Working directory.
            stop: Stop request to watch.
            reporter: Receiver of progress, or None.

        Returns:
            Reports of the clients, in their order.

        Raises:
            PrepareError: A client failed; names it.
            Interrupted: A stop was requested.
        """
        session = clients.begin_on(self.task, self.chosen, directory, self.arguments, self.inputs)
        try:
            gathered = _await(session, stop, reporter)
        finally:
            session.end()
            shutil.rmtree(directory, ignore_errors=True)
        if stop.requested:
            raise Interrupted
        if gathered.failure is not None:
            raise PrepareError(self.where, gathered.failure)
        reports = [ClientReport.unpack(gathered.outcomes[place.rank]) for place in self.chosen]
        for place, report in zip(self.chosen, reports, strict=True):
            if report.failure is not None:
                message = f"{place.name}: {report.failure.message}"
                failure = report.failure.model_copy(update={"message": message})
                raise PrepareError(self.where, failure)
            for note in report.notes:
                if reporter is not None:
                    reporter.note(f"{place.name}: {note}")
        return reports


def _await(session: Session, stop: StopRequest, reporter: Reporter | None) -> Gathered:
    shown = ""
    while (gathered := session.wait(POLL_S)) is None:
        if stop.requested:
            session.stop()
        live = session.live()["clients"].values()
        waits = next((c["text"] for c in live if c.get("text", "").startswith(WAITS)), "")
        if waits != shown and reporter is not None:
            shown = waits
            reporter.note(waits)
        done, total = (sum(c.get(key) or 0.0 for c in live) for key in ("done", "total"))
        if total and reporter is not None:
            reporter.step_progress(done / len(live), None)
    return gathered


def read_again(
    clients: Clients,
    written: Sequence[Written],
    target: str,
    arguments: dict[str, Any],
    directory: Path,
    stop: StopRequest,
    reporter: Reporter | None = None,
) -> VerifyReport:
    """Let each client reread what the previous one wrote.

    Raises the errors of ``ClientTaskCall.carry_out``.
    """
    chosen = clients.places(clients.most)
    last = max(place.rank for place in chosen if place.name in {w.writer for w in written})
    chosen = clients.places(last)
    errand = ClientTaskCall("verify", target, chosen, arguments, handed_on(written, chosen))
    whole: VerifyReport | None = None
    for report in errand.carry_out(clients, directory, stop, reporter):
        if report.reread is not None:
            whole = merged(whole, report.reread.report)
    return whole or VerifyReport(checked_blocks=0)


class ClusterGuard(Guard):
    """Guard of the main process: holds stores; each client holds its own files and devices."""

    def _members(self, target: Target, stack: Any) -> list[Any]:
        del target, stack
        return []

    def _needs_home(self, target: Target) -> bool:
        del target
        return False


class ClientsSite:
    """Clients of a cluster as a site; implements :class:`storlab.lab.site.site.Site`."""

    def __init__(
        self,
        clients: Clients,
        store: ResultStore,
        guard: Guard,
        stop: StopRequest,
        reporter: Reporter,
    ) -> None:
        self._clients = clients
        self._store = store
        self._guard = guard
        self._stop = stop
        self.reporter = reporter
        self._states = States(store.directory)
        self._left: set[str] = set()  # targets whose last run needs a clean-up

    @property
    def study(self) -> StudyBase:
        """Return the study of the campaign."""
        return self._store.study

    @property
    def _plan(self) -> Plan:
        return self._store.plan

    def prepare(self, target: Target, points: Sequence[Point]) -> bool:
        """Let all clients create their data in parallel; return whether the target is steady."""
        count = max((point.clients or 1 for point in points), default=0)
        if not count:
            return True
        self.reporter.step(f"{target.name}: {count} clients make their data")
        arguments = self._arguments({target.name}) | {"points": [p.point_id for p in points]}
        known = self._set_aside(target)
        reports = self._do("prepare", target.name, count, arguments)
        for name, record in known.items():
            if not any(report.laid_out for report in reports):
                self._store.write_prepare(name, record)
        if target.precondition is None:
            return True
        record = precondition(
            target, _PreconditionData(self, target, count), self._store, self.reporter
        )
        return bool(record["verdict"]["verdict"] == "steady")

    def _set_aside(self, target: Target) -> dict[str, dict[str, Any]]:
        """Remove and return the preconditioning records of targets in the same place.

        The caller restores them after all clients report that they wrote no data again. Devices are
        never written by preparation, so their records stay.
        """
        known: dict[str, dict[str, Any]] = {}
        if all(is_kernel_place(Path(location)) for location in target.locations):
            return known
        for other in self.study.target:
            name = target_slug(other.name)
            shared = other.precondition is not None and set(other.locations) & set(target.locations)
            if shared and (record := self._store.prepare(name)) is not None:
                known[name] = record
                self._store.forget_prepare(name)
        return known

    def precondition_step(
        self, task: Task, target: Target, count: int, **more: Any
    ) -> list[tuple[str, ClientReport]]:
        """Run a preconditioning step on clients; return each client's name and report."""
        reports = self._do(task, target.name, count, self._arguments({target.name}) | more)
        places = self._clients.places(count)
        return [(place.name, report) for place, report in zip(places, reports, strict=True)]

    def run(
        self,
        run: PlannedRun,
        point: Point,
        engine: Engine,
        work_dir: Path,
        raw: dict[str, bytes],
    ) -> RunOutcome:
        """Execute one run on all clients of its point."""
        del engine  # clients choose their engine
        count = point.clients or 1
        target = self.study.target_named(point.target)
        family = FAMILIES[point.kind]
        if family.estimate(point, self.study.study, target).writes:
            self._states.forget(self.study, target)
        arguments = self._arguments({point.target}) | {"run": run.dump()}
        session, chosen = self._clients.begin("run", count, work_dir / "cluster", arguments)
        by_work = family.fixed_work or point.params.get(family.page.load.byte_limit) is not None
        header = self.study.study
        planned_ns = None if by_work else header.runtime
        handle = ClientsRun(session, chosen, header.interval, planned_ns, point.kind)
        try:
            outcome = finish(handle, self._stop, self.reporter.run_progress)
        finally:
            session.end()
        if handle.job:
            raw["job.json"] = handle.job
        # A lost client does not report what it left behind.
        self._left.discard(target.name)
        if handle.worked or (handle.lost and self._may_leave(run, point, work_dir)):
            self._left.add(target.name)
        for name, files in handle.written.items():
            self._states.store(target, name, files)
        if handle.written and outcome.status == "finished":
            self._verify(run, target, chosen, outcome)
        return outcome

    def _verify(
        self, run: PlannedRun, target: Target, chosen: list[ClientPlace], outcome: RunOutcome
    ) -> None:
        self.reporter.note(f"verifying {run.run_id}")
        written = self._states.written(target, chosen)
        directory = self._store.directory / "work" / "verify"
        arguments = {"campaign": self._guard.campaign, "claim": self._claim()}
        stop = self._stop
        report = read_again(
            self._clients, written, target.name, arguments, directory, stop, self.reporter
        )
        outcome.verify = merged(outcome.verify, report)
        outcome.notes.append(told(written))

    def _may_leave(self, run: PlannedRun, point: Point, work_dir: Path) -> bool:
        """Return whether such a run may need a clean-up."""
        target = self.study.target_named(point.target)
        home = home_of(self._guard.base / (target.directory or ""))
        granted = replace(self._guard.access[target.name], home=home)
        context = run_context(self.study, point, run, granted, work_dir)
        return bool(FAMILIES[point.kind].after(point, context))

    def after(self, run: PlannedRun, point: Point, *, interrupted: bool = False) -> bool:
        """Let each client clean up after a run, if any of them needs it; return whether one did."""
        if interrupted and self._may_leave(run, point, self._store.directory / "work"):
            self._left.add(point.target)
        if point.target not in self._left:
            return False
        arguments = self._arguments({point.target}) | {"run": run.dump()}
        self._do("after", point.target, point.clients or 1, arguments)
        self._left.discard(point.target)
        return True

    def clean_up(self) -> list[str]:
        """Remove the data of all clients and then the stores, except for what the study keeps.

        Errors are reported as notes, because the results are more important.
        """
        kept = self._kept()
        removed: list[str] = []
        stop = StopRequest() if self._stop.requested else self._stop
        on_clients = self.targets_on_clients() - kept
        claimed = claimed_directories(self._store)
        if on_clients or claimed:
            try:
                # one client is enough to give up the lock on a directory
                count = self._clients.most if on_clients else 1
                arguments = self._cleaning(on_clients)
                removed += _names(self._do("clean", "cleaning up", count, arguments, stop))
            except (PrepareError, Interrupted) as error:
                self.reporter.note(self._left_over(error, on_clients, claimed, kept))
        # In reverse: a bucket that targets share was created for the first of them.
        for name, hold in reversed(self._guard.stores.items()):
            if name not in kept:
                clean = partial(clean_store, hold, reporter=self.reporter)
                directory = self._store.directory
                removed += clean_or_tell(name, clean, directory, self._stop, self.reporter)
        return removed

    def _kept(self) -> set[str]:
        return {target.name for target in self.study.target if target.keep_data}

    def targets_on_clients(self) -> set[str]:
        """Return the targets whose data clients create, without stores and null targets."""
        used = {point.target for point in self._plan.points.values()}
        return {
            t.name for t in self.study.target if t.name in used and t.s3 is None and not t.is_null
        }

    def clean_on(
        self, chosen: list[ClientPlace], targets: set[str], stop: StopRequest, *, ends: bool = True
    ) -> list[str]:
        """Let clients remove what they created, even if the study keeps it.

        Args:
            chosen: Clients.
            targets: Names of targets.
            stop: Stop request to watch.
            ends: Whether the campaign gives up its directories afterwards.

        Raises:
            PrepareError: A client failed; names it.
            Interrupted: A stop was requested.
        """
        arguments = self._cleaning(targets, ends=ends) | {"keeps": False}
        return _names(self._send(ClientTaskCall("clean", "cleaning up", chosen, arguments), stop))

    def _cleaning(self, targets: set[str], *, ends: bool = True) -> dict[str, Any]:
        arguments = self._arguments(targets)
        arguments["claim"]["ends"] = ends
        return arguments

    def _left_over(
        self, error: Exception, on_clients: set[str], claimed: set[str], kept: set[str]
    ) -> str:
        """Describe what remains after a failed clean-up.

        ``storlab clean`` would also remove kept data, so it is not suggested for a mere lock file.
        """
        if not on_clients:
            places = ", ".join(sorted(str(self._guard.base / name) for name in claimed))
            looks_s = away_ns(self._store) / NS_PER_S
            return (
                f"{places}: not given up: {error}; the next campaign there looks for "
                f"{looks_s:g} s whether this one goes on"
            )
        goes_on = f"`storlab clean {self._store.directory}` goes on with it"
        also = ", and removes what the study keeps, too" if kept else ""
        return f"not cleaned up: {error}; {goes_on}{also}"

    def _arguments(self, targets: set[str]) -> dict[str, Any]:
        granted = {
            name: grant(access)
            for name in targets
            if (access := self._guard.access[name].s3) is not None
        }
        return {
            "study": self._store.study_text,
            "base": str(self._guard.base),
            "plan": self._plan.dump(),
            "targets": sorted(targets),
            "campaign": self._guard.campaign,
            "claim": self._claim(),
            "consented": self._guard.consent is not None,
            "resumed": self._guard.recorded is not None,
            "granted": granted,
        }

    def _claim(self) -> dict[str, Any]:
        """Return the directories to lock against other campaigns, the same for all tasks."""
        return claim_of(self._store, self._guard.base, self._guard.campaign)

    def _do(
        self,
        task: Task,
        where: str,
        count: int,
        arguments: dict[str, Any],
        stop: StopRequest | None = None,
    ) -> list[ClientReport]:
        errand = ClientTaskCall(task, where, self._clients.places(count), arguments)
        return self._send(errand, stop or self._stop)

    def _send(self, errand: ClientTaskCall, stop: StopRequest) -> list[ClientReport]:
        directory = self._store.directory / "work" / errand.task
        try:
            return errand.carry_out(self._clients, directory, stop, self.reporter)
        finally:
            with suppress(OSError):  # a campaign removes it when all else in it is gone
                directory.parent.rmdir()


@dataclass(frozen=True, slots=True)
class _PreconditionData:
    """Data of all clients on a target, preconditioned together: only the total must be steady."""

    site: ClientsSite
    target: Target
    count: int

    def fill(self) -> tuple[list[dict[str, Any]], dict[str, int]]:
        """Fill on all clients in parallel; the duration is that of the slowest."""
        self.site.reporter.step(f"preconditioning {self.target.name}: fill")
        reports = self.site.precondition_step("fill", self.target, self.count)
        filled = [(name, report.filled) for name, report in reports if report.filled is not None]
        members = [{**m, "client": name} for name, access in filled for m in access.members]
        longest = max(access.duration_ns for _, access in filled)
        return members, {"bytes": sum(e.bytes for _, e in filled), "duration_ns": longest}

    def overwrite(self, number: int) -> float:
        """Overwrite on all clients together; return the sum of their MB/s."""
        reports = self.site.precondition_step("overwrite", self.target, self.count, round=number)
        return sum(report.written_mb_s for _, report in reports)


def _names(reports: Sequence[ClientReport]) -> list[str]:
    return sorted({name for report in reports for name in report.removed})
