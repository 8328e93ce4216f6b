"""A program that carries out one run: started in a session of its own, watched, and ended.

Every engine that is a program of its own runs through here. What differs is what it prints, how
that becomes an outcome (``finish``), and how long it may take (``overdue``).
"""

from __future__ import annotations

import json
import os
import select
import shlex
import signal
import subprocess
import sys
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack, closing, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any, ClassVar, cast

from storlab.base.clock import monotonic_ns
from storlab.base.secrets import hide
from storlab.base.units import NS_PER_S, format_duration
from storlab.model.result import EngineInfo, Failure, RunOutcome, Snapshot
from storlab.process.defect import DEFECTS, defect_outcome
from storlab.process.events import Events, samples, totals
from storlab.process.open_files import allow_open_files
from storlab.process.parent_death import start_child
from storlab.process.session_cpu import SessionTrace, is_alive

GRACE_NS = 600 * NS_PER_S  # beyond what a run should take, before it counts as hung
STEP_NS = 5_000_000  # of the wall clock against the run's clock: it was set
ENDED = Snapshot("done", 0)
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
    secrets: Mapping[str, str] = field(default_factory=dict)  # environment that is never shown
    inherits: Callable[[str], bool] = lambda _: True  # which variables
    alone: bool = False  # it starts no others whose CPU time counts

    @property
    def text(self) -> str:
        """As one would type it, with the names of the variables that hold secrets."""
        hidden = [f'{name}="${name}"' for name in self.secrets]
        shown = [f"{name}={shlex.quote(value)}" for name, value in self.environment.items()]
        return " ".join([*hidden, *shown, shlex.join(self.command)])

    def child_environment(self, inherited: Mapping[str, str]) -> dict[str, str]:
        """What it gets."""
        kept = {name: value for name, value in inherited.items() if self.inherits(name)}
        return {**kept, **self.environment, **self.secrets}


class ChildRun(ABC):
    """A run in progress. Every method may be called from any thread."""

    piped: ClassVar[bool] = False  # standard output goes to ``line``, and to no file
    look_s: ClassVar[float] = 0.25  # between two readings of counters
    account_note: ClassVar[str] = (
        "of the whole program: its start and what it does at its end included"
    )

    def __init__(self, launch: Launch, info: EngineInfo) -> None:
        self.launch = launch
        self.info = info
        self.started_ns = monotonic_ns()
        self.ended_ns = self.started_ns
        self.cancelled = False
        self.hung = False
        self.used_s = (0.0, 0.0)  # user and system time of all of it, once it has ended
        self._outcome: RunOutcome | None = None
        self._ended = threading.Event()
        self._cpu_percent: float | None = None
        self._unread: BaseException | None = None  # why its output is read no more
        allow_open_files()
        self._process = self._start()
        self.trace = SessionTrace(
            self._process.pid, self.started_ns, launch.place, alone=launch.alone
        )
        self._reader = threading.Thread(
            target=self._read_lines, name=f"{launch.name} output", daemon=True
        )
        self._watcher = threading.Thread(target=self._watch, name=launch.name, daemon=True)
        if self.piped:
            self._reader.start()
        self._watcher.start()

    @abstractmethod
    def finish(self) -> RunOutcome:
        """The outcome of a program that has ended. Called once, by the watching thread."""

    def line(self, text: str) -> None:  # noqa: B027  (only of what is piped)
        """A line of standard output, where that is piped, when it arrives."""

    def looked(self) -> None:  # noqa: B027  (few have to know)
        """The counters have been read once more."""

    def overdue(self) -> bool:
        """Whether it takes so long that it counts as hung."""
        limit_ns = self.launch.limit_ns
        return limit_ns is not None and monotonic_ns() - self.started_ns > limit_ns

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
        if self.has_ended:
            return ENDED
        elapsed_ns = monotonic_ns() - self.started_ns
        return Snapshot("measure", elapsed_ns, cpu_percent=self._cpu_percent)

    @property
    def pid(self) -> int:
        """The child's process id."""
        return self._process.pid

    @property
    def has_ended(self) -> bool:
        """Whether there is an outcome."""
        return self._ended.is_set()

    @property
    def exit_code(self) -> int:
        """Of the program, once it has ended; negative: the signal that ended it."""
        return self._process.returncode or 0

    def _start(self) -> subprocess.Popen[Any]:
        launch = self.launch
        with ExitStack() as files:
            stdout: int | IO[bytes] = subprocess.PIPE
            if not self.piped:
                stdout = files.enter_context((launch.work_dir / "stdout.txt").open("wb"))
            stderr = files.enter_context((launch.work_dir / "stderr.txt").open("wb"))
            return start_child(
                launch.command,
                launch.death_signal,
                stdin=subprocess.DEVNULL,
                stdout=stdout,
                stderr=stderr,
                cwd=launch.work_dir,
                env=launch.child_environment(os.environ),
                start_new_session=True,  # Ctrl-C reaches it through cancel() only
                text=True,
                errors="replace",
            )

    def _interrupt(self) -> None:
        if self._process.returncode is None and not self.has_ended:
            self._signal(signal.SIGINT)
            timer = threading.Timer(self.launch.kill_after_s, self._kill)
            timer.daemon = True
            timer.start()

    def _signal(self, number: signal.Signals) -> None:
        """To its process group."""
        if not self.has_ended:
            with suppress(ProcessLookupError):  # it ended a moment ago
                os.killpg(self._process.pid, number)

    def _kill(self) -> None:
        """All of it, also what has gone into sessions of its own, as ranks of MPI do."""
        self._signal(signal.SIGKILL)
        for pid, born in self.trace.relatives.items():
            if is_alive(pid, born):
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)

    def _read_lines(self) -> None:
        try:
            with cast(IO[str], self._process.stdout) as stdout:
                for text in stdout:
                    self.line(text)
        except DEFECTS as error:
            self._unread = error
        finally:
            self._unread = self._unread or sys.exception()

    def _watch(self) -> None:
        try:
            with closing(_EndWatch(self._process.pid)) as end:
                while not self._reaped():
                    self._look()
                    end.wait(self.look_s)
            self._kill()  # what it has left behind
            if self.piped:
                self._reader.join(self.launch.kill_after_s)
                self._check_reader()
            self.ended_ns = monotonic_ns()
            self._outcome = self.finish()
        except DEFECTS as error:
            self._outcome = self._defect(error)
        finally:
            self._outcome = self._outcome or self._defect(sys.exception())
            if self._process.returncode is None:
                self._kill()  # nobody looks after it any more
                with suppress(subprocess.TimeoutExpired):
                    self._process.wait(self.launch.kill_after_s)
            self._ended.set()

    def _look(self) -> None:
        self._check_reader()
        then_ns, before_ns = self.trace.latest()
        self.trace.read()
        now_ns, used_ns = self.trace.latest()
        if now_ns > then_ns:
            self._cpu_percent = 100 * (used_ns - before_ns) / (now_ns - then_ns)
        self.looked()
        if not self.hung and not self.cancelled and self.overdue():
            self.hung = True
            self._interrupt()

    def _check_reader(self) -> None:
        if self._unread is not None:
            raise self._unread

    def _defect(self, error: BaseException | None) -> RunOutcome:
        outcome = defect_outcome(self.info, error)
        outcome.raw = {name: self._shown(content) for name, content in outcome.raw.items()}
        return outcome

    def _reaped(self) -> bool:
        pid, status, usage = os.wait4(self._process.pid, os.WNOHANG)
        if pid == 0:
            return False
        self._process.returncode = os.waitstatus_to_exitcode(status)
        self.used_s = usage.ru_utime, usage.ru_stime
        self.trace.read()  # the device once more; then the account of all that was waited for
        self.trace.end(*self.used_s)
        return True

    def _shown(self, content: bytes) -> bytes:
        """Without the secrets."""
        if not self.launch.secrets:
            return content
        return hide(content.decode(errors="replace"), self.launch.secrets.values()).encode()

    def printed(self, name: str) -> bytes:
        """``stdout.txt`` or ``stderr.txt`` without secrets; of much of it both ends."""
        content = (self.launch.work_dir / name).read_bytes()
        if len(content) > 2 * _MOST_TEXT:
            left_out = f"\n... {len(content) - 2 * _MOST_TEXT:,} bytes left out ...\n".encode()
            content = content[:_MOST_TEXT] + left_out + content[-_MOST_TEXT:]
        return self._shown(content)

    def account(self) -> dict[str, object]:
        """``process.json``."""
        return {
            "exit_code": self.exit_code,
            "cpu_s": self.trace.latest()[1] / NS_PER_S,
            "wall": format_duration(self.ended_ns - self.started_ns),
            "note": self.account_note,
        }

    def raw(self) -> dict[str, bytes]:
        """What is kept of every run."""
        names = ["stderr.txt"] if self.piped else ["stdout.txt", "stderr.txt"]
        return {
            "command.txt": f"{self.launch.text}\n".encode(),
            **{name: self.printed(name) for name in names},
            "process.json": (json.dumps(self.account(), indent=2) + "\n").encode(),
        }

    def failure(self, fix: str) -> Failure | None:
        """Of the program itself: it hung, or ended with an error. Its last words are in it."""
        if self.hung:
            return self.hung_failure()
        if self.cancelled or self.exit_code == 0:
            return None
        words = self.printed("stderr.txt").decode(errors="replace").strip().splitlines()
        last = "\n".join(words[-_LAST_LINES:])
        message = f"{self.launch.name} ended {ending(self.exit_code)}" + (
            f": {last}" if last else ""
        )
        return Failure(message=message, fix=fix)

    def hung_failure(self, fix: str = "see raw/") -> Failure:
        """Of a program that was ended for the time it took."""
        return Failure(message=f"{self.launch.name} did not end in time", fix=fix)

    def unmeasured(self) -> RunOutcome:
        """An outcome with nothing in it yet: its window lies, empty, at the end."""
        return RunOutcome(
            status="cancelled" if self.cancelled else "finished",
            engine=self.info,
            window_start_ns=self.ended_ns,
            window_end_ns=self.ended_ns,
            samples=[],
            totals={},
            cpu=None,
        )

    def measured(
        self, events: Sequence[Events], window: tuple[int, int], interval_ns: int, workers: int
    ) -> RunOutcome:
        """Window, samples, totals and CPU."""
        start_ns, end_ns = window
        outcome = self.unmeasured()
        outcome.window_start_ns, outcome.window_end_ns = window
        outcome.totals = totals(events)
        if end_ns <= start_ns:
            return outcome
        outcome.samples = samples(
            events, window, interval_ns, lambda begin, end: sum(self.trace.between(begin, end))
        )
        cores = min(workers, len(os.sched_getaffinity(0)))
        outcome.cpu = self.trace.cpu_use(start_ns, end_ns, cores)
        return outcome


def ending(exit_code: int) -> str:
    """``with exit code 1``, ``by signal 9``."""
    return f"with exit code {exit_code}" if exit_code >= 0 else f"by signal {-exit_code}"


class _EndWatch:
    """Waits for the end of a process, or for some time. The process is not reaped by it."""

    def __init__(self, pid: int) -> None:
        self._fd: int | None = None
        with suppress(OSError):  # a kernel or a container without it: then the end is polled for
            self._fd = os.pidfd_open(pid)

    def wait(self, seconds: float) -> None:
        """At most so long."""
        if self._fd is None:
            threading.Event().wait(seconds)
            return
        poll = select.poll()
        poll.register(self._fd, select.POLLIN)
        poll.poll(round(seconds * 1000))

    def close(self) -> None:
        """Release the descriptor."""
        if self._fd is not None:
            os.close(self._fd)
