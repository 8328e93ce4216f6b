"""Execution of a campaign: all planned runs in order; each is stored before the next starts."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from storlab.analysis.offered_load import at_rate
from storlab.base.clock import monotonic_ns, utc_now_iso, wall_at_ns
from storlab.base.errors import GuardError, StorlabError, UnreachableError
from storlab.base.units import NS_PER_S, format_duration
from storlab.contracts.engine import Engine
from storlab.contracts.registry import FAMILIES, get_engine
from storlab.contracts.reporter import Reporter
from storlab.lab.guard.guard import Guard
from storlab.lab.prepare.dataset import PrepareError
from storlab.lab.run.gauges import Gauges
from storlab.lab.run.load_levels import LoadLevels
from storlab.lab.run.reach import LocalReach, Reach
from storlab.lab.run.records import completed_record, failed_record
from storlab.lab.site.local import LocalSite, Site
from storlab.lab.watch.device_bytes import devices_behind
from storlab.meters.nvme_admin import NvmeAdmin
from storlab.model.point import PlannedRun, Point
from storlab.model.power import AppliedPowerState, Reading
from storlab.model.result import Attempt, Failure, Flag, RunRecord
from storlab.model.study import Target
from storlab.power.metering import Metering
from storlab.power.states import Opener, PowerStates
from storlab.process.execution import Interrupted, StopRequest
from storlab.results.rounds import Rounds, is_left_out, needed_runs, rounds_of
from storlab.results.store import ResultStore
from storlab.stores.devices import Device
from storlab.stores.reachability import Absence

AGAIN_AFTER_S = (1.0, 4.0)
"""Pauses in seconds between attempts to restore a target after a run; a busy store may recover."""
PROBE_EVERY_S = 5.0
"""Pause in seconds between two checks of whether a target answers again."""
MOST_ATTEMPTS = 5
"""Most attempts at a run whose target is unreachable repeatedly; the last failure is stored."""


@dataclass(slots=True)
class Summary:
    """Result of one session of a campaign, from start or resume to its end."""

    directory: Path
    planned: int
    records: list[RunRecord] = field(default_factory=list)  # records of this session
    missing: int = 0
    interrupted: bool = False
    removed: list[str] = field(default_factory=list)  # names of removed data files and objects

    @property
    def failed(self) -> list[RunRecord]:
        """Runs of this session that failed."""
        return [record for record in self.records if record.status == "failed"]


def left_behind(store: ResultStore, todo: Sequence[PlannedRun]) -> list[PlannedRun]:
    """Return the runs of which an earlier session may have left files or objects on targets.

    These are the last stored run, whose clean-up may have failed, and the first without a result.
    """
    # Reversed, so that of two runs that started in the same second the later one is taken.
    records = reversed(store.records())
    last = max(records, key=lambda record: record.started_at, default=None)
    ids = {record.run_id for record in [last] if record} | {run.run_id for run in todo[:1]}
    return [run for run in store.plan.runs if run.run_id in ids]


class Campaign:
    """Executes those runs of a plan that have no result yet.

    The caller must have locked the result store and entered the guard.
    """

    _states: PowerStates  # set while runs are executed
    _metering: Metering

    def __init__(
        self,
        store: ResultStore,
        guard: Guard,
        reporter: Reporter,
        stop: StopRequest,
        open_drive: Opener = NvmeAdmin.open,
        site: Site | None = None,
        reach: Reach | None = None,
    ) -> None:
        self.store = store
        self.guard = guard
        self.reporter = reporter
        self.stop = stop
        self.study = store.study
        self._engines: dict[str, Engine] = {}
        self._levels = LoadLevels(store)
        # targets for which preconditioning found no steady state
        self._unsteady: set[str] = set()
        self._tracked: dict[str, RunRecord] = {}  # runs of tracked points, see RoundsRule
        self._rounds: dict[str, Rounds] = {}
        self._unprepared: dict[str, Failure] = {}  # failures of targets that could not be prepared
        self._spoiled: set[str] = set()  # targets whose data files another program changed
        # by target: the run after which clean-up failed, and the failure
        self._left: dict[str, tuple[PlannedRun, Failure]] = {}
        self._resumed = guard.recorded is not None
        here = LocalSite(store.study, guard, store.directory, stop, reporter, store)
        self._site: Site = site or here
        self._reach: Reach = reach or LocalReach(store.study, guard)
        self._open_drive = open_drive

    def execute(
        self, *, retry_failed: bool = False, clean: bool = False, keep: bool = False
    ) -> Summary:
        """Prepare the targets, then execute the missing runs, until a stop is requested.

        Args:
            retry_failed: Whether to repeat failed runs.
            clean: Whether to remove data even if runs are still missing.
            keep: Whether to keep data even if no runs are missing.

        Raises:
            EngineError: An engine is missing.
            ResultError: Results cannot be stored.
            GuardError: Another campaign uses the same S3 prefix, or another program replaced a
                file.
            UnreachableError: A target or its meter was unreachable for longer than
                ``wait_for_target``.
        """
        records = self.store.records()
        stored = {record.run_id for record in records}
        todo = self.store.missing_of(records, retry_failed)
        plan = self.store.plan
        tracked = set(plan.rounds.tracked.values()) if plan.rounds is not None else set()
        self._tracked = {r.run_id: r for r in records if r.point_id in tracked}
        del records  # thousands of them would take memory from the load
        self._rounds = rounds_of(plan, self._tracked.values())
        summary = Summary(self.store.directory, len(needed_runs(plan, self._rounds)))
        shutil.rmtree(self._work, ignore_errors=True)
        targets = self._targets(todo)
        self.reporter.campaign(
            summary.planned, summary.planned - len(todo), sum(self._expected_ns(r) for r in todo)
        )
        try:
            self._execute(todo, targets, summary)
        except Interrupted:
            summary.interrupted = len(summary.records) < len(todo)
        finally:
            shutil.rmtree(self._work, ignore_errors=True)
        stored |= {record.run_id for record in summary.records}
        needed = needed_runs(plan, self._rounds)
        summary.planned = len(needed)
        summary.missing = sum(run.run_id not in stored for run in needed)
        if clean or (summary.missing == 0 and not keep):
            summary.removed = self.clean_up()
        return summary

    @property
    def _work(self) -> Path:
        return self.store.directory / "work"

    def _execute(
        self, todo: Sequence[PlannedRun], targets: Sequence[Target], summary: Summary
    ) -> None:
        self._after_interrupt(todo)
        for target in targets:
            while (failure := self._prepare(target, todo)) is not None:
                if not self._was_away(target, self._clients_of(target, todo)):
                    self._unprepared[target.name] = failure
                    self.reporter.note(f"{target.name}: cannot be prepared: {failure.text}")
                    break
        with ExitStack() as stack:
            base, directory = self.guard.base, self.store.directory
            self._states = stack.enter_context(
                PowerStates(targets, base, directory, self._open_drive)
            )
            self._metering = stack.enter_context(Metering(targets, base))
            self.reporter.gauges(Gauges(targets, self._metering, self._devices(targets)))
            for note in self._states.notes:
                self.reporter.note(note)
            self._measure(todo, summary)

    def _devices(self, targets: Sequence[Target]) -> dict[str, list[Device]]:
        """Return the block devices that hold each target's data, without those of clients."""
        access, base = self.guard.access, self.guard.base
        return {t.name: devices_behind(t, access[t.name], base) for t in targets}

    def _measure(self, todo: Sequence[PlannedRun], summary: Summary) -> None:
        if self._metering.any:
            self.stop.pause(self.study.study.settle / NS_PER_S)  # idle power before the first run
        for run in todo:
            if is_left_out(self.store.plan, self._rounds, run):
                continue
            for attempt in range(1, MOST_ATTEMPTS + 1):
                if self._attempt(run, summary, last=attempt == MOST_ATTEMPTS):
                    break
            self._judge_rounds(run, summary.records[-1], todo)

    def _judge_rounds(self, run: PlannedRun, record: RunRecord, todo: Sequence[PlannedRun]) -> None:
        """Decide after the run of a tracked point whether its target needs further rounds."""
        plan = self.store.plan
        target = plan.points[run.point_id].target
        if plan.rounds is None or plan.rounds.tracked.get(target) != run.point_id:
            return
        self._tracked[run.run_id] = record
        self._rounds = rounds_of(plan, self._tracked.values())
        rounds = self._rounds[target]
        if not rounds.ended:
            return
        self.reporter.note(f"{target}: {rounds.text}")
        if rounds.verdict.steady:
            later = [r for r in todo if r.order > run.order]
            left = [r for r in later if not is_left_out(plan, self._rounds, r)]
            runs = len(needed_runs(plan, self._rounds))
            self.reporter.campaign(runs, runs - len(left), sum(map(self._expected_ns, left)))

    def _attempt(self, run: PlannedRun, summary: Summary, *, last: bool) -> bool:
        """Execute and store one run, with all checks and pauses before and after it.

        Returns False if the run must be repeated, because its target was unreachable.
        """
        point = self.store.plan.points[run.point_id]
        target = self.study.target_named(point.target)
        self.stop.pause(0)
        self._check_claim(point.target)
        prepared_again = self._check_files(target, point.clients)
        waited = self._wait_while(target, partial(self._metering.absences, target))
        if (self._after_again(point) or waited or prepared_again) and self._metering.any:
            self._metering.idle_begins()
            self.stop.pause(self.study.study.settle / NS_PER_S)
        self.reporter.run_started(run, point, self._expected_ns(run))
        prepared = point.target not in self._unprepared
        record = self._run(run, point, last=last) if prepared else self._left_out(run, point)
        if record is not None:
            summary.records.append(record)  # at once: the clean-up below may be interrupted
            self.reporter.run_ended(record)
            if record.failure is not None and record.failure.changed is not None:
                self._spoiled.add(target.name)
        put_right = prepared and self._after(run, point)
        metered = self._metering.reads(target)
        if not metered or (put_right and self._metering.any):
            self._metering.idle_begins()
            self.stop.pause(self.study.study.settle / NS_PER_S)
        return record is not None

    def _check_files(self, target: Target, clients: int | None) -> bool:
        """Check before a run that files are unchanged since earlier runs.

        All runs of a point must read the same data. Data files that another program changed are
        written again.

        Returns:
            Whether any data files were written again.

        Raises:
            GuardError: A user's file was changed, which storlab cannot restore.
        """
        try:
            self.guard.check_files()
        except GuardError:
            if not self._was_away(target, clients):
                raise
            self.guard.check_files()
        spoiled, self._spoiled = self._spoiled, set()
        for name in spoiled:
            failure = self._prepare(self.study.target_named(name), self.store.plan.runs)
            if failure is not None:
                self._unprepared[name] = failure
        return bool(spoiled)

    def _was_away(
        self, target: Target, clients: int | None, attempt: Callable[[], None] | None = None
    ) -> bool:
        """Check after a failure whether the target answers; if not, wait until it does.

        Args:
            target: Target that failed.
            clients: Number of clients that used it; None without a cluster.
            attempt: Function that stores the failed attempt; called before a wait.

        Returns:
            False if the target answers at once, so that the failure has another cause.
        """
        return self._wait_while(target, partial(self._reach.absences, target, clients), attempt)

    def _wait_while(
        self,
        target: Target,
        look: Callable[[], Sequence[Absence]],
        attempt: Callable[[], None] | None = None,
    ) -> bool:
        """Wait until all parts of a target answer.

        Args:
            target: Target to name in messages.
            look: Function that returns the parts that do not answer.
            attempt: Function that is called before a wait.

        Returns:
            Whether any part did not answer at first.

        Raises:
            UnreachableError: The study's time ``wait_for_target`` has passed.
            Interrupted: A stop was requested.
        """
        absences = look()
        if not absences:
            return False
        if attempt is not None:
            attempt()
        limit_ns, began_ns = self.study.study.wait_for_target, monotonic_ns()
        limit = format_duration(limit_ns)
        told = "; ".join(map(str, absences))
        self.reporter.note(
            f"{target.name} does not answer ({told}); the campaign waits up to {limit} for it "
            "(wait_for_target in [study])"
        )
        self.reporter.step(f"waiting for {target.name}", limit_ns / NS_PER_S)
        while absences:
            waited_ns = monotonic_ns() - began_ns
            if waited_ns >= limit_ns or not all(absence.returns for absence in absences):
                raise UnreachableError(
                    target.name,
                    f"does not answer: {'; '.join(map(str, absences))}; the campaign waited for "
                    f"{format_duration(round(waited_ns, -9))}. Finished runs are stored; the other "
                    "runs were not started",
                    f"make it reachable, then continue with `{self.store.continuation}`",
                )
            self.reporter.step_progress(waited_ns / NS_PER_S)
            self.stop.pause(min(PROBE_EVERY_S, (limit_ns - waited_ns) / NS_PER_S))
            absences = look()
        waited = format_duration(round(monotonic_ns() - began_ns, -9))
        self.reporter.note(f"{target.name} answers again after {waited}")
        return True

    def _left_out(self, run: PlannedRun, point: Point) -> RunRecord:
        """Store a failed record for a run that is skipped, as its target was not prepared."""
        engine = self._engine(point.engine).describe()
        failure = self._unprepared[point.target]
        return self._write(failed_record(run, point, engine, utc_now_iso(), failure), [], {})

    def _prepare(self, target: Target, todo: Sequence[PlannedRun]) -> Failure | None:
        """Prepare a target for its points; return the failure, or None if it succeeded."""
        try:
            if not self._site.prepare(target, self._points_of(target, todo)):
                self._unsteady.add(target.name)
        except PrepareError as error:
            return error.failure
        return None

    def _points_of(self, target: Target, todo: Sequence[PlannedRun]) -> list[Point]:
        points = {run.point_id: self.store.plan.points[run.point_id] for run in todo}
        return [point for point in points.values() if point.target == target.name]

    def _clients_of(self, target: Target, todo: Sequence[PlannedRun]) -> int | None:
        counts = [point.clients for point in self._points_of(target, todo)]
        return max((count for count in counts if count is not None), default=None)

    def _after_interrupt(self, todo: Sequence[PlannedRun]) -> None:
        """Remove what an interrupted session left on targets, before anything else needs space.

        Runs that continue from existing data are left alone.
        """
        runs = left_behind(self.store, todo) if self._resumed else []
        self._resumed = False
        for run in runs:
            point = self.store.plan.points[run.point_id]
            target = self.study.target_named(point.target)
            if not FAMILIES[point.kind].estimate(point, self.study.study, target).continues:
                self._after(run, point, interrupted=True)

    def _after(self, run: PlannedRun, point: Point, *, interrupted: bool = False) -> bool:
        """Restore the target after a run; return whether there was anything to do."""
        try:
            return self._site.after(run, point, interrupted=interrupted)
        except PrepareError as error:
            self._left[point.target] = (run, error.failure)
            self.reporter.note(
                f"{point.target}: clean-up after {run.run_id} failed and will be repeated before "
                f"the next run: {error.failure.text}"
            )
            return True

    def _after_again(self, of: Point) -> bool:
        """Repeat the clean-up of a target if it failed after the last run.

        If the target is unreachable, wait for it. If it answers but all repetitions fail, its later
        runs are skipped.

        Returns:
            Whether there was a failed clean-up.
        """
        target = of.target
        if target not in self._left:
            return False
        run, failure = self._left.pop(target)
        point = self.store.plan.points[run.point_id]
        for number, pause_s in enumerate(AGAIN_AFTER_S, 2):
            self.stop.pause(pause_s)
            try:
                self._site.after(run, point)
            except PrepareError as error:
                failure = error.failure
                self.reporter.note(f"{target}: clean-up attempt {number} failed: {failure.text}")
            else:
                self.reporter.note(
                    f"{target}: clean-up after {run.run_id} succeeded at attempt {number}"
                )
                return True
        if self._was_away(self.study.target_named(target), point.clients):
            self._left[target] = (run, failure)
            return self._after_again(of)
        message = f"skipped, because clean-up after run {run.run_id} failed: {failure.message}"
        self._unprepared[target] = failure.model_copy(update={"message": message})
        self.reporter.note(
            f"{target}: clean-up after {run.run_id} failed repeatedly, so later runs on this "
            f"target are skipped: {failure.text}"
        )
        return True

    def _run(self, run: PlannedRun, point: Point, *, last: bool) -> RunRecord | None:
        """Execute a run and store its record; return None if its target was unreachable."""
        started_at = utc_now_iso()
        target = self.study.target_named(point.target)
        engine = self._engine(point.engine)
        work_dir = self._work / run.run_id
        with self.store.storing(f"run {run.run_id} cannot begin"):
            work_dir.mkdir(parents=True)
        raw: dict[str, bytes] = {}
        try:
            states = self._power_states(target)
            self._metering.load_begins()
            # Meters are read from now until the end of the settle pause, with the same clock as the
            # outcome's window (storlab.base.clock).
            offered = self._levels.load(point)
            driven = point if offered is None else at_rate(point, offered.rate_s)
            outcome = self._site.run(run, driven, engine, work_dir, raw)
            self._check_claim(point.target)
        except (StorlabError, OSError, ValueError) as error:
            # The next run needs an idle pause before it, even if this run failed.
            self._settle(target)
            failure = _failure(error)
            if not last and self._is_repeated(run, point, started_at, failure):
                return None
            failed = failed_record(run, point, engine.describe(), started_at, failure)
            return self._write(failed, [], raw)
        finally:
            shutil.rmtree(work_dir, ignore_errors=True)
        self._settle(target)
        metered = self._metering.finish(target, outcome)
        record = completed_record(
            run, point, self.study, started_at, outcome, metered, offered=offered
        )
        failed_here = None if last else record.failure
        if failed_here is not None and self._is_repeated(run, point, started_at, failed_here):
            return None
        record = record.model_copy(
            update={
                "power_states": states,
                "wall_at_start_ns": wall_at_ns(outcome.window_start_ns),
            }
        )
        if point.target in self._unsteady:
            record = record.model_copy(update={"flags": [*record.flags, _NOT_PRECONDITIONED]})
        return self._write(record, outcome.every_sample, {**outcome.raw, **raw}, metered.readings)

    def _is_repeated(
        self, run: PlannedRun, point: Point, started_at: str, failure: Failure
    ) -> bool:
        """Return whether a run failed because its target was unreachable.

        If so, store the attempt and wait for the target.
        """
        attempt = Attempt(started_at=started_at, failure=failure)
        keep = partial(self.store.add_attempt, run.run_id, attempt)
        return self._was_away(self.study.target_named(point.target), point.clients, keep)

    def _check_claim(self, target: str) -> None:
        """Raise GuardError if another campaign may be using the target's S3 prefix, too."""
        hold = self.guard.stores.get(target)
        if hold is not None and (note := hold.check_claim()):
            self.reporter.note(f"{target}: {note}")

    def _power_states(self, target: Target) -> list[AppliedPowerState]:
        states, changed = self._states.apply(target)
        if changed and self._metering.reads(target):
            # Discard earlier readings of idle power, because it depends on the power state.
            self._metering.idle_begins()
            self.stop.pause(self.study.study.settle / NS_PER_S)
        return states

    def _settle(self, target: Target) -> None:
        """Pause after the load on a target with meters, so that its idle power can be measured.

        A stop request ends the pause early; the current run is still stored.
        """
        if self._metering.reads(target):
            self._metering.idle_begins()
            with suppress(Interrupted):
                self.stop.pause(self.study.study.settle / NS_PER_S)

    def _write(
        self,
        record: RunRecord,
        samples: Sequence[Any],
        raw: dict[str, bytes],
        readings: Sequence[Reading] = (),
    ) -> RunRecord:
        with self.store.storing(f"run {record.run_id} cannot be stored"):
            return self.store.write_run(record, samples, raw, readings)

    def _engine(self, name: str) -> Engine:
        if name not in self._engines:
            self._engines[name] = get_engine(name)
        return self._engines[name]

    def _targets(self, todo: Sequence[PlannedRun]) -> list[Target]:
        names = {self.store.plan.points[run.point_id].target for run in todo}
        return [target for target in self.study.target if target.name in names]

    def _expected_ns(self, run: PlannedRun) -> int:
        point = self.store.plan.points[run.point_id]
        target = self.study.target_named(point.target)
        estimate = FAMILIES[point.kind].estimate(point, self.study.study, target)
        return estimate.duration_ns + (0 if estimate.compared_once else estimate.compared_ns)

    def clean_up(self) -> list[str]:
        """Remove the data that the study does not keep, and return their names."""
        return self._site.clean_up()


def _failure(error: StorlabError | OSError | ValueError) -> Failure:
    if isinstance(error, StorlabError):
        return Failure(message=f"{error.where}: {error.what}", fix=error.fix, path=None)
    if isinstance(error, OSError):
        path = None if error.filename is None else str(error.filename)
        return Failure(message=str(error.strerror or error), errno=error.errno, path=path)
    return Failure(message=str(error), fix="correct the workload")


_NOT_PRECONDITIONED = Flag(
    kind="not-preconditioned",
    message="preconditioning ended without a steady state, so the target may still be changing",
)
