"""One fio process: started, watched, ended, and turned into an outcome."""

from __future__ import annotations

import gzip
import json
import os
import shlex
import signal
import subprocess
import sys
import threading
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import IO, cast

from storlab.base.clock import monotonic_ns
from storlab.base.units import NS_PER_S
from storlab.engines.fio import job as fio_job
from storlab.engines.fio import result as fio_result
from storlab.engines.fio import series as fio_series
from storlab.engines.fio.failure import Ended, explain
from storlab.engines.fio.result import NS_PER_MS, Figures, FioFormatError, FioOutput
from storlab.engines.fio.series import Status
from storlab.model.result import CpuUse, EngineInfo, Failure, RunOutcome, Snapshot
from storlab.process.defect import DEFECTS, defect_outcome
from storlab.process.machine_cpu import MachineTrace
from storlab.process.parent_death import start_child
from storlab.workloads.block.job import BlockJob

_KILL_AFTER_S = 10.0  # fio writes its result after SIGINT; then patience ends
_MOST_NOTES = 20
_GRACE_NS = 60 * NS_PER_S  # beyond ramp, window and drain, before a run counts as hung
_STALL_NS = 300 * NS_PER_S  # of a run that is bounded by bytes: so long without one more
_SLOWEST_BYTES_S = 5_000_000  # at which what was written may be flushed


@dataclass(frozen=True, slots=True)
class _Seen:
    """A status document, and when it reached us."""

    arrival_ns: int
    status: Status


@dataclass(frozen=True, slots=True)
class Launch:
    """How to start fio: in ``work_dir``, with these variables added to the environment."""

    command: list[str]
    environment: dict[str, str]
    work_dir: Path

    @property
    def text(self) -> str:
        """As one would type it."""
        variables = [f"{name}={shlex.quote(value)}" for name, value in self.environment.items()]
        return " ".join([*variables, shlex.join(self.command)])


class FioRun:
    """A run in progress. Every method may be called from any thread."""

    def __init__(self, job: BlockJob, launch: Launch, info: EngineInfo) -> None:
        self._job = job
        self._launch = launch
        self._work_dir = launch.work_dir
        self._info = info
        self._seen: list[_Seen] = []
        self._lines: list[str] = []
        self._machine = MachineTrace()
        self._machine.read()
        self._outcome: RunOutcome | None = None
        self._ended = threading.Event()
        self._cancelled = False
        self._hung = False
        self._started_ns = monotonic_ns()
        with (self._work_dir / "stderr.txt").open("wb") as stderr:
            self._process = start_child(
                launch.command,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=stderr,
                cwd=self._work_dir,
                env={**os.environ, **launch.environment},
                pass_fds=fio_job.held_fds(job),
                start_new_session=True,  # Ctrl-C reaches fio through cancel() only
                text=True,
                errors="replace",
            )
        self._moved = 0  # bytes, as fio said last
        if job.window_ns is not None:
            self._limit_ns = job.ramp_ns + job.window_ns + job.drain_timeout_ns + _GRACE_NS
        else:
            self._limit_ns = job.ramp_ns + self._stall_ns()
        self._alarm = _timer(self._limit_ns / NS_PER_S, self._look_whether_hung)
        self._watcher = threading.Thread(target=self._watch, name="fio", daemon=True)
        self._watcher.start()

    def cancel(self) -> None:
        """SIGINT, so that fio writes what it has; SIGKILL when that does not end it."""
        self._cancelled = True
        self._interrupt()

    def wait(self, timeout_s: float | None = None) -> RunOutcome | None:
        """The outcome, or None when the time-out passed first."""
        if not self._ended.wait(timeout_s):
            return None
        self._watcher.join()
        return self._outcome

    def snapshot(self) -> Snapshot:
        """What fio said last: it speaks once per interval."""
        if self._ended.is_set():
            return Snapshot("done", 0, None, 0.0, 0.0, None, None)
        elapsed_ns = monotonic_ns() - self._started_ns
        seen = self._seen[-2:]
        if self._job.ramp_ns and not (seen and seen[-1].status.figures.measuring):
            return Snapshot("ramp", elapsed_ns, self._job.ramp_ns, 0.0, 0.0, None, None)
        elapsed_ns = max(0, elapsed_ns - self._job.ramp_ns)
        window_ns = self._job.window_ns
        phase = "drain" if window_ns is not None and elapsed_ns > window_ns else "measure"
        operations_s, bytes_s, cpu_percent = _rates(seen)
        return Snapshot(
            "drain" if phase == "drain" else "measure",
            elapsed_ns,
            window_ns,
            operations_s,
            bytes_s,
            _worst_p99(seen[-1]) if seen else None,
            cpu_percent,
        )

    def _interrupt(self) -> None:
        if self._process.returncode is None:
            self._process.send_signal(signal.SIGINT)
            _timer(_KILL_AFTER_S, self._kill)

    def _kill(self) -> None:
        if not self._ended.is_set():
            self._process.kill()

    def _stall_ns(self) -> int:
        """How long nothing at all may move where the work ends by its bytes, not by the clock."""
        job = self._job
        flush_ns = 0
        if job.sync.kind != "none":
            flush_ns = (job.window_bytes or 0) * NS_PER_S // _SLOWEST_BYTES_S
        gap_ns = 3 * NS_PER_S / job.arrival.rate_iops if job.arrival.rate_iops else 0
        return _STALL_NS + job.drain_timeout_ns + flush_ns + round(gap_ns)

    def _look_whether_hung(self) -> None:
        if self._ended.is_set():
            return
        left_ns = self._started_ns + self._limit_ns - monotonic_ns()
        if left_ns > 0:
            self._alarm = _timer(left_ns / NS_PER_S, self._look_whether_hung)
            return
        self._hung = True
        self._interrupt()

    def _watch(self) -> None:
        """Read documents as fio prints them (``{`` to ``}`` in the first column), then reap it."""
        try:
            self._read_documents()
            self._finish()
        except DEFECTS as error:
            self._outcome = defect_outcome(self._info, error)
        finally:
            self._outcome = self._outcome or defect_outcome(self._info, sys.exception())
            self._alarm.cancel()
            if self._process.returncode is None:
                self._process.kill()  # nobody looks after it any more
            self._ended.set()

    def _read_documents(self) -> None:
        document: list[str] = []
        with cast(IO[str], self._process.stdout) as stdout:
            for line in stdout:
                self._lines.append(line)
                if line.startswith("{"):
                    document = []
                document.append(line)
                if line.startswith("}"):
                    self._see("".join(document))

    def _see(self, text: str) -> None:
        arrival_ns = monotonic_ns()
        self._machine.read()
        try:
            value = json.loads(text)
            figures = fio_result.merge(fio_result.read_document(value))
            status = Status(int(value["timestamp_ms"]), figures)
        except (ValueError, KeyError):
            return  # the whole output is read again, strictly, at the end
        self._seen.append(_Seen(arrival_ns, status))
        moved = sum(direction.bytes for direction in figures.directions.values())
        if moved != self._moved and self._job.window_ns is None:
            self._moved = moved
            self._limit_ns = arrival_ns - self._started_ns + self._stall_ns()

    def _finish(self) -> None:
        _, status, usage = os.wait4(self._process.pid, 0)
        self._process.returncode = os.waitstatus_to_exitcode(status)
        self._machine.read()
        stdout, self._lines = "".join(self._lines), []
        output: FioOutput | None = None
        damage: str | None = None
        try:
            output = fio_result.split_output(stdout)
            fio_result.read_document(output.documents[-1])
        except FioFormatError as error:
            output, damage = None, str(error)
        ended = Ended(
            exit_code=self._process.returncode,
            output=output,
            damage=damage,
            stdout=stdout,
            stderr=(self._work_dir / "stderr.txt").read_text(errors="replace"),
        )
        account = {
            "exit_code": ended.exit_code,
            "user_s": usage.ru_utime,
            "system_s": usage.ru_stime,
            "wall_s": (monotonic_ns() - self._started_ns) / NS_PER_S,
            "note": "of the whole process: set-up and ramp included",
        }
        self._outcome = self._make_outcome(ended)
        self._outcome.raw = self._raw(ended, account)

    def _failure(self, ended: Ended) -> Failure | None:
        if self._hung:
            return Failure(message="fio did not end in time", fix="see raw/ and the kernel's log")
        return None if self._cancelled else explain(self._job, ended)

    def _make_outcome(self, ended: Ended) -> RunOutcome:
        notes = fio_job.caveats(self._job)
        said = [*(ended.output.notes if ended.output else []), *ended.stderr.splitlines()]
        notes += [f"fio: {line.strip()}" for line in said[:_MOST_NOTES] if line.strip()]
        failure = self._failure(ended)
        now_ns = monotonic_ns()
        outcome = RunOutcome(
            status="failed" if failure else "cancelled" if self._cancelled else "finished",
            engine=self._info,
            window_start_ns=now_ns,
            window_end_ns=now_ns,
            samples=[],
            totals={},
            cpu=None,
            failure=failure,
            notes=notes,
        )
        if ended.output is not None and self._seen:
            self._measure(outcome)
        return outcome

    def _measure(self, outcome: RunOutcome) -> None:
        """Window, samples, totals and CPU from what fio said."""
        statuses = [seen.status for seen in self._seen]
        final = statuses[-1].figures
        # the least delayed document ties fio's UNIX time to our clock
        offset_ns = min(s.arrival_ns - s.status.timestamp_ms * NS_PER_MS for s in self._seen)
        start_ns = fio_series.window_start_ms(statuses) * NS_PER_MS + offset_ns
        outcome.window_start_ns = start_ns
        outcome.window_end_ns = start_ns + final.runtime_ms * NS_PER_MS
        outcome.samples = fio_series.samples(
            statuses, start_ns, offset_ns, fio_job.status_interval_ms(self._job) * NS_PER_MS
        )
        outcome.totals = fio_result.totals(final)
        share = fio_result.window_share(final.job_runtime_ms, final.runtime_ms * self._job.jobs)
        if share < 1:
            outcome.notes.append("fio's CPU account includes the ramp; it is scaled to the window")
        user_ns, system_ns = round(final.user_ns * share), round(final.system_ns * share)
        outcome.cpu = CpuUse(
            user_ns=user_ns,
            system_ns=system_ns,
            cores=min(self._job.jobs, _usable_cores(self._job)),
            worker_ns=user_ns + system_ns,
            **self._machine.between(outcome.window_start_ns, outcome.window_end_ns),
        )
        outcome.notes += _sync_note(self._job, final)

    def _raw(self, ended: Ended, account: dict[str, object]) -> dict[str, bytes]:
        raw = {
            "job.fio": (self._work_dir / "job.fio").read_bytes(),
            "command.txt": f"{self._launch.text}\n".encode(),
            "stderr.txt": ended.stderr.encode(),
            "process.json": (json.dumps(account, indent=2) + "\n").encode(),
        }
        if ended.output is None:
            return raw | {"fio-output.txt": ended.stdout.encode()}
        raw["fio.json"] = ended.output.texts[-1].encode()
        if len(ended.output.documents) > 1 or ended.output.notes:
            raw["fio-output.txt.gz"] = gzip.compress(ended.stdout.encode(), mtime=0)
        return raw


def _timer(seconds: float, action: Callable[[], None]) -> threading.Timer:
    timer = threading.Timer(seconds, action)
    timer.daemon = True
    timer.start()
    return timer


def _usable_cores(job: BlockJob) -> int:
    allowed = os.sched_getaffinity(0)
    return len(set(job.cpus)) if job.cpus else len(allowed)


def _sync_note(job: BlockJob, final: Figures) -> list[str]:
    """fio 3.33 flushes more often than asked when more than one write is outstanding."""
    flushes, writes = final.directions.get("sync"), final.directions.get("write")
    asked = job.sync.every_writes if job.sync.kind != "none" else 0
    if flushes is None or writes is None or not asked:
        return []
    done = writes.operations / flushes.operations
    if abs(done / asked - 1) <= 0.1 or writes.operations < 10 * asked:
        return []
    return [f"fio flushed after every {done:.3g} writes, though asked for every {asked}"]


def _rates(seen: list[_Seen]) -> tuple[float, float, float | None]:
    """Operations/s, bytes/s and CPU percent of one core, between the last two documents."""
    if not seen:
        return 0.0, 0.0, None
    now = seen[-1].status
    then = seen[-2].status if len(seen) == 2 and seen[-2].status.figures.measuring else None
    if then is None:
        span_s = now.figures.runtime_ms / 1000
    else:
        span_s = (now.timestamp_ms - then.timestamp_ms) / 1000
    if span_s <= 0:
        return 0.0, 0.0, None
    totals = [0.0, 0.0, 0.0]
    for sign, status in ((1, now), (-1, then)):
        if status is not None:
            figures = status.figures
            totals[0] += sign * sum(d.operations for d in figures.directions.values())
            totals[1] += sign * sum(d.bytes for d in figures.directions.values())
            totals[2] += sign * (figures.user_ns + figures.system_ns) / NS_PER_S
    operations, size, cpu_s = (max(0.0, total) / span_s for total in totals)
    return operations, size, 100 * cpu_s


def _worst_p99(seen: _Seen) -> int | None:
    """The larger of the reads' and the writes' p99 since the window's start."""
    found = [
        direction.latency.percentiles.get(99.0, 0)
        for operation, direction in seen.status.figures.directions.items()
        if operation != "sync" and direction.latency is not None
    ]
    return max(found, default=0) or None
