"""Run of a job by fio: child process, status documents and outcome."""

from __future__ import annotations

import gzip
import json
import os
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from storlab.base.clock import monotonic_ns
from storlab.base.units import NS_PER_MS, NS_PER_S, significant
from storlab.engines.fio import gate as fio_gate
from storlab.engines.fio import job as fio_job
from storlab.engines.fio import libcufile
from storlab.engines.fio import result as fio_result
from storlab.engines.fio import series as fio_series
from storlab.engines.fio.failure import Ended, explain
from storlab.engines.fio.gate import Gate
from storlab.engines.fio.result import Figures, FioFormatError, FioOutput
from storlab.engines.fio.series import PackedStatus, Status
from storlab.model.job import NamedJob
from storlab.model.result import CpuUse, EngineInfo, Failure, GroupOutcome, RunOutcome, Snapshot
from storlab.process.child import ENDED, ChildRun, Launch
from storlab.process.host_memory import most_dirty_bytes
from storlab.workloads.block.job import BlockJob

KILL_AFTER_S = 10.0  # time for fio to write its result after SIGINT
_MOST_NOTES = 20
_GRACE_NS = 60 * NS_PER_S  # a run counts as hung this long after ramp, window and drain
# Time without progress after which a run with a byte limit is treated as hung.
_STALL_NS = 300 * NS_PER_S
_SLOWEST_BYTES_S = 5_000_000  # slowest plausible speed of flushing written data
_QUICK = 1  # gzip level: low, since compression runs beside fio


@dataclass(frozen=True, slots=True)
class _Seen:
    """Status document of fio, with its time of arrival on the run's clock."""

    arrival_ns: int
    status: PackedStatus


class FioRun(ChildRun):
    """Run of a job by fio, in progress. Every method may be called from any thread."""

    piped = True
    account_note = "of the whole process, including set-up and ramp"

    def __init__(
        self,
        job: BlockJob,
        launch: Launch,
        info: EngineInfo,
        caveats: Sequence[str] = (),
        gate: Gate | None = None,
        groups: Sequence[NamedJob[BlockJob]] = (),
    ) -> None:
        self._job = job
        self._groups = groups  # groups that fio reports separately; ``job`` is their sum
        self._caveats = caveats
        self._gate = gate  # gate of a held run
        self._seen: list[_Seen] = []
        self._latest: list[Status] = []  # the last two status documents
        self._printed: list[bytes] = []  # all output, compressed: hours of it are hundreds of MB
        self._notes: list[str] = []  # lines outside of documents
        self._document: list[str] = []  # lines of the document being received
        self._last = ""  # text of the last complete document
        self._odd = False  # whether a document could not be parsed
        self._moved = 0  # bytes moved according to the last document
        self._limit_ns = job.ramp_ns + (_stall_ns(job) if job.window_ns is None else _end_ns(job))
        super().__init__(launch, info)

    def snapshot(self) -> Snapshot:
        """Return the run's phase, and rates from the last status document of fio."""
        if self.has_ended:
            return ENDED
        elapsed_ns = monotonic_ns() - self._begun_ns
        if elapsed_ns < 0 or self._waits:
            waits: Literal["prepare", "armed"] = "armed" if self.armed() else "prepare"
            return Snapshot(waits, 0)
        latest = self._latest
        if self._job.ramp_ns and not (latest and latest[-1].figures.measuring):
            return Snapshot("ramp", elapsed_ns, self._job.ramp_ns)
        elapsed_ns = max(0, elapsed_ns - self._job.ramp_ns)
        window_ns = self._job.window_ns
        phase = "drain" if window_ns is not None and elapsed_ns > window_ns else "measure"
        operations_s, bytes_s, cpu_percent = _rates(latest)
        return Snapshot(
            "drain" if phase == "drain" else "measure",
            elapsed_ns,
            window_ns,
            operations_s,
            bytes_s,
            _worst_p99(latest[-1]) if latest else None,
            cpu_percent,
        )

    def overdue(self) -> bool:
        """Return whether the run exceeds its time limit or, with a byte limit, has stalled."""
        if self._waits:
            return False  # the holder of the run enforces its own time limit
        return monotonic_ns() - self._begun_ns > self._limit_ns

    def armed(self) -> bool:
        """Return whether all jobs of a held run are set up and wait for their start."""
        return self._gate is not None and self._gate.armed

    def open_at(self, start_ns: int) -> None:
        """Set when the load of a held run starts.

        Raises:
            RuntimeError: The run is not held, or its start time is already set.
        """
        if self._gate is None:
            raise RuntimeError("the run is not held")
        self._gate.open_at(start_ns)

    @property
    def _waits(self) -> bool:
        return self._gate is not None and self._gate.start_ns is None

    @property
    def _begun_ns(self) -> int:
        """Time (ns) at which the load starts: for a held run, when its gate opens."""
        opened_ns = None if self._gate is None else self._gate.start_ns
        return self.started_ns if opened_ns is None else opened_ns

    def line(self, text: str) -> None:
        """Process a line of fio's output, either a message or a line of a status document.

        A document starts with ``{`` and ends with ``}`` in column 1.
        """
        if not self._document and not text.startswith("{"):
            self._notes.append(text)
            self._keep(text)
            return
        self._document.append(text)
        if text.startswith("}"):
            self._last, self._document = "".join(self._document), []
            self._see(self._last)

    def _keep(self, text: str) -> bytes:
        packed = gzip.compress(text.encode(), _QUICK, mtime=0)
        self._printed.append(packed)
        return packed

    def _see(self, text: str) -> None:
        arrival_ns = monotonic_ns()
        packed = self._keep(text)
        try:
            value = json.loads(text)
            figures = fio_result.merge(fio_result.read_document(value))
            status = Status(int(value["timestamp_ms"]), figures)
        except (ValueError, KeyError):
            self._odd = True
            return
        self._seen.append(_Seen(arrival_ns, PackedStatus(status.timestamp_ms, packed)))
        self._latest = [*self._latest[-1:], status]
        moved = sum(direction.bytes for direction in figures.directions.values())
        if moved != self._moved and self._job.window_ns is None:
            self._moved = moved
            self._limit_ns = arrival_ns - self._begun_ns + _stall_ns(self._job)

    def finish(self) -> RunOutcome:
        """Return the outcome of a fio process that has ended."""
        if self._gate is not None:
            self._gate.close()
        stdout = self._telling()
        output: FioOutput | None = None
        damage: str | None = None
        try:
            output = fio_result.split_output(stdout)
            fio_result.read_document(output.documents[-1])
        except FioFormatError as error:
            output, damage = None, str(error)
        ended = Ended(
            exit_code=self.exit_code,
            output=output,
            damage=damage,
            stdout=stdout,
            stderr=(self.launch.work_dir / "stderr.txt").read_text(errors="replace"),
        )
        outcome = self._make_outcome(ended)
        outcome.raw = self._raw(ended)
        return outcome

    def _telling(self) -> str:
        """Return the output from which to read the result: messages and the last document.

        If a status document was unreadable, the whole output is returned.
        """
        rest = "".join(self._document)  # incomplete document
        if rest:
            self._keep(rest)
        return self._whole().decode() if self._odd else "".join([*self._notes, self._last, rest])

    def _whole(self) -> bytes:
        return gzip.decompress(b"".join(self._printed))

    def account(self) -> dict[str, object]:
        """Return exit code, user and system CPU time, and wall time of the fio process."""
        user_s, system_s = self.used_s
        return {
            "exit_code": self.exit_code,
            "user_s": user_s,
            "system_s": system_s,
            "wall_s": (self.ended_ns - self.started_ns) / NS_PER_S,
            "note": self.account_note,
        }

    def _failure(self, ended: Ended) -> Failure | None:
        if self.hung:
            return self.hung_failure("read fio's output in raw/ and the kernel's log")
        failure = None if self.cancelled else explain(self._job, ended)
        if failure is not None and self.info.backend == libcufile.BACKEND:
            return libcufile.explained(failure, ended.messages)
        return failure

    def _make_outcome(self, ended: Ended) -> RunOutcome:
        notes = list(self._caveats)
        lines = [*(ended.output.notes if ended.output else []), *ended.stderr.splitlines()]
        lines = [line for line in lines if line.strip() and fio_gate.NOTE not in line]
        notes += [f"fio: {line.strip()}" for line in lines[:_MOST_NOTES]]
        outcome = self.unmeasured()
        outcome.notes = notes
        outcome.conclude(self._failure(ended))
        if ended.output is not None and self._seen:
            self._measure(outcome)
        if self._gate is not None:
            outcome.first_io_late_ns = self._gate.first_late_ns
            outcome.last_worker_late_ns = self._gate.last_late_ns
        return outcome

    def _measure(self, outcome: RunOutcome) -> None:
        """Set window, samples, totals and CPU use of the outcome from fio's status documents."""
        statuses = [seen.status for seen in self._seen]
        final = statuses[-1].figures
        # Every document arrives with some delay after its time stamp. The one with the least delay
        # gives the best offset between fio's UNIX time and the run's clock.
        offset_ns = min(s.arrival_ns - s.status.timestamp_ms * NS_PER_MS for s in self._seen)
        start_ns = self._window_start_ns(statuses, offset_ns)
        outcome.window_start_ns = start_ns
        outcome.window_end_ns = start_ns + final.runtime_ms * NS_PER_MS
        outcome.samples = fio_series.samples(
            statuses, start_ns, offset_ns, fio_job.status_interval_ms(self._job) * NS_PER_MS
        )
        outcome.totals = fio_result.totals(final)
        share = fio_result.window_share(final.job_runtime_ms, final.runtime_ms * self._job.jobs)
        if share < 1:
            outcome.notes.append("fio's CPU time includes the ramp; it is scaled to the window")
        user_ns, system_ns = round(final.user_ns * share), round(final.system_ns * share)
        outcome.cpu = CpuUse(
            user_ns=user_ns,
            system_ns=system_ns,
            cores=min(self._job.jobs, _usable_cores(self._job)),
            worker_ns=user_ns + system_ns,
            **self.trace.machine(outcome.window_start_ns, outcome.window_end_ns),
        )
        if not self._groups:
            outcome.notes += _sync_note(self._job, final)
        for index, group in enumerate(self._groups):
            own = [Status(s.timestamp_ms, s.parts[index]) for s in statuses]
            interval_ns = fio_job.status_interval_ms(self._job) * NS_PER_MS
            outcome.groups[group.name] = GroupOutcome(
                totals=fio_result.totals(own[-1].figures),
                samples=fio_series.samples(own, start_ns, offset_ns, interval_ns),
            )
            sync_notes = _sync_note(group.job, own[-1].figures)
            outcome.notes += [f"{group.name}: {note}" for note in sync_notes]

    def _window_start_ns(self, statuses: Sequence[PackedStatus], offset_ns: int) -> int:
        """Return the start of the measure window in ns.

        It is exact for a held run, and derived from status documents otherwise.
        """
        if self._gate is None or self._gate.first_late_ns is None:
            return fio_series.window_start_ms(statuses) * NS_PER_MS + offset_ns
        return self._begun_ns + self._gate.first_late_ns + self._job.ramp_ns

    def _raw(self, ended: Ended) -> dict[str, bytes]:
        raw = {
            "job.fio": (self.launch.work_dir / "job.fio").read_bytes(),
            **self.raw(),
            "stderr.txt": ended.stderr.encode(),
        }
        if ended.output is None:
            return raw | {"fio-output.txt": self._whole()}
        raw["fio.json"] = ended.output.texts[-1].encode()
        if len(self._printed) > 1:
            raw["fio-output.txt.gz"] = b"".join(self._printed)
        return raw


def _stall_ns(job: BlockJob) -> int:
    """Return how long (ns) a run with a byte limit may make no progress until it counts as hung."""
    flush_ns = _flush_ns(job.window_bytes or 0) if job.sync.kind != "none" else 0
    gap_ns = 3 * NS_PER_S / job.arrival.rate_iops if job.arrival.rate_iops else 0
    return _STALL_NS + job.drain_timeout_ns + flush_ns + round(gap_ns)


def _end_ns(job: BlockJob) -> int:
    """Return the time limit of a run with a fixed duration in ns, from the end of the ramp."""
    flush_ns = 0
    if job.sync.final and not job.direct:
        flush_ns = _flush_ns(min(sum(member.size for member in job.members), most_dirty_bytes()))
    return (job.window_ns or 0) + job.drain_timeout_ns + flush_ns + _GRACE_NS


def _flush_ns(size: int) -> int:
    return size * NS_PER_S // _SLOWEST_BYTES_S


def _usable_cores(job: BlockJob) -> int:
    allowed = os.sched_getaffinity(0)
    return len(set(job.cpus)) if job.cpus else len(allowed)


def _sync_note(job: BlockJob, final: Figures) -> list[str]:
    """Return a note if fio flushed at another interval than the job asked for.

    fio 3.33 flushes more often if more than one write is in flight.
    """
    flushes, writes = final.directions.get("sync"), final.directions.get("write")
    asked = job.sync.every_writes if job.sync.kind != "none" else 0
    if flushes is None or writes is None or not asked:
        return []
    done = writes.operations / flushes.operations
    if abs(done / asked - 1) <= 0.1 or writes.operations < 10 * asked:
        return []
    return [f"fio flushed after every {significant(done, 3)} writes instead of every {asked}"]


def _rates(latest: list[Status]) -> tuple[float | None, float | None, float | None]:
    """Return operations/s, bytes/s and CPU use between the last two status documents.

    CPU use is in percent of one core.
    """
    if not latest:
        return None, None, None
    now = latest[-1]
    then = latest[-2] if len(latest) == 2 and latest[-2].figures.measuring else None
    if then is None:
        span_s = now.figures.runtime_ms / 1000
    else:
        span_s = (now.timestamp_ms - then.timestamp_ms) / 1000
    if span_s <= 0:
        return None, None, None
    totals = [0.0, 0.0, 0.0]
    for sign, status in ((1, now), (-1, then)):
        if status is not None:
            figures = status.figures
            totals[0] += sign * sum(d.operations for d in figures.directions.values())
            totals[1] += sign * sum(d.bytes for d in figures.directions.values())
            totals[2] += sign * (figures.user_ns + figures.system_ns) / NS_PER_S
    operations, size, cpu_s = (max(0.0, total) / span_s for total in totals)
    return operations, size, 100 * cpu_s


def _worst_p99(status: Status) -> int | None:
    """Return the largest p99 latency of reads, writes and trims in the window so far, or None."""
    tails = [
        direction.latency.percentiles.get(99.0, 0)
        for operation, direction in status.figures.directions.items()
        if operation != "sync" and direction.latency is not None
    ]
    return max(tails, default=0) or None
