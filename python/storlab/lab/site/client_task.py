"""Tasks of a campaign on one client: prepare targets, execute runs, clean up, report progress."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import ExitStack
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any, TypeVar

from storlab.base.clock import monotonic_ns, sleep_s
from storlab.base.errors import StorlabError
from storlab.base.units import NS_PER_S, format_duration
from storlab.cluster import leftovers
from storlab.cluster.client import ClientEnd
from storlab.cluster.client_facts import nic_bytes, nic_speed
from storlab.cluster.link import NAP_S
from storlab.cluster.share import MeetingRun
from storlab.contracts.engine import Engine, HeldRun, HoldsRuns, RunHandle, SharedRun, SharesRuns
from storlab.contracts.family import JobContext, Share
from storlab.contracts.registry import FAMILIES, get_engine
from storlab.contracts.reporter import Reporter
from storlab.contracts.services import dividing_family
from storlab.lab.plan.jobs import run_context
from storlab.lab.prepare.dataset import PrepareError, to_lay_out
from storlab.lab.prepare.precondition import Start
from storlab.lab.site.client_report import ClientReport, Filled, NicBytes
from storlab.lab.site.client_view import (
    ClientGuard,
    CommonPlaces,
    check_mounted,
    client_study,
    keeping_nothing,
    plan_of_targets,
    shared_study,
)
from storlab.lab.site.local import LocalSite
from storlab.lab.site.verification import Reread, collect, read_by_others, reread
from storlab.lab.study.file import parse_study
from storlab.lab.watch.machine_watch import described
from storlab.model.job import Job
from storlab.model.latencies import latencies_of
from storlab.model.point import Plan, PlannedRun, Point
from storlab.model.result import Failure, Snapshot
from storlab.model.s3 import S3Access, access_of
from storlab.model.study import StudyBase, Target
from storlab.process.counters import CounterReading, CounterWatch
from storlab.process.execution import POLL_S, Interrupted, StopRequest
from storlab.process.host_memory import host_memory_bytes
from storlab.stores.directory_lease import DirectoryLease, Holder, await_lease
from storlab.stores.s3.keys import CLIENT

STUCK = 20  # longest time without progress, in multiples of ``lost_after``
_GIVE_UP_NS = 10 * NS_PER_S
WRITE = ("prepare", "fill", "overwrite", "run")  # tasks that write data to be measured


def do_task(end: ClientEnd) -> None:
    """Execute a task that rank 0 (the controller) has ordered, and send a report to it.

    Locks on shared directories are kept until rank 0 confirms that all clients have ended.
    """
    end.give_facts({})
    # Take the input first: rank 0 sends it at once and does not wait for locks on directories.
    content = end.take_input() if end.order.takes_inputs else b""
    with ExitStack() as claimed:
        end.end(_report(end, content, claimed).pack())


def _report(end: ClientEnd, content: bytes, claimed: ExitStack) -> ClientReport:
    """Execute the task and return its report, which also holds any error."""
    teller = ProgressSender(end)
    reporter = ClientReporter(teller)
    report = ClientReport()
    try:
        claims = teller.during("prepare", lambda: _claim(end, reporter, claimed))
        _do(end, content, teller, reporter, report)
        for claim in claims:
            claim.ends |= end.order.arguments["claim"]["ends"]
    except Interrupted:
        report.interrupted = True
    except PrepareError as error:
        report.failure = error.failure
    except StorlabError as error:
        report.failure = Failure(message=f"{error.where}: {error.what}", fix=error.fix)
    except OSError as error:
        name = None if error.filename is None else str(error.filename)
        report.failure = Failure(message=error.strerror or str(error), errno=error.errno, path=name)
    except ValueError as error:
        report.failure = Failure(message=str(error), fix="correct the workload")
    report.notes += reporter.notes
    return report


def _claim(end: ClientEnd, reporter: ClientReporter, stack: ExitStack) -> list[DirectoryLease]:
    """Lock the shared directories; return the locks.

    Only the first client locks them. Other clients wait for these locks before they write.
    """
    claimed = end.order.arguments.get("claim")
    if claimed is None:
        return []

    def meanwhile(what: str, total_s: float, gone_s: float) -> None:
        reporter.step(what, total_s)
        reporter.step_progress(gone_s)
        if end.stop.requested:
            raise Interrupted

    place = end.place
    writes = end.order.task in (*WRITE, "verify") and not end.order.loads
    if place.rank != 1 and not writes:
        return []  # a load starts only together with the first client
    own = Holder(**claimed["holder"], client=place.name, task=end.order.nonce)
    names = claimed["directories"]
    # The order of directories must be the same on all clients.
    directories = [place.path_of(name, claimed["mount"]) for name in names]
    check_mounted(place.mount, directories)
    paths = sorted({directory.resolve() for directory in directories})
    if place.rank == 1:
        claims = [DirectoryLease(path, own, meanwhile) for path in paths]
        for claim in claims:
            claim.look()
        return [stack.enter_context(claim) for claim in claims]
    for path in paths:
        await_lease(path, own, meanwhile)
    return []


def _do(
    end: ClientEnd,
    content: bytes,
    teller: ProgressSender,
    reporter: ClientReporter,
    report: ClientReport,
) -> None:
    if end.order.task == "verify":
        report.reread = _reread(end, content)
        return
    with leftovers.client_folder() as directory, ExitStack() as stack:
        task = ClientTask(end, directory, teller, reporter, stack)
        task.do(report)


def _reread(end: ClientEnd, content: bytes) -> Reread | None:
    """Reread and verify the blocks that another client wrote; lock only the files to be read."""

    def keep_going() -> bool:
        end.tell({"phase": "verify"})
        return not end.stop.requested

    if not content:
        return None
    report = reread(content, end.place, end.order.arguments["campaign"], keep_going)
    if end.stop.requested:
        raise Interrupted
    return report


class ClientTask:
    """Executes one task on this client, with its targets locked by a guard."""

    def __init__(
        self,
        end: ClientEnd,
        directory: Path,
        teller: ProgressSender,
        reporter: ClientReporter,
        stack: ExitStack,
    ) -> None:
        self._end = end
        self._teller = teller
        self._directory = directory
        arguments = end.order.arguments
        study = parse_study(arguments["study"])
        if not arguments.get("keeps", True):
            study = keeping_nothing(study)
        whole = shared_study(study, end.place, Path(arguments["base"]))
        self._study = client_study(whole, end.place)
        self._plan = plan_of_targets(
            Plan.model_validate(arguments["plan"]), set(arguments["targets"])
        )
        self._guard = teller.during(
            "prepare", lambda: stack.enter_context(self._make_guard(arguments, whole))
        )
        self._armed_ns: int | None = None
        self._shared: SharedRun | None = None  # set for work that is divided among all clients
        share = Share(end.place.rank - 1, len(end.order.clients))
        self._site = ClientSite(
            self._study,
            whole,
            share,
            self._guard,
            directory,
            end.stop,
            reporter,
            self._start,
            rereads=lambda target: not read_by_others(target),
            alive=lambda: teller.tell({"phase": "verify"}),
        )

    def _make_guard(self, arguments: dict[str, Any], whole: StudyBase) -> ClientGuard:
        end = self._end
        shared = {name: access_of(grant) for name, grant in arguments["granted"].items()}
        granted = {name: _own_access(access, end.place.name) for name, access in shared.items()}
        needed = end.order.task in WRITE
        meanwhile = self._await_others if needed else None
        return ClientGuard(
            self._study,
            self._plan,
            campaign=arguments["campaign"],
            consented=arguments["consented"],
            granted=granted,
            place=end.place,
            common=CommonPlaces(whole, shared, meanwhile),
            peers=[client.name for client in end.order.clients if end.order.loads],
            resumed=arguments["resumed"],
        )

    def _await_others(self) -> None:
        self._teller.tell({"phase": "prepare"})
        if self._end.stop.requested:
            raise Interrupted

    def do(self, report: ClientReport) -> None:
        """Execute the ordered task, such as ``prepare`` or ``run``, and fill in its report."""
        tasks: dict[str, Callable[[ClientReport], None]] = {
            "prepare": self._prepare,
            "fill": self._fill,
            "overwrite": self._overwrite,
            "run": self._run,
            "after": self._after,
            "clean": self._clean,
        }
        tasks[self._end.order.task](report)

    def _prepare(self, report: ClientReport) -> None:
        points = [self._plan.points[key] for key in self._end.order.arguments["points"]]
        target = self._target()
        members = self._guard.access[target.name].members

        def prepare() -> None:
            report.laid_out = bool(to_lay_out(members))
            self._site.prepare(target, points)

        self._teller.during("prepare", prepare)

    def _fill(self, report: ClientReport) -> None:
        ground = self._site.ground(self._target())
        members, filled = self._teller.during("prepare", ground.fill)
        report.filled = Filled(members, **filled)

    def _overwrite(self, report: ClientReport) -> None:
        """Run one round of preconditioning; all clients start together, as in a run."""
        target = self._target()
        ground = self._site.ground(target)
        length = 0 if target.precondition is None else target.precondition.round
        ground.reporter.step(f"preconditioning {target.name}", float(length))
        report.written_mb_s = ground.overwrite(self._end.order.arguments["round"])

    def _target(self) -> Target:
        (name,) = self._end.order.arguments["targets"]
        return self._study.target_named(name)

    def _run(self, report: ClientReport) -> None:
        run, point = self._planned()
        work_dir = self._directory / "run"
        work_dir.mkdir()
        raw: dict[str, bytes] = {}
        nics = self._end.place.data_nics
        target = self._study.target_named(point.target)
        report.state = described(target, self._guard.base)
        with ExitStack() as stack:
            watch = None
            if nics:
                watch = stack.enter_context(
                    CounterWatch(lambda: nic_bytes(nics), "storlab-nic-bytes")
                )
            report.outcome = self._site.run(run, point, get_engine(point.engine), work_dir, raw)
        report.latencies = latencies_of(s.latency for s in report.outcome.samples)
        report.meetings = [] if self._shared is None else self._shared.met()
        report.memory_bytes = host_memory_bytes()
        report.job = raw["job.json"]
        if read_by_others(target):
            report.written = collect(self._directory)
        report.armed_ns = self._armed_ns
        window = (report.outcome.window_start_ns, report.outcome.window_end_ns)
        report.nic_bytes = None if watch is None else nic_bytes_around(watch.readings, *window)
        report.nic_speeds = [nic_speed(name) for name in nics]
        context = self._site.context(run, point, work_dir)
        report.worked = bool(FAMILIES[point.kind].after(point, context))

    def _after(self, report: ClientReport) -> None:
        run, point = self._planned()
        report.worked = self._teller.during("after", lambda: self._site.after(run, point))

    def _clean(self, report: ClientReport) -> None:
        report.removed = self._teller.during("clean", self._site.clean_up, endless=True)
        self._guard.remove_folders()

    def _planned(self) -> tuple[PlannedRun, Point]:
        """Return the run of the task and its point, with the rate of this client if it has one."""
        arguments = self._end.order.arguments
        run = PlannedRun.model_validate(arguments["run"])
        point = self._plan.points[run.point_id]
        params = arguments.get("params", point.params)
        return run, point.model_copy(update={"params": params})

    def _start(self, engine: Engine, job: Job, work_dir: Path) -> RunHandle:
        """Set up a run, report that it is ready, and start it together with all clients."""
        deadline_ns = monotonic_ns() + self._end.order.arm_within_ns
        handle = self._teller.during("prepare", lambda: self._hold(engine, job, work_dir))
        if handle is None:
            self._armed_ns = monotonic_ns() - self._end.received_ns
            _sleep_until(self._end.wait_for_start())
            return engine.start(job, work_dir)
        try:
            if self._await_armed(handle, deadline_ns):
                self._armed_ns = monotonic_ns() - self._end.received_ns
                handle.open_at(self._end.wait_for_start())
        except BaseException:
            self._give_up(handle)
            raise
        return handle if self._shared is None else MeetingRun(self._shared, self._end)

    def _hold(self, engine: Engine, job: Job, work_dir: Path) -> HeldRun | None:
        """Set up a run that waits for its start; return None if the engine cannot do that."""
        if dividing_family(job.kind) is not None and isinstance(engine, SharesRuns):
            self._shared = engine.share(job, work_dir)
            return self._shared
        return engine.hold(job, work_dir) if isinstance(engine, HoldsRuns) else None

    def _give_up(self, handle: HeldRun) -> None:
        """Cancel a run and wait for its end for at most 10 s.

        Messages to rank 0 continue meanwhile. A worker that hangs in the kernel is abandoned; this
        process ends after its task.
        """
        handle.cancel()
        deadline_ns = monotonic_ns() + _GIVE_UP_NS
        while handle.wait(NAP_S) is None and monotonic_ns() < deadline_ns:
            self._end.tell({"phase": "prepare"})

    def _await_armed(self, handle: HeldRun, deadline_ns: int) -> bool:
        """Wait until a run is ready to start.

        Returns:
            False if the run has failed already.

        Raises:
            PrepareError: The run is not ready in time.
            Interrupted: A stop was requested.
        """
        while not handle.armed():
            if handle.wait(NAP_S) is not None:
                return False
            self._end.tell({"phase": "prepare"})
            if self._end.stop.requested:
                raise Interrupted
            if monotonic_ns() > deadline_ns:
                raise PrepareError("arming", _late(self._end.order.arm_within_ns))
        return True


def _late(limit_ns: int) -> Failure:
    return Failure(
        message=f"was not ready to start within {format_duration(limit_ns)}: a worker still opens "
        "its files or allocates its buffers",
        fix="check that the target answers on that client, or increase arm_within of [cluster]",
    )


def _own_access(access: S3Access, name: str) -> S3Access:
    """Return access to an S3 store with a prefix for this client, below the campaign's prefix."""
    return access.model_copy(update={"prefix": f"{access.prefix}{CLIENT}-{name}/"})


def nic_bytes_around(
    readings: Sequence[CounterReading], start_ns: int, end_ns: int
) -> NicBytes | None:
    """Return the network bytes from the last reading before a window to the first after it.

    So all bytes of the window are counted, even if a busy machine takes readings late.
    """
    if len(readings) < 2:
        return None
    first = max((r for r in readings if r.time_ns <= start_ns), key=_time, default=readings[0])
    last = min((r for r in readings if r.time_ns >= end_ns), key=_time, default=readings[-1])
    grown = [after - before for before, after in zip(first.values, last.values, strict=True)]
    return NicBytes(sum(grown[0::2]), sum(grown[1::2]), last.time_ns - first.time_ns)


def _time(reading: CounterReading) -> int:
    return reading.time_ns


def _sleep_until(start_ns: int) -> None:
    while (left_ns := start_ns - monotonic_ns()) > 0:
        sleep_s(left_ns / NS_PER_S)


class ClientSite(LocalSite):
    """Site of one client: executes the client's part of each run.

    If the clients divide the work of a run, the client does its ``share``. ``whole`` is the study
    with the seed and the directories that all clients have in common.
    """

    def __init__(
        self,
        study: StudyBase,
        whole: StudyBase,
        share: Share,
        guard: ClientGuard,
        directory: Path,
        stop: StopRequest,
        reporter: Reporter,
        start: Start,
        rereads: Callable[[Target], bool],
        alive: Callable[[], None],
    ) -> None:
        super().__init__(
            study, guard, directory, stop, reporter, start=start, rereads=rereads, alive=alive
        )
        self._whole = whole
        self._share = share
        self._places = guard

    def data_context(self, target: Target, kind: str) -> JobContext:
        """Return the context in which data sets of a workload family are created on a target.

        If the family's clients share data, it is the context that is common to all clients.
        """
        context = super().data_context(target, kind)
        offer = dividing_family(kind)
        if offer is None or not offer.shares_data:
            return context
        header = self._whole.study
        return replace(
            context,
            header=header,
            target=self._whole.target_named(target.name),
            access=self._places.shared[target.name],
            seed=header.seed,
            share=self._share,
        )

    def context(self, run: PlannedRun, point: Point, work_dir: Path) -> JobContext:
        """Return the context of a run on this client, with its share if the work is divided."""
        offer = dividing_family(point.kind)
        if offer is None:
            return super().context(run, point, work_dir)
        if not offer.shares_data:
            return replace(super().context(run, point, work_dir), share=self._share)
        access = self._places.shared[point.target]
        return run_context(self._whole, point, run, access, work_dir, self._share)

    def clean_up(self) -> list[str]:
        """Remove this client's data and, on the first client, the shared data; return the names."""
        removed = super().clean_up()
        for name, hold in self._places.shared_homes.items():
            if not self.study.target_named(name).keep_data:
                removed += self._clean(name, hold.clean)
        return removed


ResultT = TypeVar("ResultT")


class ProgressSender:
    """Sends progress messages of this client to rank 0, from one thread.

    Other threads only leave messages, which this thread sends.
    """

    def __init__(self, end: ClientEnd) -> None:
        self._end = end
        self._thread = threading.get_ident()
        self._last: dict[str, Any] = {}

    def tell(self, snapshot: dict[str, Any]) -> None:
        """Send a snapshot of progress to rank 0; safe to call from any thread."""
        if threading.get_ident() == self._thread:
            self._end.tell(snapshot)
        else:
            self._last = snapshot

    def during(self, phase: str, work: Callable[[], ResultT], *, endless: bool = False) -> ResultT:
        """Run blocking work in another thread, and meanwhile keep sending messages to rank 0.

        Flushing a data set or removing a large file may take longer than a client may be silent.
        Work that makes no progress for too long is treated as hung, as on a mount whose server is
        gone: messages then stop, unless ``endless`` is set. The work must not use the MPI link.
        """
        told = self._last = {"phase": phase}
        news_ns, stuck_ns = monotonic_ns(), STUCK * self._end.order.lost_after_ns
        with ThreadPoolExecutor(1, "storlab-work") as thread:
            done = thread.submit(work)
            while not wait([done], POLL_S).done:
                if told != self._last:
                    told, news_ns = self._last, monotonic_ns()
                if endless or monotonic_ns() - news_ns < stuck_ns:
                    self._end.tell(told)
            return done.result()


class ClientReporter(Reporter):
    """Reporter that sends preparation and load progress to rank 0."""

    def __init__(self, teller: ProgressSender) -> None:
        self._teller = teller
        self._text, self._total = "", 0.0
        self.notes: list[str] = []

    def step(self, text: str, total: float | None = None) -> None:
        """Send the start of a preparation step to rank 0."""
        self._text, self._total = text, total or 0.0
        self._teller.tell({"phase": "prepare", "text": text, "total": self._total, "done": 0.0})

    def step_progress(self, done: float, snapshot: Snapshot | None = None) -> None:
        """Send the progress of the current preparation step to rank 0."""
        del snapshot
        told = {"phase": "prepare", "text": self._text, "total": self._total, "done": done}
        self._teller.tell(told)

    def run_progress(self, snapshot: Snapshot) -> None:
        """Send the progress of the load to rank 0."""
        self._teller.tell(asdict(snapshot))

    def note(self, text: str) -> None:
        """Store a note for the report at the end of the task."""
        self.notes.append(text)
