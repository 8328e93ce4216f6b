"""Site of a campaign, which generates its load: the interface, and this machine as a site."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from contextlib import ExitStack, nullcontext, suppress
from functools import partial
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from storlab.contracts.engine import Engine, RunHandle
from storlab.contracts.family import JobContext
from storlab.contracts.registry import FAMILIES
from storlab.contracts.reporter import Reporter
from storlab.lab.guard.guard import Guard
from storlab.lab.plan.jobs import run_context
from storlab.lab.prepare import dataset
from storlab.lab.prepare.dataset import PrepareError
from storlab.lab.prepare.precondition import Members, Start, is_ready, precondition, target_slug
from storlab.lab.prepare.steps import Steps
from storlab.lab.site.clean import clean_or_tell, clean_store
from storlab.lab.site.verification import Verification, asks_for_check
from storlab.lab.watch.device_bytes import (
    MOST_OF_COURSE,
    DeviceBytes,
    bytes_around,
    devices_below,
    medium_behind,
)
from storlab.lab.watch.health import HealthWatch
from storlab.lab.watch.limits import LimitWatch
from storlab.lab.watch.machine_watch import (
    MachineWatch,
    changes,
    described,
    drives_of,
    pinned_near,
)
from storlab.lab.watch.member_watch import MemberWatch
from storlab.model.job import Job, Member
from storlab.model.point import PlannedRun, Point
from storlab.model.result import Failure, RunOutcome
from storlab.model.run_course import COURSE_FILE, WAITS
from storlab.model.study import StudyBase, Target
from storlab.process.child import ChildRun
from storlab.process.execution import StopRequest, finish
from storlab.process.process_bytes import ProcessBytes
from storlab.process.run_queue import CoreWaits
from storlab.process.server_cpu import ServerCpu
from storlab.process.temperature import TemperatureWatch, temperature_files
from storlab.stores.devices import Device
from storlab.stores.sidecar import made_by_storlab
from storlab.workloads.common.metrics import STARVED_PERCENT

if TYPE_CHECKING:  # imports Arrow, which clients do not need because they keep no results
    from storlab.results.store import ResultStore


class Site(Protocol):
    """Interface of a site that generates load: this machine, or the clients of a cluster."""

    def prepare(self, target: Target, points: Sequence[Point]) -> bool:
        """Create and precondition the data that the points of one target need.

        Returns:
            False if preconditioning found no steady state.

        Raises:
            PrepareError: A step of the preparation failed.
            Interrupted: A stop was requested.
        """
        ...

    def run(
        self,
        run: PlannedRun,
        point: Point,
        engine: Engine,
        work_dir: Path,
        raw: dict[str, bytes],
    ) -> RunOutcome:
        """Execute one run and return its outcome.

        Args:
            run: Planned run.
            point: Point of the run.
            engine: Engine that executes it.
            work_dir: Empty directory for this run only.
            raw: Dict to which files to store are added, by name.

        Raises:
            StorlabError: The run could not start; also OSError and ValueError.
            Interrupted: A stop was requested.
        """
        ...

    def after(self, run: PlannedRun, point: Point, *, interrupted: bool = False) -> bool:
        """Restore the target after a run, for example by removing the run's files.

        Args:
            run: Planned run.
            point: Point of the run.
            interrupted: Whether an earlier session executed the run, so that it is unknown what
                the run left behind.

        Returns:
            Whether there was anything to do.

        Raises:
            PrepareError: A step failed.
            Interrupted: A stop was requested.
        """
        ...

    def clean_up(self) -> list[str]:
        """Remove the data that the study does not keep, and return their names."""
        ...


def _kind(point: Point) -> str:
    return point.kind


def start_at_once(engine: Engine, job: Job, work_dir: Path) -> RunHandle:
    """Start a job whose load begins as soon as the engine is ready."""
    return engine.start(job, work_dir)


class LocalSite:
    """This machine as site of a campaign. Implements :class:`storlab.lab.site.local.Site`.

    Args:
        study: Study of the campaign.
        guard: Guard, already entered.
        directory: Directory for the state of verify mode and for working files.
        stop: Stop request to watch.
        reporter: Receiver of progress.
        results: Store for preconditioning records; without it targets are not preconditioned.
        start: Function that starts a job on an engine.
        rereads: Function that returns whether this machine rereads blocks in verify mode.
        alive: Function that is called several times per second while blocks are reread.
    """

    def __init__(
        self,
        study: StudyBase,
        guard: Guard,
        directory: Path,
        stop: StopRequest,
        reporter: Reporter,
        results: ResultStore | None = None,
        start: Start = start_at_once,
        rereads: Callable[[Target], bool] = lambda _: True,
        alive: Callable[[], None] = lambda: None,
    ) -> None:
        self.study = study
        self.guard = guard
        self._directory = directory
        self._stop = stop
        self._reporter = reporter
        self._results = results
        self._start = start
        self._rereads = rereads
        self._alive = alive
        self._changed: set[str] = set()  # paths of data files that another program changed
        self._steps = Steps(directory / "work" / "step", stop, reporter)

    def prepare(self, target: Target, points: Sequence[Point]) -> bool:
        """Create and precondition the target's data; return whether it is steady."""
        access = self.guard.access[target.name]
        self._mark_changed(target)
        self._forget_steady(dataset.to_lay_out(access.members))
        dataset.lay_out(
            access.members,
            self.guard.files,
            direct=target.direct,
            seed=self.study.study.seed,
            stop=self._stop,
            reporter=self._reporter,
        )
        steady = True
        if target.precondition is not None and self._results is not None:
            ground = self.ground(target)
            record = precondition(target, ground, self._results, self._reporter)
            steady = is_ready(record)
        for kind, own in groupby(sorted(points, key=_kind), _kind):
            self._steps.before(list(own), self.data_context(target, kind))
        return steady

    def _mark_changed(self, target: Target) -> None:
        try:
            self._spoil()
        except OSError as error:
            what = "another program changed the data file, and it cannot be written again: "
            what += str(error.strerror)
            fix = "free space, and end the program that writes to the file"
            raise PrepareError(target.name, Failure(message=what, fix=fix)) from error

    def _forget_steady(self, anew: Sequence[Member]) -> None:
        """Remove the preconditioning records of targets whose files will be written again."""
        paths = {member.path for member in anew}
        for name, members in self.guard.members.items():
            if self._results is not None and paths & {member.path for member in members}:
                self._results.forget_prepare(target_slug(name))

    def ground(self, target: Target) -> Members:
        """Return the files and devices of a target as data to precondition."""
        members, seed = self.guard.access[target.name].members, self.study.study.seed
        return Members(target, members, seed, self._start, self._stop, self._reporter)

    def data_context(self, target: Target, kind: str) -> JobContext:
        """Return the context in which data sets of a workload family are created on a target."""
        del kind
        return JobContext(
            header=self.study.study,
            target=target,
            access=self.guard.access[target.name],
            seed=self.study.study.seed,
            work_dir=self._steps.work_dir,
        )

    def context(self, run: PlannedRun, point: Point, work_dir: Path) -> JobContext:
        """Return what a workload needs to build the job of a run: target, access, seed, paths."""
        return run_context(self.study, point, run, self.guard.access[point.target], work_dir)

    def run(
        self,
        run: PlannedRun,
        point: Point,
        engine: Engine,
        work_dir: Path,
        raw: dict[str, bytes],
    ) -> RunOutcome:
        """Execute one run; in verify mode, reread and verify its blocks afterwards."""
        context = self.context(run, point, work_dir)
        verification = Verification(self._directory, context.target)
        job = FAMILIES[point.kind].job(point, context)
        job = verification.prepare(run.run_id, job)
        raw["job.json"] = job.stored()
        outcome = self._load(engine, job, context, point)
        if asks_for_check(job) and outcome.status == "finished" and self._rereads(context.target):
            self._reporter.note(f"verifying {run.run_id}")
            verification.check(job, outcome, self._stop, self._alive)
        return outcome

    def _load(self, engine: Engine, job: Job, context: JobContext, point: Point) -> RunOutcome:
        """Execute the load of a run while its files and devices are monitored.

        The outcome gets details about the medium, and a failure if another program changed a file.
        """
        medium = medium_behind(context.target, context.access, self.guard.base)
        with ExitStack() as stack:
            members = None
            if job.places():
                estimate = FAMILIES[point.kind].estimate(point, context.header, context.target)
                members = stack.enter_context(
                    MemberWatch(
                        job.places(),
                        medium,
                        estimate,
                        direct=context.target.direct,
                        seed=context.seed,
                    )
                )
            outcome = self._watched(engine, job, context, list(medium.devices))
            if context.target.s3 is None:
                outcome.details["medium"] = {
                    "memory": list(medium.memory),
                    "cached": list(medium.cached),
                    "unknown": list(medium.unknown),
                }
            if members is not None:
                members.judge(outcome, self._stop)
        if outcome.failure is not None and outcome.failure.changed is not None:
            self._changed |= {member.path for member in job.places()} & self.guard.files.keys()
            with suppress(OSError):  # full file system: prepare() tries again
                self._spoil()
        return outcome

    def _spoil(self) -> None:
        """Mark data files that another program changed, so that they are written again."""
        for path in sorted(self._changed):
            if Path(path).exists() and made_by_storlab(Path(path)):
                self.guard.files[path].spoil()
            self._changed.discard(path)

    def _watched(
        self, engine: Engine, job: Job, context: JobContext, devices: Sequence[Device]
    ) -> RunOutcome:
        hold = self.guard.stores.get(context.target.name)
        server = None if hold is None else hold.server
        below = drives_of(devices_below(context.target, context.access, self.guard.base))
        recorded = {} if self._results is None else self._results.environment
        changed = changes(recorded, described(context.target, self.guard.base))
        with ExitStack() as stack:
            health = stack.enter_context(HealthWatch(below))
            asked = stack.enter_context(ProcessBytes())
            moved = stack.enter_context(DeviceBytes(devices)) if devices else None
            cpu = None if server is None else stack.enter_context(ServerCpu(server.cpu))
            sensors = {n: f for d in below for n, f in temperature_files(d.sysfs).items()}
            warm = stack.enter_context(TemperatureWatch(sensors)) if sensors else None
            waits = stack.enter_context(CoreWaits())
            limits = stack.enter_context(LimitWatch(devices))
            machine = stack.enter_context(MachineWatch(below))
            with pinned_near(below) if context.header.numa_local else nullcontext():
                handle = self._start(engine, job, context.work_dir)
            asked.child = handle.pid if isinstance(handle, ChildRun) else None
            machine.child = asked.child
            outcome = finish(handle, self._stop, self._reporter.run_progress)
        window = (outcome.window_start_ns, outcome.window_end_ns)
        outcome.details["device"] = None if moved is None else moved.around(*window)
        outcome.details.update(FAMILIES[job.kind].run_facts(job, outcome))
        outcome.details["process"] = bytes_around(asked.readings, *window)
        outcome.server_cpu = None if cpu is None else cpu.within(*window)
        limits.judge(outcome)
        machine.judge(outcome, changed)
        course: dict[str, Any] = {} if moved is None else dict(moved.course(*window))
        if warm is not None:
            course["celsius"] = warm.by_drive()
        health.judge(outcome, course.get("celsius", {}))
        if kept := waits.course(*window, STARVED_PERCENT / 100, MOST_OF_COURSE):
            course[WAITS] = kept
        if course:
            outcome.raw[COURSE_FILE] = json.dumps(course, separators=(",", ":")).encode()
        return outcome

    def after(self, run: PlannedRun, point: Point, *, interrupted: bool = False) -> bool:
        """Execute the clean-up steps of the workload family after a run, even after a failure."""
        del interrupted
        return self._steps.after(point, self.context(run, point, self._steps.work_dir))

    def clean_up(self) -> list[str]:
        """Remove this campaign's files, objects and directories, unless the study keeps them.

        Returns the names of what was removed.
        """
        members = self.guard.members
        kept = {m.path for t in self.study.target if t.keep_data for m in members.get(t.name, [])}
        removed = dataset.clean_up(
            [m for own in members.values() for m in own if m.path not in kept], self.guard.files
        )
        for path, data in self.guard.files.items():
            if path not in kept and data.owner != self.guard.campaign:
                self._reporter.note(
                    f"{path} was not removed: campaign {data.owner} created it, and may need it"
                )
        # In reverse order, because the first of several targets in a bucket created the bucket.
        for name, hold in reversed(self.guard.stores.items()):
            if not self.study.target_named(name).keep_data:
                removed += self._clean(name, partial(clean_store, hold, reporter=self._reporter))
        named = {home: name for name, home in self.guard.homes.items()}
        for name, home in self.guard.homes.items():
            if self.study.target_named(name).keep_data:
                named.pop(home, None)
        for home, name in named.items():
            removed += self._clean(name, home.clean)
        return removed

    def _clean(self, name: str, clean: Callable[[StopRequest], list[str]]) -> list[str]:
        return clean_or_tell(name, clean, self._directory, self._stop, self._reporter)
