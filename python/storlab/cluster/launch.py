"""Start the MPI ranks of a task by mpiexec, monitor mpiexec, and end it.

The main storlab process is not a rank, because MPI ends rank 0 if another rank dies. mpiexec's exit
code does not show whether the task succeeded; the files written by rank 0 do.
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

KEPT_BYTES = 64 * 1024  # kept from the end of all ranks' output
MARK = "STORLAB_MPI_JOB"
_LOOK_S = 0.05
_REAP_S = 0.2  # part of the grace period that follows SIGKILL


class MpiJob:
    """Handle of a running mpiexec; all methods are thread-safe."""

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
        """Return mpiexec's process id, which is also the id of its session and process group."""
        return self._process.pid

    @property
    def printed(self) -> str:
        """Return the last KEPT_BYTES of mpiexec's and all ranks' output; it may contain secrets."""
        with self._lock:
            return self._printed.decode(errors="replace")

    def poll(self) -> int | None:
        """Return the exit code of mpiexec (negative for a signal), or None while it runs."""
        return self._process.poll()

    def wait(self, timeout_s: float) -> int | None:
        """Wait at most ``timeout_s`` for mpiexec; return its exit code, or None if it runs on."""
        with suppress(subprocess.TimeoutExpired):
            return self._process.wait(timeout_s)
        return None

    def end(self, grace_s: float = 5.0) -> int | None:
        """End all processes of the job on this machine, and remove files that MPI left.

        mpiexec receives SIGTERM first and then ends remote clients. Shortly before ``grace_s`` is
        over, all processes receive SIGKILL. A process blocked in disk I/O may survive.

        Args:
            grace_s: Time limit in seconds.

        Returns:
            Exit code of mpiexec, or None if it still runs.
        """
        deadline_ns = monotonic_ns() + round(grace_s * NS_PER_S)
        pids = leftovers.processes_of(self.pid, self._mark)
        files = {file for pid in pids for file in leftovers.shared_memory_of(pid)}
        if self.poll() is None:
            with suppress(OSError):
                # Signal only mpiexec: it ends its helpers, which then remove their files.
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
        """Wait at most ``limit_s`` until all output of an ended mpiexec has been read."""
        self._reader.join(limit_s)

    def _wait_until(self, deadline_ns: int) -> None:
        """Wait until mpiexec and its local ranks have ended, or until the deadline."""
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
    """Start ``program`` as every rank; rank 0 reads ``order`` from standard input.

    The order may contain secrets, so it is passed in a memory file that only this process and
    mpiexec have open. If this process ends for any reason, mpiexec and the ranks end too.

    Args:
        launcher: Program that starts ranks.
        ranks: Hosts and number of ranks.
        program: Command of each rank.
        order: Task description for rank 0, which ``order.read_order`` reads.
        work_dir: Working directory of mpiexec.

    Raises:
        EngineError: mpiexec cannot be executed.
        UsageError: Hosts and number of clients do not match.
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
                str(launcher.program),
                f"cannot be run: {error.strerror}",
                "set [cluster] mpiexec to the path of a program that this user can execute",
            ) from error
    return MpiJob(process, f"{MARK}={nonce}", ranks.size)


def _memory(name: str, content: bytes) -> IO[bytes]:
    """Return an anonymous memory file with the content, positioned at its start."""
    file = os.fdopen(os.memfd_create(name), "w+b")
    file.write(content)
    file.seek(0)
    return file
