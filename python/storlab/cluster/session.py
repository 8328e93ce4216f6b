"""Start a task on all clients from the main storlab process, and collect its result.

The main process is not an MPI rank and reads files that rank 0 writes. A task has succeeded when
the file of every client's outcome exists. mpiexec's exit code is not used: it may be 255 although
all outcomes have arrived, and with a broken connection mpiexec may never end.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from storlab.base.clock import monotonic_ns, sleep_s
from storlab.base.units import NS_PER_S
from storlab.cluster import launch
from storlab.cluster.mpiexec import Launcher, Ranks
from storlab.cluster.offsets import ClockOffset
from storlab.cluster.task import CLOCKS, LIVE, LOST, PIDS, STOP, Order, outcome_file
from storlab.model.cluster import LOCALHOST
from storlab.model.result import Failure

START_NS = 120 * NS_PER_S  # from the start of mpiexec to the first file of rank 0
_LOOK_S = 0.05
_LONGEST_LOOK_NS = NS_PER_S  # upper limit of the silence counted per check
_OUTPUT_S = 2.0  # time to read the last output of mpiexec
_STARTS = 3  # attempts to start mpiexec if MPI fails to initialise
_GRACE_S = 2.0  # time for mpiexec to end after all outcomes have arrived


@dataclass(frozen=True, slots=True)
class Gathered:
    """Result of a task, collected from the files of rank 0."""

    outcomes: dict[int, bytes]  # by rank, without lost clients
    clocks: list[dict[str, ClockOffset]]  # by client: before the load, and after it
    failure: Failure | None = None
    lost: dict[str, str] = field(default_factory=dict)  # reasons by lost client
    printed: str = ""  # end of the output of mpiexec and all ranks


class Session:
    """One task of all clients, from the start of mpiexec to its end.

    ``directory`` must be empty; rank 0 writes its files there.
    """

    def __init__(
        self, launcher: Launcher, ranks: Ranks, program: list[str], order: Order, directory: Path
    ) -> None:
        self._order = order
        self._directory = directory
        self._stamp = 0  # modification time of rank 0's progress file
        self._silent_ns = 0  # time since it last changed
        self._result: Gathered | None = None
        self._starts_left = _STARTS
        self._launch = partial(
            launch.start, launcher, ranks, program, order.model_dump_json().encode(), directory
        )
        self._start()

    def live(self) -> dict[str, Any]:
        """Return the latest progress: ``phase``, ``armed`` (clients ready), ``clients`` by name."""
        with suppress(OSError, ValueError):
            return dict(json.loads((self._directory / LIVE).read_bytes()))
        return {"phase": "start", "armed": 0, "clients": {}}

    def stop(self) -> None:
        """Request that the clients end their load; return without waiting for it."""
        (self._directory / STOP).touch()

    def wait(self, timeout_s: float) -> Gathered | None:
        """Wait for the result; return None if the time limit passes first."""
        deadline_ns = monotonic_ns() + round(timeout_s * NS_PER_S)
        while self._result is None and monotonic_ns() < deadline_ns:
            self._result = self._look()
            if self._result is None:
                sleep_s(_LOOK_S)
        return self._result

    def end(self) -> None:
        """End mpiexec and all ranks on this machine; remote clients end because rank 0 ends."""
        self._job.end(0.5)

    def _start(self) -> None:
        self._starts_left -= 1
        self._silent_ns, self._looked_ns = 0, monotonic_ns()
        self._job = self._launch()

    def _look(self) -> Gathered | None:
        missing = self._missing()
        code = self._job.poll()
        if not missing and self._is_whole(code):
            return self._finish(None, {})
        lost = self._read(LOST)
        if lost is not None:
            return self._finish(*self._silent(lost))
        if code is not None:
            self._job.await_output(_OUTPUT_S)
        if self._missing() and self._can_start_again():
            self._job.end(0.5)
            self._start()
            return None
        if code is not None and self._missing():
            return self._finish(*self._died(code))
        if self._is_mute() and self._missing():
            where = "rank 0 did not respond" if self._stamp else "the clients did not start"
            return self._finish(Failure(message=f"{where}: {self._tail()}", fix=_START_FIX), {})
        return None

    def _can_start_again(self) -> bool:
        """Return whether MPI failed to initialise before rank 0 began, so that a restart is safe.

        This happens with MPICH under Slurm, where ranks sometimes fail to exchange their addresses
        and mpiexec ends or hangs.
        """
        begun = (self._directory / LIVE).exists()
        return not begun and self._starts_left > 0 and bool(_NO_MPI.search(self._job.printed))

    def _missing(self) -> list[int]:
        return [
            client.rank
            for client in self._order.clients
            if not outcome_file(self._directory, client.rank).exists()
        ]

    def _is_whole(self, code: int | None) -> bool:
        """Return whether the result is complete, once the outcomes of all clients have arrived.

        After a load, the second measurement of the clocks must have arrived too. In a task that
        releases the campaign's directories, all clients must have ended. If mpiexec has ended or
        rank 0 does not respond, nothing more can arrive.

        Args:
            code: Exit code of mpiexec, or None if it still runs.
        """
        if code is not None or self._is_mute():
            return True
        if self._order.gives_up:
            return self._read(LOST) is not None
        return not self._order.loads or len(self._read(CLOCKS) or [0, 0]) > 1

    def _is_mute(self) -> bool:
        """Return whether rank 0 has not written its progress file for too long.

        Time in which this process was suspended does not count.
        """
        now = monotonic_ns()
        self._silent_ns += min(now - self._looked_ns, _LONGEST_LOOK_NS)
        self._looked_ns = now
        with suppress(OSError):
            stamp = (self._directory / LIVE).stat().st_mtime_ns
            if stamp != self._stamp:
                self._stamp, self._silent_ns = stamp, 0
        if not self._stamp:
            return self._silent_ns > START_NS
        return self._silent_ns > 2 * self._order.lost_after_ns + self._order.clocks_ns

    def _silent(self, lost: Mapping[str, Any]) -> tuple[Failure, dict[str, str]]:
        clients = dict(lost["clients"])
        named = ", ".join(clients)
        limit = lost["after_ns"] / NS_PER_S
        message = f"{named}: did not respond for {limit:g} s ({lost['phase']})"
        return Failure(message=message, fix=_LOST_FIX), clients

    def _died(self, code: int) -> tuple[Failure, dict[str, str]]:
        """Return the failure, and the lost clients with reasons, after mpiexec ended too early.

        Args:
            code: Exit code of mpiexec.
        """
        missing = [c.name for c in self._order.clients if c.rank in self._missing()]
        blamed = [name for name in self._blamed() if name in missing] or missing
        message = f"{', '.join(blamed)}: ended without an outcome (mpiexec: {code}): {self._tail()}"
        return Failure(message=message, fix=_LOST_FIX), dict.fromkeys(missing, "ended")

    def _blamed(self) -> list[str]:
        """Return the clients that ended first according to mpiexec's output.

        The output identifies a client by its rank, process id or host.
        """
        clients, printed = self._order.clients, self._job.printed
        if (ended := _TASK.search(printed)) is not None:
            return [client.name for client in clients if str(client.rank) == ended[1]]
        pids = self._read(PIDS) or {}
        blamed = {
            client.name: [other.name for other in clients if other.host == client.host]
            if words == _HYDRA
            else [client.name]
            for client in clients
            for pid, words, host in _KILLED.findall(printed)
            if pids.get(client.name) == int(pid) and client.host in (host, LOCALHOST)
        }
        if not blamed and len({client.host for client in clients}) > 1:
            named = (client.name for client in clients if _names_host(printed, client.host))
            blamed = {name: [name] for name in named}
        return next(iter(blamed.values())) if len(blamed) == 1 else []

    def _tail(self) -> str:
        lines = [line.strip(" =|-") for line in self._job.printed.splitlines()]
        full = [line for line in lines if any(sign.isalnum() for sign in line)]
        told = [line for line in full if not _NOISE.match(line)] or full
        return " / ".join(told[-4:])[-600:] or "nothing was printed"

    def _finish(self, failure: Failure | None, lost: dict[str, str]) -> Gathered:
        if failure is None:
            self._job.wait(_GRACE_S)
        self._job.end(0.5)
        outcomes = {
            client.rank: outcome_file(self._directory, client.rank).read_bytes()
            for client in self._order.clients
            if client.rank not in self._missing()
        }
        clocks = [
            {name: ClockOffset(*values) for name, values in measured.items()}
            for measured in self._read(CLOCKS) or []
        ]
        return Gathered(outcomes, clocks, failure, lost, self._job.printed)

    def _read(self, name: str) -> Any:
        with suppress(FileNotFoundError):
            return json.loads((self._directory / name).read_bytes())
        return None


def program(python: str | None, module: str) -> list[str]:
    """Return the command that runs a Python module as a rank.

    Args:
        python: Python interpreter on the clients; None for that of this process.
        module: Module to run.
    """
    return [python or sys.executable, "-m", module]


def _names_host(text: str, host: str) -> bool:
    return any(word.strip(".,:;()[]") == host for word in text.split())


# MPICH and Intel MPI print "PID 123 RUNNING AT c1", Open MPI "with PID 123 on node c1". The first
# two use the launcher Hydra, which kills all other ranks of the host before it checks which one
# ended, and so may print the process id of one that it killed.
_KILLED = re.compile(r"\bPID\s+(\d+)\s+(RUNNING AT|on node)\s+([^\s,]+)")
_HYDRA = "RUNNING AT"
# Slurm prints "srun: error: n2: task 2: Killed" for the task that ended first, and "Terminated" for
# those that it ends afterwards.
_TASK = re.compile(r"^srun: error: \S+: task (\d+): (?!Terminated)", re.MULTILINE)
# Messages if MPI fails to initialise. MPICH and Intel MPI: "Fatal error in internal_Init_thread" or
# PMPI_Init_thread. Open MPI: "It looks like MPI_INIT failed", "*** An error occurred in
# MPI_Init_thread". Slurm, if its PMI2 plugin reads only half of a rank's request:
# "slurmstepd-n2: error: mpi/pmi2: request not begin with 'cmd='".
_NO_MPI = re.compile(
    r"error in (internal|P?MPI)_Init|MPI_INIT failed|occurred in MPI_Init"
    r"|^slurmstepd\S*: error: mpi/pmi2: .*request",
    re.MULTILINE,
)
_NOISE = re.compile(
    r"srun: error: \S+: tasks? \S+: Terminated|\S+: error: .* CANCELLED AT |srun: Force Terminated"
    r"|srun: (launch/slurm|Job step aborted|cluster configuration lacks support for cpu binding)"
    r"|CLEANING UP REMAINING|YOU CAN IGNORE|This typically refers|Please see the FAQ"
    r"|\[(mpiexec|proxy)\S*@"  # messages of Hydra's own functions
)
_LOST_FIX = "check that the host is up and reaches this machine (storlab doctor STUDY)"
_START_FIX = "check that the hosts can be reached without a password (storlab doctor STUDY)"
