"""Base class of runs that a child program executes: start, supervision, time limit and end.

All engines that are separate programs use it. Subclasses define how the program's output becomes
an outcome (``finish``), and may redefine when a run is treated as hung (``overdue``).
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
from typing import IO, TYPE_CHECKING, Any, ClassVar, cast

from storlab.base.clock import monotonic_ns
from storlab.base.secrets import hide
from storlab.base.units import NS_PER_S, format_duration
from storlab.model.result import EngineInfo, Failure, RunOutcome, Snapshot
from storlab.process.defect import DEFECTS, defect_outcome
from storlab.process.open_files import allow_open_files
from storlab.process.parent_death import start_child
from storlab.process.session_cpu import SessionTrace, is_alive

if TYPE_CHECKING:
    from storlab.process.events import Events

GRACE_NS = 600 * NS_PER_S  # a run counts as hung this long after its expected end
# If wall clock and run's clock diverge by more than this, somebody has set the wall clock.
STEP_NS = 5_000_000
ENDED = Snapshot("done", 0)
_MOST_TEXT = 32 * 1024  # bytes kept from either end of a program's output
_LAST_LINES = 6  # of standard error, in a failure


@dataclass(frozen=True, slots=True)
class Launch:
    """Parameters for starting a child program: command, environment, directory and limits."""

    name: str  # the program's name in messages
    command: Sequence[str]
    environment: Mapping[str, str]  # in addition to inherited variables
    work_dir: Path
    place: Path | None = None  # directory of the data, whose device is monitored
    kill_after_s: float = 5.0  # grace period after SIGINT
    limit_ns: int | None = None  # time limit, after which the run counts as hung
    death_signal: signal.Signals = signal.SIGKILL  # sent if storlab dies
    # environment variables whose values are never shown
    secrets: Mapping[str, str] = field(default_factory=dict)
    inherits: Callable[[str], bool] = lambda _: True  # filter for inherited variables
    alone: bool = False  # starts no processes whose CPU time counts

    @property
    def text(self) -> str:
        """Command line for a shell, in which secrets are replaced by names of variables."""
        hidden = [f'{name}="${name}"' for name in self.secrets]
        shown = [f"{name}={shlex.quote(value)}" for name, value in self.environment.items()]
        return " ".join([*hidden, *shown, shlex.join(self.command)])

    def child_environment(self, inherited: Mapping[str, str]) -> dict[str, str]:
        """Return the child's environment: inherited variables, those of this launch, secrets."""
        kept = {name: value for name, value in inherited.items() if self.inherits(name)}
        return {**kept, **self.environment, **self.secrets}


class ChildRun(ABC):
    """Run that a child program executes. Every method may be called from any thread."""

    piped: ClassVar[bool] = False  # standard output goes to ``line`` instead of a file
    look_s: ClassVar[float] = 0.25  # interval in seconds between readings of counters
    account_note: ClassVar[str] = "of the whole program, including its start and end"

    def __init__(self, launch: Launch, info: EngineInfo) -> None:
        self.launch = launch
        self.info = info
        self.started_ns = monotonic_ns()
        self.ended_ns = self.started_ns
        self.cancelled = False
        self.hung = False
        self.used_s = (0.0, 0.0)  # user and system time, set after the end
        self._outcome: RunOutcome | None = None
        self._ended = threading.Event()
        self._cpu_percent: float | None = None
        self._unread: BaseException | None = None  # exception that ended the reading of output
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
        """Return the outcome of a program that has ended.

        It is called once, by the thread that supervises the program.
        """

    def line(self, text: str) -> None:  # noqa: B027  (optional)
        """Process a line of the child's standard output. Hook for subclasses; does nothing here."""

    def looked(self) -> None:  # noqa: B027  (optional)
        """Hook for subclasses, called after each reading of CPU and device counters."""

    def overdue(self) -> bool:
        """Return whether the run exceeds its time limit, so that it is treated as hung."""
        limit_ns = self.launch.limit_ns
        return limit_ns is not None and monotonic_ns() - self.started_ns > limit_ns

    def cancel(self) -> None:
        """Cancel the run: send SIGINT to the child's process group, and later SIGKILL."""
        self.cancelled = True
        self._interrupt()

    def wait(self, timeout_s: float | None = None) -> RunOutcome | None:
        """Wait for the end of the run and return its outcome; None if the timeout expires."""
        if not self._ended.wait(timeout_s):
            return None
        self._watcher.join()
        return self._outcome

    def snapshot(self) -> Snapshot:
        """Return phase and elapsed time; subclasses that can parse progress add rates."""
        if self.has_ended:
            return ENDED
        elapsed_ns = monotonic_ns() - self.started_ns
        return Snapshot("measure", elapsed_ns, cpu_percent=self._cpu_percent)

    @property
    def pid(self) -> int:
        """Process id of the child."""
        return self._process.pid

    @property
    def has_ended(self) -> bool:
        """Whether the run has ended and its outcome is available."""
        return self._ended.is_set()

    @property
    def exit_code(self) -> int:
        """Exit code of a program that has ended; ``-n`` if signal ``n`` ended it."""
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
                start_new_session=True,  # Ctrl-C must reach it through cancel() only
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
        """Send a signal to the child's process group."""
        if not self.has_ended:
            with suppress(ProcessLookupError):  # the child has just ended
                os.killpg(self._process.pid, number)

    def _kill(self) -> None:
        """Kill the process group and all descendants, such as MPI ranks in their own sessions."""
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
            self._kill()  # remaining descendants
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
                self._kill()  # nothing watches the child any more
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
        self.trace.read()  # last device reading; the exact account of all reaped processes follows
        self.trace.end(*self.used_s)
        return True

    def _shown(self, content: bytes) -> bytes:
        """Return output of the child program with secrets replaced by ``***``."""
        if not self.launch.secrets:
            return content
        return hide(content.decode(errors="replace"), self.launch.secrets.values()).encode()

    def printed(self, name: str) -> bytes:
        """Return the child's ``stdout.txt`` or ``stderr.txt`` without secrets.

        The middle of long output is left out.
        """
        content = (self.launch.work_dir / name).read_bytes()
        if len(content) > 2 * _MOST_TEXT:
            left_out = f"\n... {len(content) - 2 * _MOST_TEXT:,} bytes left out ...\n".encode()
            content = content[:_MOST_TEXT] + left_out + content[-_MOST_TEXT:]
        return self._shown(content)

    def account(self) -> dict[str, object]:
        """Return exit code, CPU time and wall time of the child, for ``process.json``."""
        return {
            "exit_code": self.exit_code,
            "cpu_s": self.trace.latest()[1] / NS_PER_S,
            "wall": format_duration(self.ended_ns - self.started_ns),
            "note": self.account_note,
        }

    def raw(self) -> dict[str, bytes]:
        """Return the files to store with the run's results, as contents by name."""
        names = ["stderr.txt"] if self.piped else ["stdout.txt", "stderr.txt"]
        return {
            "command.txt": f"{self.launch.text}\n".encode(),
            **{name: self.printed(name) for name in names},
            "process.json": (json.dumps(self.account(), indent=2) + "\n").encode(),
        }

    def failure(self, fix: str) -> Failure | None:
        """Return a failure with the last lines of standard error if the program hung or failed.

        Returns None if it succeeded or was cancelled.
        """
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

    def hung_failure(self, fix: str = "read the program's output in raw/") -> Failure:
        """Return the failure to report for a program that exceeded its time limit."""
        return Failure(message=f"{self.launch.name} did not end in time", fix=fix)

    def unmeasured(self) -> RunOutcome:
        """Return an outcome without results, whose measure window is empty."""
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
        """Return an outcome with window, samples, totals and CPU use from recorded events.

        Args:
            events: The events of each kind of operation.
            window: Start and end of the measure window, in ns on the run's clock.
            interval_ns: The length of a sample.
            workers: The number of workers, which limits the cores that the child can use.
        """
        # Import late: numpy would take a fifth of the import time of clients in a cluster.
        from storlab.process.events import samples, totals

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
    """Describe an exit code in words, such as "with exit code 1" or "by signal 9"."""
    return f"with exit code {exit_code}" if exit_code >= 0 else f"by signal {-exit_code}"


class _EndWatch:
    """Waits with a timeout for the end of a process, and leaves it to others to reap it."""

    def __init__(self, pid: int) -> None:
        self._fd: int | None = None
        with suppress(OSError):  # unavailable in old kernels and some containers: then it polls
            self._fd = os.pidfd_open(pid)

    def wait(self, seconds: float) -> None:
        """Wait until the process ends, at most ``seconds``."""
        if self._fd is None:
            threading.Event().wait(seconds)
            return
        poll = select.poll()
        poll.register(self._fd, select.POLLIN)
        poll.poll(round(seconds * 1000))

    def close(self) -> None:
        """Close the pidfd (file descriptor of the process)."""
        if self._fd is not None:
            os.close(self._fd)
