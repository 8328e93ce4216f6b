"""One warp process: started, watched, ended, and turned into an outcome."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

from storlab.base import zstd
from storlab.base.clock import monotonic_ns, wall_at_ns
from storlab.base.secrets import hide
from storlab.base.units import NS_PER_S, format_duration
from storlab.engines.warp import command as warp_command
from storlab.engines.warp import records as warp_records
from storlab.engines.warp import summary as warp_summary
from storlab.engines.warp.command import Launch
from storlab.engines.warp.failure import Ended, explain
from storlab.engines.warp.records import Records, WarpFormatError, Window
from storlab.model.result import EngineInfo, Failure, RunOutcome, Snapshot
from storlab.process.child_cpu import CpuTrace
from storlab.process.defect import DEFECTS, defect_outcome
from storlab.process.parent_death import start_child
from storlab.workloads.object.job import ObjectJob

_LOOK_S = 0.1  # between two readings of the child's CPU time
_KILL_AFTER_S = 3.0  # warp writes nothing on SIGINT, so that patience brings nothing
_PAUSE_NS = 3 * NS_PER_S  # warp waits so long between its preparation and the load
_IDLE_SHARE = 0.05  # of a core; below it warp is in that pause
_GRACE_NS = 300 * NS_PER_S  # beyond the load and its drain, before a run counts as hung
_SLOWEST_PREPARE_BYTES_S = 5_000_000
_ANALYZE_S = 300
_MOST_TEXT = 32 * 1024  # bytes from either end of what warp printed
_STEP_NS = 5_000_000  # of the wall clock against the run's clock


class WarpRun:
    """A run in progress. Every method may be called from any thread."""

    def __init__(self, job: ObjectJob, launch: Launch, info: EngineInfo) -> None:
        self._job = job
        self._launch = launch
        self._info = info
        self._outcome: RunOutcome | None = None
        self._ended = threading.Event()
        self._cancelled = False
        self._hung = False
        self._started_ns = monotonic_ns()
        self._offset_ns = self._started_ns - wall_at_ns(self._started_ns)
        self._phases = _Phases(self._started_ns)
        with (
            (launch.work_dir / "stdout.txt").open("wb") as stdout,
            (launch.work_dir / "stderr.txt").open("wb") as stderr,
        ):
            self._process = start_child(
                launch.command,
                stdin=subprocess.DEVNULL,
                stdout=stdout,
                stderr=stderr,
                cwd=launch.work_dir,
                env=launch.child_environment(os.environ),
                start_new_session=True,  # Ctrl-C reaches warp through cancel() only
            )
        self._cpu = CpuTrace(self._process.pid, self._started_ns)
        self._watcher = threading.Thread(target=self._watch, name="warp", daemon=True)
        self._watcher.start()

    def cancel(self) -> None:
        """SIGINT, and SIGKILL when that does not end it. warp leaves no record then."""
        self._cancelled = True
        self._interrupt()

    def wait(self, timeout_s: float | None = None) -> RunOutcome | None:
        """The outcome, or None when the time-out passed first."""
        if not self._ended.wait(timeout_s):
            return None
        self._watcher.join()
        return self._outcome

    def snapshot(self) -> Snapshot:
        """Phase and time, by the clock: warp tells nothing before its end.

        That the load has begun is told by the pause before it, in which warp uses no CPU.
        """
        if self._ended.is_set():
            return Snapshot("done", 0, None, 0.0, 0.0, None, None)
        now_ns, percent = monotonic_ns(), self._phases.cpu_percent
        load_ns = self._phases.load_ns
        if load_ns is None:
            elapsed_ns = now_ns - self._started_ns
            return Snapshot("prepare", elapsed_ns, None, 0.0, 0.0, None, percent)
        elapsed_ns = now_ns - load_ns
        if elapsed_ns < self._job.ramp_ns:
            return Snapshot("ramp", elapsed_ns, self._job.ramp_ns, 0.0, 0.0, None, percent)
        elapsed_ns -= self._job.ramp_ns
        window_ns = self._job.window_ns or 0
        if elapsed_ns <= window_ns:
            return Snapshot("measure", elapsed_ns, window_ns, 0.0, 0.0, None, percent)
        return Snapshot("drain", elapsed_ns - window_ns, None, 0.0, 0.0, None, percent)

    def _interrupt(self) -> None:
        if self._process.returncode is None and not self._ended.is_set():
            self._signal(signal.SIGINT)
            timer = threading.Timer(_KILL_AFTER_S, self._signal, (signal.SIGKILL,))
            timer.daemon = True
            timer.start()

    def _signal(self, number: signal.Signals) -> None:
        """To warp's process group, which is its own."""
        if not self._ended.is_set():
            try:
                os.killpg(self._process.pid, number)
            except ProcessLookupError:  # it ended a moment ago
                return

    def _watch(self) -> None:
        pause = threading.Event()
        try:
            while not self._reaped():
                self._cpu.read()
                self._phases.see(*self._cpu.latest())
                if not self._hung and not self._cancelled and self._overdue():
                    self._hung = True
                    self._interrupt()
                pause.wait(_LOOK_S)
            self._outcome = self._finish()
        except DEFECTS as error:
            self._outcome = self._defect(error)
        finally:
            self._outcome = self._outcome or self._defect(sys.exception())
            if self._process.returncode is None:
                self._signal(signal.SIGKILL)  # nobody looks after it any more
            self._ended.set()

    def _defect(self, error: BaseException | None) -> RunOutcome:
        outcome = defect_outcome(self._info, error)
        secrets = self._launch.secrets.values()
        outcome.raw = {k: hide(v.decode(), secrets).encode() for k, v in outcome.raw.items()}
        return outcome

    def _reaped(self) -> bool:
        pid, status, usage = os.wait4(self._process.pid, os.WNOHANG)
        if pid == 0:
            return False
        self._process.returncode = os.waitstatus_to_exitcode(status)
        self._cpu.end(usage.ru_utime, usage.ru_stime)
        return True

    def _overdue(self) -> bool:
        job = self._job
        limit_ns = warp_command.load_ns(job) + job.drain_timeout_ns + _GRACE_NS
        if self._phases.load_ns is not None:
            return monotonic_ns() - self._phases.load_ns > limit_ns
        if not warp_command.reads_pool(job) and job.pool is not None:
            largest = warp_command.bounds(job.pool.sizes)[1]
            limit_ns += job.pool.objects * largest * NS_PER_S // _SLOWEST_PREPARE_BYTES_S
        return monotonic_ns() - self._started_ns > limit_ns + _PAUSE_NS

    def _finish(self) -> RunOutcome:
        """The outcome of a process that has ended."""
        ended_ns = monotonic_ns()
        stepped = abs(ended_ns - wall_at_ns(ended_ns) - self._offset_ns) > _STEP_NS
        raw = {name: self._text(name) for name in ("stdout.txt", "stderr.txt")}
        raw["command.txt"] = f"{self._launch.text}\n".encode()
        files = sorted(self._launch.work_dir.glob("requests*.csv.zst"))
        load: Records | None = None
        damage: str | None = None
        notes = warp_command.caveats(self._job)
        if files:
            try:
                raw["requests.csv.zst"], text = self._record(files[0])
                load, left_out = warp_records.load_of(warp_records.read_records(text))
                notes += self._notes(load, left_out, stepped)
                notes += self._compare(load, raw)
            except WarpFormatError as error:
                damage = str(error)
        outcome = self._measure(load)
        outcome.notes = notes
        ended = Ended(
            exit_code=self._process.returncode or 0,
            stdout=raw["stdout.txt"].decode(errors="replace"),
            stderr=raw["stderr.txt"].decode(errors="replace"),
            has_record=bool(files),
            damage=damage,
        )
        outcome.failure = self._failure(ended, outcome, load)
        if outcome.failure is not None:
            outcome.status = "failed"
        outcome.raw = {**raw, "process.json": self._account(ended_ns)}
        return outcome

    def _failure(self, ended: Ended, outcome: RunOutcome, load: Records | None) -> Failure | None:
        if self._hung:
            return Failure(message="warp did not end in time", fix="see raw/")
        if self._cancelled:
            return None
        last_ns = None if load is None or not len(load.start_ns) else int(load.end_ns.max())
        window_ns = self._job.window_ns or 0
        missing_ns = 0 if last_ns is None else outcome.window_end_ns - last_ns - self._offset_ns
        return explain(ended, outcome.totals, max(0, missing_ns), window_ns)

    def _record(self, file: Path) -> tuple[bytes, bytes]:
        """warp's record as it is kept, and its text; without secrets.

        Raises WarpFormatError for damaged compression: nobody knows what is in it.
        """
        data = file.read_bytes()
        text = clean = warp_records.unpacked(data)
        for value in self._launch.secrets.values():
            clean = clean.replace(value.encode(), b"***")  # warp writes a session token down
        return (data, text) if clean == text else (zstd.packed(clean), clean)

    def _text(self, name: str) -> bytes:
        """What warp printed, without secrets; of much of it (one line per error) both ends."""
        said = (self._launch.work_dir / name).read_bytes()
        if len(said) > 2 * _MOST_TEXT:
            left_out = f"\n... {len(said) - 2 * _MOST_TEXT:,} bytes left out ...\n".encode()
            said = said[:_MOST_TEXT] + left_out + said[-_MOST_TEXT:]
        return hide(said.decode(errors="replace"), self._launch.secrets.values()).encode()

    def _notes(self, load: Records, left_out: int, stepped: bool) -> list[str]:
        notes = []
        if left_out:
            notes.append(f"{left_out:,} uploads of warp's preparation are left out")
        if stepped or load.stepped:
            notes.append("the wall clock was set during the run: warp's record is stamped with it")
        return notes

    def _compare(self, load: Records, raw: dict[str, bytes]) -> list[str]:
        """Notes where warp's own summary of the same requests says something else."""
        record = self._launch.work_dir / "own.csv.zst"
        record.write_bytes(raw["requests.csv.zst"])
        command = [self._launch.command[0], "analyze", "--quiet", "--no-color", "--json"]
        try:
            said = subprocess.run(
                [*command, str(record)],
                capture_output=True,
                check=False,
                timeout=_ANALYZE_S,
                env=self._launch.child_environment(os.environ),
            )
            start = max(0, said.stdout.find(b"{"))
            document = said.stdout[start:]
            summary = warp_summary.read_summary(document.decode(errors="replace"))
        except (OSError, subprocess.TimeoutExpired, WarpFormatError):
            return []  # its summary is for comparison only; the numbers come from the record
        finally:
            record.unlink()
        raw["warp-summary.json"] = document
        return warp_summary.misleading(load, summary)

    def _measure(self, load: Records | None) -> RunOutcome:
        """Window, samples, totals and CPU."""
        now_ns = monotonic_ns()
        outcome = RunOutcome(
            status="cancelled" if self._cancelled else "finished",
            engine=self._info,
            window_start_ns=now_ns,
            window_end_ns=now_ns,
            samples=[],
            totals={},
            cpu=None,
        )
        if load is None or not len(load.start_ns):
            return outcome
        start_ns = int(load.start_ns.min()) + self._job.ramp_ns
        window = Window(
            start_ns=start_ns,
            end_ns=start_ns + (self._job.window_ns or 0),
            interval_ns=self._job.interval_ns,
            offset_ns=self._offset_ns,
        )
        outcome.window_start_ns = window.start_ns + self._offset_ns
        outcome.window_end_ns = window.end_ns + self._offset_ns
        outcome.totals = warp_records.totals(load, window)
        outcome.samples = warp_records.samples(load, window, self._cpu_by_interval(window))
        outcome.drain_ns = max(0, int(load.end_ns.max()) - window.end_ns)
        usable = len(os.sched_getaffinity(0))
        outcome.cpu = self._cpu.cpu_use(
            outcome.window_start_ns,
            outcome.window_end_ns,
            min(self._job.threads or usable, usable),
        )
        return outcome

    def _cpu_by_interval(self, window: Window) -> Iterator[int]:
        edges = [edge + self._offset_ns for edge in window.edges()]
        for start_ns, end_ns in pairwise(edges):
            yield sum(self._cpu.between(start_ns, end_ns))

    def _account(self, ended_ns: int) -> bytes:
        _, used_ns = self._cpu.latest()
        account = {
            "exit_code": self._process.returncode,
            "cpu_s": used_ns / NS_PER_S,
            "wall": format_duration(ended_ns - self._started_ns),
            "note": "of the whole process: preparation, ramp and its own analysis included",
        }
        return (json.dumps(account, indent=2) + "\n").encode()


@dataclass(slots=True)
class _Phases:
    """Where warp is, from the CPU time that it uses; for the live view only."""

    seen_ns: int
    used_ns: int = 0
    idle_since_ns: int | None = None
    load_ns: int | None = None
    cpu_percent: float | None = None

    def see(self, now_ns: int, used_ns: int) -> None:
        """A reading: time, and CPU time used so far."""
        if now_ns <= self.seen_ns:
            return
        share = (used_ns - self.used_ns) / (now_ns - self.seen_ns)
        self.cpu_percent = 100 * share
        if self.load_ns is None:
            if share < _IDLE_SHARE:
                self.idle_since_ns = self.idle_since_ns or self.seen_ns
            elif self.idle_since_ns is not None:
                idle_ns = now_ns - self.idle_since_ns
                self.load_ns = now_ns if idle_ns >= _PAUSE_NS * 2 // 3 else None
                self.idle_since_ns = None
        self.seen_ns, self.used_ns = now_ns, used_ns
