"""Clients of a cluster as the site of a campaign, which generates its load."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from socket import gethostname
from typing import Any

from storlab import __version__
from storlab.base.clock import monotonic_ns
from storlab.base.files import shell_word
from storlab.base.units import NS_PER_S
from storlab.cluster.offsets import ClockOffset
from storlab.cluster.session import START_NS, Gathered, Session
from storlab.cluster.task import ClientPlace, Task
from storlab.contracts.engine import Engine
from storlab.contracts.registry import FAMILIES
from storlab.contracts.reporter import Reporter
from storlab.lab.guard.guard import Guard
from storlab.lab.plan.jobs import run_context
from storlab.lab.prepare.dataset import PrepareError
from storlab.lab.prepare.precondition import is_ready, precondition, target_slug
from storlab.lab.site.clean import clean_or_tell, clean_store
from storlab.lab.site.client_report import ClientReport
from storlab.lab.site.clients import Clients, ClientTaskCall, read_again
from storlab.lab.site.merge import Client, merge, raw_of, whole_snapshot
from storlab.lab.site.verification import States, describe_verification, merged
from storlab.lab.watch.machine_watch import changed_flag, changes
from storlab.model.point import Plan, PlannedRun, Point
from storlab.model.result import EngineInfo, Failure, Flag, RunOutcome, RunStatus, Snapshot
from storlab.model.s3 import grant
from storlab.model.study import StudyBase, Target
from storlab.process.execution import Interrupted, StopRequest, finish
from storlab.results.store import ResultStore
from storlab.stores.data_file import is_kernel_place
from storlab.stores.home import home_of

_FOR_EVER_S = 1e9
_UNKNOWN_CLOCK = ClockOffset(0, 0)
# Longest time between two tasks, in which a run is stored and the ranks of the next task start.
AWAY_NS = START_NS + 30 * NS_PER_S


class ClusterGuard(Guard):
    """Guard of the controller: locks only S3 stores; each client locks its files and devices."""

    def _members(self, target: Target, stack: Any) -> list[Any]:
        del target, stack
        return []

    def _needs_home(self, target: Target) -> bool:
        del target
        return False


class ClientsSite:
    """Clients of a cluster, which generate the load of a campaign.

    Implements :class:`storlab.lab.site.local.Site`.
    """

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
        # state of each client's machine before the first run on a target, by client and target
        self._described: dict[tuple[str, str], dict[str, Any]] = {}

    @property
    def study(self) -> StudyBase:
        """Study of the campaign."""
        return self._store.study

    @property
    def _plan(self) -> Plan:
        return self._store.plan

    def prepare(self, target: Target, points: Sequence[Point]) -> bool:
        """Make all clients create their data on a target in parallel, and precondition it.

        Returns False if preconditioning found no steady state.
        """
        count = max((point.clients or 1 for point in points), default=0)
        if not count:
            return True
        self.reporter.step(f"{target.name}: {count} clients create their data")
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
        return is_ready(record)

    def _set_aside(self, target: Target) -> dict[str, dict[str, Any]]:
        """Remove and return the preconditioning records of targets with the same location.

        The caller restores them if all clients report that they did not write data again. Creating
        data never writes to devices, so their records are not removed.
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
        chosen = self._clients.places(point.clients or 1)
        target = self.study.target_named(point.target)
        family = FAMILIES[point.kind]
        if family.estimate(point, self.study.study, target).writes:
            self._states.forget(self.study, target)
        arguments = self._arguments({point.target}) | {"run": run.dump(), "params": point.params}
        session = self._clients.begin("run", chosen, work_dir / "cluster", arguments)
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
        outcome.flags += self._changed(target.name, handle.described)
        # A lost client cannot report whether it left data, so assume so if the run may leave any.
        self._left.discard(target.name)
        if handle.worked or (handle.lost and self._may_leave(run, point, work_dir)):
            self._left.add(target.name)
        for name, files in handle.written.items():
            self._states.store(target, name, files)
        if handle.written and outcome.status == "finished":
            self._verify(run, target, chosen, outcome)
        return outcome

    def _changed(self, target: str, described: Mapping[str, dict[str, Any]]) -> Iterator[Flag]:
        """Yield a flag per client whose machine changed since its first run in this session."""
        for client, state in described.items():
            first = self._described.setdefault((client, target), state)
            if changed := changes(first, state):
                yield changed_flag(changed, f"the first run on {client}")

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
        outcome.notes.append(describe_verification(written))

    def _may_leave(self, run: PlannedRun, point: Point, work_dir: Path) -> bool:
        """Return whether a run of this point may leave data that must be cleaned up."""
        target = self.study.target_named(point.target)
        home = home_of(self._guard.base / (target.directory or ""))
        granted = replace(self._guard.access[target.name], home=home)
        context = run_context(self.study, point, run, granted, work_dir)
        return bool(FAMILIES[point.kind].after(point, context))

    def after(self, run: PlannedRun, point: Point, *, interrupted: bool = False) -> bool:
        """Make the clients clean up after a run if one of them needs it; return whether one did."""
        if interrupted and self._may_leave(run, point, self._store.directory / "work"):
            self._left.add(point.target)
        if point.target not in self._left:
            return False
        arguments = self._arguments({point.target}) | {"run": run.dump()}
        self._do("after", point.target, point.clients or 1, arguments)
        self._left.discard(point.target)
        return True

    def clean_up(self) -> list[str]:
        """Remove the data of all clients and the objects in stores, and return their names.

        Data that the study keeps is not removed. Errors are reported as notes, so that the
        campaign's results are still completed.
        """
        kept = self._kept()
        removed: list[str] = []
        stop = StopRequest() if self._stop.requested else self._stop
        on_clients = self.targets_on_clients() - kept
        claimed = claimed_directories(self._store)
        if on_clients or claimed:
            try:
                # One client is enough to release the lock on a directory.
                count = self._clients.most if on_clients else 1
                arguments = self._cleaning(on_clients)
                removed += _names(self._do("clean", "cleaning up", count, arguments, stop))
            except (PrepareError, Interrupted) as error:
                self.reporter.note(self._left_over(error, on_clients, claimed, kept))
        # In reverse order, because the first of several targets in a bucket created the bucket.
        for name, hold in reversed(self._guard.stores.items()):
            if name not in kept:
                clean = partial(clean_store, hold, reporter=self.reporter)
                directory = self._store.directory
                removed += clean_or_tell(name, clean, directory, self._stop, self.reporter)
        return removed

    def _kept(self) -> set[str]:
        return {target.name for target in self.study.target if target.keep_data}

    def targets_on_clients(self) -> set[str]:
        """Return the names of targets whose data is on clients: not S3 or null targets."""
        used = {point.target for point in self._plan.points.values()}
        return {
            t.name for t in self.study.target if t.name in used and t.s3 is None and not t.is_null
        }

    def clean_on(
        self, chosen: list[ClientPlace], targets: set[str], stop: StopRequest, *, ends: bool = True
    ) -> list[str]:
        """Make clients remove the data that they created, even if the study keeps it.

        Args:
            chosen: Clients.
            targets: Names of targets.
            stop: Stop request to watch.
            ends: Whether the campaign releases its locks on directories afterwards.

        Raises:
            PrepareError: A client failed; the error names it.
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
        """Return a note on what remains after a failed clean-up.

        If only a lock file remains, ``storlab clean`` is not suggested, since it would also remove
        data that the study keeps.
        """
        if not on_clients:
            places = ", ".join(sorted(str(self._guard.base / name) for name in claimed))
            looks_s = away_ns(self._store) / NS_PER_S
            return (
                f"{places}: the lock was not released: {error}; the next campaign there waits "
                f"{looks_s:g} s to see whether this one continues"
            )
        goes_on = f"to continue, run `storlab clean {shell_word(self._store.directory)}`"
        also = ", which also removes data that the study keeps" if kept else ""
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
        """Return the arguments with which clients lock all directories of the campaign."""
        return claim_of(self._store, self._guard.base, self._guard.campaign)

    def _do(
        self,
        task: Task,
        where: str,
        count: int,
        arguments: dict[str, Any],
        stop: StopRequest | None = None,
    ) -> list[ClientReport]:
        call = ClientTaskCall(task, where, self._clients.places(count), arguments)
        return self._send(call, stop or self._stop)

    def _send(self, call: ClientTaskCall, stop: StopRequest) -> list[ClientReport]:
        directory = self._store.directory / "work" / call.task
        try:
            return call.carry_out(self._clients, directory, stop, self.reporter)
        finally:
            with suppress(OSError):  # a campaign removes it when all else in it is gone
                directory.parent.rmdir()


@dataclass(frozen=True, slots=True)
class _PreconditionData:
    """Data of all clients on a target, for preconditioning by all clients together.

    Only the total throughput of the clients must become steady.
    """

    site: ClientsSite
    target: Target
    count: int

    def fill(self) -> tuple[list[dict[str, Any]], dict[str, int]]:
        """Write all data on all clients in parallel; the duration is that of the slowest."""
        self.site.reporter.step(f"preconditioning {self.target.name}: fill")
        reports = self.site.precondition_step("fill", self.target, self.count)
        filled = [(name, report.filled) for name, report in reports if report.filled is not None]
        members = [{**m, "client": name} for name, access in filled for m in access.members]
        longest = max(access.duration_ns for _, access in filled)
        return members, {"bytes": sum(e.bytes for _, e in filled), "duration_ns": longest}

    def overwrite(self, number: int) -> float:
        """Run one round of overwriting on all clients together; return the sum of their MB/s."""
        reports = self.site.precondition_step("overwrite", self.target, self.count, round=number)
        return sum(report.written_mb_s for _, report in reports)


def _names(reports: Sequence[ClientReport]) -> list[str]:
    return sorted({name for report in reports for name in report.removed})


class ClientsRun:
    """Run in progress on several clients. Implements ``contracts.engine.RunHandle``."""

    def __init__(
        self,
        session: Session,
        chosen: list[ClientPlace],
        interval_ns: int,
        planned_ns: int | None,
        kind: str,
    ) -> None:
        self._session = session
        self._places = chosen
        self._interval_ns = interval_ns
        self._planned_ns = planned_ns
        self._kind = kind
        self.job = b""
        self.written: dict[str, dict[str, bytes]] = {}  # files of verify mode by client
        self.described: dict[str, dict[str, Any]] = {}  # state of the machine before, by client
        self.worked = False  # whether something must be cleaned up after the run
        self.lost = False  # whether a client did not report that
        self._outcome: RunOutcome | None = None

    def snapshot(self) -> Snapshot:
        """Return the current rates of all clients together, and a note on the slowest one."""
        live = self._session.live()
        return whole_snapshot(live)

    def cancel(self) -> None:
        """Ask all clients to end soon."""
        self._session.stop()

    def wait(self, timeout_s: float | None = None) -> RunOutcome | None:
        """Wait for the end of the run and return its outcome; None if the timeout expires.

        If a client was lost, the run has failed.
        """
        if self._outcome is None:
            gathered = self._session.wait(_FOR_EVER_S if timeout_s is None else timeout_s)
            self._outcome = None if gathered is None else self._judge(gathered)
        return self._outcome

    def _judge(self, gathered: Gathered) -> RunOutcome:
        reports = [
            (place, ClientReport.unpack(gathered.outcomes.pop(place.rank)))
            for place in self._places
            if place.rank in gathered.outcomes
        ]
        self.lost = len(reports) < len(self._places)
        self.worked = any(report.worked or report.outcome is None for _, report in reports)
        self.described = {p.name: report.state for p, report in reports if report.state}
        self.written = {p.name: report.written for p, report in reports if report.written}
        self.job = next((report.job for _, report in reports if report.job), b"")
        failures = (report.failure_on(place.name) for place, report in reports)
        failure = gathered.failure or next(filter(None, failures), None)
        if failure is not None:
            failed = failed_outcome(failure, "failed")
            failed.raw = raw_of(reports)
            return failed
        if any(report.outcome is None for _, report in reports):
            return failed_outcome(None, "cancelled")
        # If clocks were measured only once, use this measurement twice: the drift is then 0.
        clocks = [*gathered.clocks, *gathered.clocks[-1:]]
        clients = [
            Client(
                place,
                report,
                clocks[0].get(place.name, _UNKNOWN_CLOCK),
                clocks[1].get(place.name, clocks[0].get(place.name, _UNKNOWN_CLOCK)),
            )
            for place, report in reports
        ]
        divided = FAMILIES[self._kind].fixed_work
        return merge(clients, self._interval_ns, self._planned_ns, self._kind, divided=divided)


def failed_outcome(failure: Failure | None, status: RunStatus) -> RunOutcome:
    """Return the outcome, without results, of a run in which not all clients finished."""
    now = monotonic_ns()
    engine = EngineInfo(name="cluster", version=__version__)
    return RunOutcome(status, engine, now, now, [], {}, None, failure)


def claim_of(store: ResultStore, base: Path, campaign: str) -> dict[str, Any]:
    """Return the arguments with which clients lock all directories of a campaign during a task.

    Between tasks of the campaign, other campaigns must wait (see ``away_ns``).
    """
    return _claim(store, base, campaign, claimed_directories(store), away_ns(store))


def claim_once(store: ResultStore, base: Path, campaign: str, target: str) -> dict[str, Any]:
    """Return the arguments with which clients lock one target's directory for a single task."""
    directory = store.study.target_named(target).directory
    named = set() if directory is None else {directory}
    return _claim(store, base, campaign, named, 0)


def claimed_directories(store: ResultStore) -> set[str]:
    """Return the directories of a campaign's targets, as written in the study."""
    used = {point.target for point in store.plan.points.values()}
    return {t.directory for t in store.study.target if t.name in used and t.directory}


def away_ns(store: ResultStore) -> int:
    """Return how long (ns) another campaign must wait to see whether this one continues."""
    return AWAY_NS + store.study.study.settle


def _claim(
    store: ResultStore, base: Path, campaign: str, directories: set[str], longest_ns: int
) -> dict[str, Any]:
    cluster = store.study.cluster
    return {
        "holder": {
            "campaign": campaign,
            "study": store.study.study.name,
            "results": f"{gethostname()}:{store.directory}",
            "away_ns": longest_ns,
        },
        "directories": sorted(str(base / name) for name in directories),
        "mount": None if cluster is None else cluster.mount,
        "ends": False,  # whether the task gives up the directories at its end
    }
