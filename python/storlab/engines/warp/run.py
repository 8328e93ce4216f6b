"""Run of a job by warp: child process, record of requests and outcome."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import ClassVar

from storlab.base import zstd
from storlab.base.clock import monotonic_ns, wall_at_ns
from storlab.base.units import NS_PER_S
from storlab.engines.warp import command as warp_command
from storlab.engines.warp import records as warp_records
from storlab.engines.warp import summary as warp_summary
from storlab.engines.warp.failure import Ended, explain
from storlab.engines.warp.records import Records, WarpFormatError, Window
from storlab.model.result import EngineInfo, Failure, RunOutcome, Snapshot
from storlab.process.child import ENDED, STEP_NS, ChildRun, Launch
from storlab.process.parent_death import run_child
from storlab.workloads.object.job import ObjectJob

KILL_AFTER_S = 3.0  # short, since warp writes no result after SIGINT
_PAUSE_NS = 3 * NS_PER_S  # warp's pause between preparation and load
_IDLE_SHARE = 0.05  # share of a core below which warp counts as pausing
_GRACE_NS = 300 * NS_PER_S  # a run counts as hung this long after load and drain
_SLOWEST_PREPARE_BYTES_S = 5_000_000
_ANALYZE_S = 300


class WarpRun(ChildRun):
    """Run of a job by warp, in progress. If it is cancelled, warp writes no results."""

    look_s: ClassVar[float] = 0.1  # short enough to observe the pause before the load
    account_note = "of the whole process, including preparation, ramp and warp's own analysis"

    def __init__(self, job: ObjectJob, launch: Launch, info: EngineInfo) -> None:
        self._job = job
        now_ns = monotonic_ns()
        self._offset_ns = now_ns - wall_at_ns(now_ns)
        self._phases = _Phases(now_ns)
        super().__init__(launch, info)

    def snapshot(self) -> Snapshot:
        """Return phase and elapsed time, but no rates: warp prints nothing before its end.

        The start of the load is inferred from the pause before it, in which warp uses no CPU.
        """
        if self.has_ended:
            return ENDED
        now_ns, percent = monotonic_ns(), self._phases.cpu_percent
        load_ns = self._phases.load_ns
        if load_ns is None:
            elapsed_ns = now_ns - self.started_ns
            return Snapshot("prepare", elapsed_ns, cpu_percent=percent)
        elapsed_ns = now_ns - load_ns
        if elapsed_ns < self._job.ramp_ns:
            return Snapshot("ramp", elapsed_ns, self._job.ramp_ns, cpu_percent=percent)
        elapsed_ns -= self._job.ramp_ns
        window_ns = self._job.window_ns or 0
        if elapsed_ns <= window_ns:
            return Snapshot("measure", elapsed_ns, window_ns, cpu_percent=percent)
        return Snapshot("drain", elapsed_ns - window_ns, cpu_percent=percent)

    def looked(self) -> None:
        """Update the phase, which is inferred from warp's CPU use, by the last CPU reading."""
        self._phases.see(*self.trace.latest())

    def overdue(self) -> bool:
        """Return whether preparation or load takes longer than even a slow S3 store would."""
        job = self._job
        begun_ns = self.started_ns + _longest_preparation_ns(job) + _PAUSE_NS
        # A store that stalls during the preparation looks like the pause before the load, so the
        # detected start of the load may be too early. So use it only to extend the time limit.
        begun_ns = max(begun_ns, self._phases.load_ns or 0)
        limit_ns = warp_command.load_ns(job) + job.drain_timeout_ns + _GRACE_NS
        return monotonic_ns() - begun_ns > limit_ns

    def finish(self) -> RunOutcome:
        """Return the outcome of a warp process that has ended."""
        stepped = abs(self.ended_ns - wall_at_ns(self.ended_ns) - self._offset_ns) > STEP_NS
        raw = self.raw()
        files = sorted(self.launch.work_dir.glob("requests*.csv.zst"))
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
            exit_code=self.exit_code,
            stdout=raw["stdout.txt"].decode(errors="replace"),
            stderr=raw["stderr.txt"].decode(errors="replace"),
            has_record=bool(files),
            damage=damage,
        )
        outcome.conclude(self._failure(ended, outcome, load))
        outcome.raw = raw
        return outcome

    def _failure(self, ended: Ended, outcome: RunOutcome, load: Records | None) -> Failure | None:
        if self.hung:
            return self.hung_failure()
        if self.cancelled:
            return None
        last_ns = None if load is None or not len(load.start_ns) else int(load.end_ns.max())
        window_ns = self._job.window_ns or 0
        missing_ns = 0 if last_ns is None else outcome.window_end_ns - last_ns - self._offset_ns
        return explain(ended, outcome.totals, max(0, missing_ns), window_ns)

    def _record(self, file: Path) -> tuple[bytes, bytes]:
        """Return warp's record of requests without secrets, compressed and as text.

        Raises:
            WarpFormatError: The compression is damaged, so secrets cannot be removed.
        """
        data = file.read_bytes()
        text = clean = warp_records.unpacked(data)
        for value in self.launch.secrets.values():
            clean = clean.replace(value.encode(), b"***")  # warp writes the session token to it
        return (data, text) if clean == text else (zstd.packed(clean), clean)

    def _notes(self, load: Records, left_out: int, stepped: bool) -> list[str]:
        notes = []
        if left_out:
            notes.append(f"{left_out:,} uploads with which warp prepared the run are not counted")
        if stepped or load.stepped:
            notes.append(
                "the wall clock was set during the run, so the times in warp's record may be wrong"
            )
        return notes

    def _compare(self, load: Records, raw: dict[str, bytes]) -> list[str]:
        """Return notes on where warp's own summary differs from the results of storlab."""
        record = self.launch.work_dir / "own.csv.zst"
        record.write_bytes(raw["requests.csv.zst"])
        command = [self.launch.command[0], "analyze", "--quiet", "--no-color", "--json"]
        try:
            done = run_child(
                [*command, str(record)],
                _ANALYZE_S,
                env=self.launch.child_environment(os.environ),
            )
            start = max(0, done.stdout.find(b"{"))
            document = done.stdout[start:]
            summary = warp_summary.read_summary(document.decode(errors="replace"))
        except (OSError, subprocess.TimeoutExpired, WarpFormatError):
            return []  # optional: results come from the record
        finally:
            record.unlink()
        raw["warp-summary.json"] = document
        return warp_summary.misleading(load, summary)

    def _measure(self, load: Records | None) -> RunOutcome:
        """Return an outcome with window, samples, totals and CPU use, from warp's requests."""
        outcome = self.unmeasured()
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
        outcome.cpu = self.trace.cpu_use(
            outcome.window_start_ns,
            outcome.window_end_ns,
            min(self._job.threads or usable, usable),
        )
        return outcome

    def _cpu_by_interval(self, window: Window) -> Iterator[int]:
        edges = [edge + self._offset_ns for edge in window.edges()]
        for start_ns, end_ns in pairwise(edges):
            yield sum(self.trace.between(start_ns, end_ns))


def _longest_preparation_ns(job: ObjectJob) -> int:
    """Return how long (ns) warp may take to create objects before its load, if it does."""
    if warp_command.reads_pool(job) or job.pool is None:
        return 0
    largest = warp_command.bounds(job.pool.sizes)[1]
    return job.pool.objects * largest * NS_PER_S // _SLOWEST_PREPARE_BYTES_S


@dataclass(slots=True)
class _Phases:
    """State that infers the phase of a warp process from its CPU use."""

    seen_ns: int
    used_ns: int = 0
    idle_since_ns: int | None = None
    load_ns: int | None = None
    cpu_percent: float | None = None

    def see(self, now_ns: int, used_ns: int) -> None:
        """Update the phase by a reading: the time, and the CPU time used so far, in ns."""
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
