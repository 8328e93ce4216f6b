"""Start the ranks of a run, watch mpiexec from outside, and end it.

The lab is no rank: a rank that dies takes rank 0 with it. What mpiexec says when it ends tells
nothing of the run; that is judged by what rank 0 has gathered.
"""

from __future__ import annotations

import os
import secrets
import signal
import subprocess
import threading
from collections.abc import Sequence
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import IO, Any, cast

from storlab.base.clock import monotonic_ns, sleep_s
from storlab.base.errors import EngineError
from storlab.base.units import NS_PER_S
from storlab.cluster import leftovers
from storlab.cluster.mpiexec import Launcher, Ranks, command, environment, slurm_places
from storlab.cluster.order import framed
from storlab.process.parent_death import start_child

KEPT_BYTES = 64 * 1024  # of what all ranks print
MARK = "STORLAB_MPI_JOB"
_LOOK_S = 0.05
_REAP_S = 0.2  # of the grace, for the end after SIGKILL


class MpiJob:
    """An mpiexec that was started. All methods may be called from any thread."""

    def __init__(self, process: subprocess.Popen[Any], mark: str, size: int) -> None:
        self.size = size
        self.started_ns = monotonic_ns()
        self._process = process
        self._mark = mark
        self._lock = threading.Lock()
        self._printed = b""
        self._ended = False
        self._reader = threading.Thread(target=self._read, name="mpiexec output", daemon=True)
        self._reader.start()

    @property
    def pid(self) -> int:
        """Of mpiexec, which leads a session and a process group of its own."""
        return self._process.pid

    @property
    def printed(self) -> str:
        """The last KEPT_BYTES of what mpiexec and all ranks printed; secrets are not hidden."""
        with self._lock:
            return self._printed.decode(errors="replace")

    def poll(self) -> int | None:
        """Exit code of mpiexec (negative: the signal that ended it), or None while it runs."""
        return self._process.poll()

    def wait(self, timeout_s: float) -> int | None:
        """As ``poll``, after at most so long."""
        with suppress(subprocess.TimeoutExpired):
            return self._process.wait(timeout_s)
        return None

    def end(self, grace_s: float = 5.0) -> int | None:
        """End all of it that is on this machine; exit code of mpiexec, or None where it stays.

        SIGTERM first, so that clients elsewhere are told; SIGKILL before ``grace_s`` is over. Never
        waits longer, whether processes have gone or not: one that waits for a disk cannot be ended.
        """
        deadline_ns = monotonic_ns() + round(grace_s * NS_PER_S)
        pids = leftovers.processes_of(self.pid, self._mark)
        files = {file for pid in pids for file in leftovers.shared_memory_of(pid)}
        if self.poll() is None:
            with suppress(OSError):
                # To mpiexec alone: its helpers then end by its word and leave no files behind.
                os.kill(self.pid, signal.SIGTERM)
            self._wait_until(deadline_ns - round(min(_REAP_S, grace_s / 4) * NS_PER_S))
        elif pids:
            self._wait_until(deadline_ns - round(min(_REAP_S, grace_s / 4) * NS_PER_S))
        pids = leftovers.processes_of(self.pid, self._mark)
        files |= {file for pid in pids for file in leftovers.shared_memory_of(pid)}
        leftovers.kill(pids)
        self._wait_until(deadline_ns)
        leftovers.remove(files)
        leftovers.remove_session(self.pid)
        leftovers.remove_stale_folders()
        self._reader.join(max(0.0, (deadline_ns - monotonic_ns()) / NS_PER_S))
        return self.poll()

    def await_output(self, limit_s: float) -> None:
        """Once mpiexec has ended: until all that it printed is read, or a rank outlives it."""
        self._reader.join(limit_s)

    def _wait_until(self, deadline_ns: int) -> None:
        """For mpiexec and its ranks here."""
        while monotonic_ns() < deadline_ns:
            if self.poll() is not None and not leftovers.processes_of(self.pid, self._mark):
                return
            sleep_s(_LOOK_S)

    def _read(self) -> None:
        output = cast(IO[bytes], self._process.stdout)
        with suppress(OSError, ValueError), output:
            while part := os.read(output.fileno(), KEPT_BYTES):
                with self._lock:
                    self._printed = (self._printed + part)[-KEPT_BYTES:]


def start(
    launcher: Launcher,
    ranks: Ranks,
    program: Sequence[str],
    order: bytes,
    work_dir: Path | None = None,
) -> MpiJob:
    """Start ``program`` as every rank; rank 0 gets ``order`` (``order.read_order``).

    The order travels in memory that only this process and mpiexec have open: it may hold secrets.
    When storlab ends, however that is, mpiexec does, and the ranks with it. Raises EngineError
    where mpiexec cannot be run, UsageError where hosts and clients do not fit.
    """
    words = command(launcher, ranks, program)
    settings = environment(launcher, ranks)
    nonce = secrets.token_hex(16)
    settings[MARK] = nonce
    with ExitStack() as files:
        stdin = files.enter_context(_memory("order", framed(order, ranks.size)))
        passed = []
        if launcher.vendor == "slurm":
            places = files.enter_context(
                _memory("places", slurm_places(ranks, os.environ).encode())
            )
            settings["SLURM_HOSTFILE"] = f"/proc/self/fd/{places.fileno()}"
            passed = [places.fileno()]
        try:
            process = start_child(
                words,
                signal.SIGKILL,
                passed,
                stdin=stdin,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                env=settings,
                cwd=work_dir,
                start_new_session=True,
            )
        except OSError as error:
            raise EngineError(
                str(launcher.program), f"cannot be run: {error.strerror}", "see [cluster] mpiexec"
            ) from error
    return MpiJob(process, f"{MARK}={nonce}", ranks.size)


def _memory(name: str, content: bytes) -> IO[bytes]:
    """A file without a name, to be read from its beginning."""
    file = os.fdopen(os.memfd_create(name), "w+b")
    file.write(content)
    file.seek(0)
    return file
