"""A program that carries out one run: started in a session of its own, watched, and ended."""

from __future__ import annotations

import json
import os
import shlex
import signal
import subprocess
import sys
import threading
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from storlab.base.clock import monotonic_ns
from storlab.base.units import NS_PER_S, format_duration
from storlab.model.result import EngineInfo, Failure, RunOutcome, Snapshot
from storlab.process.defect import DEFECTS, defect_outcome
from storlab.process.events import Events, samples, totals
from storlab.process.open_files import allow_open_files
from storlab.process.parent_death import start_child
from storlab.process.session_cpu import SessionTrace, is_alive

_LOOK_S = 0.25  # between two readings of counters
_MOST_TEXT = 32 * 1024  # bytes from either end of what a program printed
_LAST_LINES = 6  # of standard error, in a failure


@dataclass(frozen=True, slots=True)
class Launch:
    """How to start a program. What it prints goes to ``stdout.txt`` and ``stderr.txt``."""

    name: str  # for people
    command: Sequence[str]
    environment: Mapping[str, str]  # beside what it inherits
    work_dir: Path
    place: Path | None = None  # of the data, whose device is watched
    kill_after_s: float = 5.0  # from the interrupt on
    limit_ns: int | None = None  # after which it counts as hung
    death_signal: signal.Signals = signal.SIGKILL  # when storlab has gone

    @property
    def text(self) -> str:
        """As one would type it."""
        said = [f"{name}={shlex.quote(value)}" for name, value in self.environment.items()]
        return " ".join([*said, shlex.join(self.command)])


class ChildRun(ABC):
    """A run in progress. Every method may be called from any thread."""

    def __init__(self, launch: Launch, info: EngineInfo) -> None:
        self.launch = launch
        self.info = info
        self.started_ns = monotonic_ns()
        self.ended_ns = self.started_ns
        self._outcome: RunOutcome | None = None
        self._ended = threading.Event()
        self.cancelled = False
        self.hung = False
        self._cpu_percent: float | None = None
        allow_open_files()
        with (
            (launch.work_dir / "stdout.txt").open("wb") as stdout,
            (launch.work_dir / "stderr.txt").open("wb") as stderr,
        ):
            self._process = start_child(
                launch.command,
                launch.death_signal,
                stdin=subprocess.DEVNULL,
                stdout=stdout,
                stderr=stderr,
                cwd=launch.work_dir,
                env={**os.environ, **launch.environment},
                start_new_session=True,  # Ctrl-C reaches it through cancel() only
            )
        self.trace = SessionTrace(self._process.pid, self.started_ns, launch.place)
        self._watcher = threading.Thread(target=self._watch, name=launch.name, daemon=True)
        self._watcher.start()

    @abstractmethod
    def finish(self) -> RunOutcome:
        """The outcome of a program that has ended. Called once, by the watching thread."""

    def cancel(self) -> None:
        """SIGINT to all of it, and SIGKILL when that does not end it."""
        self.cancelled = True
        self._interrupt()

    def wait(self, timeout_s: float | None = None) -> RunOutcome | None:
        """The outcome, or None when the time-out passed first."""
        if not self._ended.wait(timeout_s):
            return None
        self._watcher.join()
        return self._outcome

    def snapshot(self) -> Snapshot:
        """Phase and time: nothing more is told before the end."""
        if self._ended.is_set():
            return Snapshot("done", 0, None, 0.0, 0.0, None, None)
        elapsed_ns = monotonic_ns() - self.started_ns
        return Snapshot("measure", elapsed_ns, None, 0.0, 0.0, None, self._cpu_percent)

    @property
    def exit_code(self) -> int:
        """Of the program, once it has ended; negative: the signal that ended it."""
        return self._process.returncode or 0

    def _interrupt(self) -> None:
        if self._process.returncode is None and not self._ended.is_set():
            self._signal(signal.SIGINT)
            timer = threading.Timer(self.launch.kill_after_s, self._kill)
            timer.daemon = True
            timer.start()

    def _signal(self, number: signal.Signals) -> None:
        """To its process group."""
        if not self._ended.is_set():
            with suppress(ProcessLookupError):  # it ended a moment ago
                os.killpg(self._process.pid, number)

    def _kill(self) -> None:
        """All of it, also what has gone into sessions of its own, as ranks of MPI do."""
        self._signal(signal.SIGKILL)
        for pid, born in self.trace.relatives.items():
            if is_alive(pid, born):
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)

    def _watch(self) -> None:
        pause = threading.Event()
        try:
            while not self._reaped():
                self._read()
                limit_ns = self.launch.limit_ns
                late = limit_ns is not None and monotonic_ns() - self.started_ns > limit_ns
                if late and not self.hung and not self.cancelled:
                    self.hung = True
                    self._interrupt()
                pause.wait(_LOOK_S)
            self._kill()  # what it has left behind
            self.ended_ns = monotonic_ns()
            self._outcome = self.finish()
        except DEFECTS as error:
            self._outcome = defect_outcome(self.info, error)
        finally:
            self._outcome = self._outcome or defect_outcome(self.info, sys.exception())
            if self._process.returncode is None:
                self._kill()  # nobody looks after it any more
            self._ended.set()

    def _read(self) -> None:
        then_ns, before_ns = self.trace.latest()
        self.trace.read()
        now_ns, used_ns = self.trace.latest()
        if now_ns > then_ns:
            self._cpu_percent = 100 * (used_ns - before_ns) / (now_ns - then_ns)

    def _reaped(self) -> bool:
        pid, status, usage = os.wait4(self._process.pid, os.WNOHANG)
        if pid == 0:
            return False
        self._process.returncode = os.waitstatus_to_exitcode(status)
        self.trace.read()  # the device once more; then the account of all that was waited for
        self.trace.end(usage.ru_utime, usage.ru_stime)
        return True

    def printed(self, name: str) -> bytes:
        """``stdout.txt`` or ``stderr.txt``; of much of it both ends."""
        said = (self.launch.work_dir / name).read_bytes()
        if len(said) > 2 * _MOST_TEXT:
            left_out = f"\n... {len(said) - 2 * _MOST_TEXT:,} bytes left out ...\n".encode()
            said = said[:_MOST_TEXT] + left_out + said[-_MOST_TEXT:]
        return said

    def raw(self) -> dict[str, bytes]:
        """What is kept of every run."""
        account = {
            "exit_code": self.exit_code,
            "cpu_s": self.trace.latest()[1] / NS_PER_S,
            "wall": format_duration(self.ended_ns - self.started_ns),
            "note": "of the whole program: its start and what it does at its end included",
        }
        return {
            "command.txt": f"{self.launch.text}\n".encode(),
            "stdout.txt": self.printed("stdout.txt"),
            "stderr.txt": self.printed("stderr.txt"),
            "process.json": (json.dumps(account, indent=2) + "\n").encode(),
        }

    def failure(self, fix: str) -> Failure | None:
        """Of the program itself: it hung, or ended with an error. Its last words are in it."""
        if self.hung:
            return Failure(message=f"{self.launch.name} did not end in time", fix="see raw/")
        if self.cancelled or self.exit_code == 0:
            return None
        code = self.exit_code
        how = f"with exit code {code}" if code > 0 else f"by signal {-code}"
        words = self.printed("stderr.txt").decode(errors="replace").strip().splitlines()
        last = "\n".join(words[-_LAST_LINES:])
        message = f"{self.launch.name} ended {how}" + (f": {last}" if last else "")
        return Failure(message=message, fix=fix)

    def measured(
        self, events: Sequence[Events], window: tuple[int, int], interval_ns: int, workers: int
    ) -> RunOutcome:
        """Window, samples, totals and CPU."""
        start_ns, end_ns = window
        outcome = RunOutcome(
            status="cancelled" if self.cancelled else "finished",
            engine=self.info,
            window_start_ns=start_ns,
            window_end_ns=end_ns,
            samples=[],
            totals=totals(events),
            cpu=None,
        )
        if end_ns <= start_ns:
            return outcome
        outcome.samples = samples(
            events, window, interval_ns, lambda begin, end: sum(self.trace.between(begin, end))
        )
        cores = min(workers, len(os.sched_getaffinity(0)))
        outcome.cpu = self.trace.cpu_use(start_ns, end_ns, cores)
        return outcome
