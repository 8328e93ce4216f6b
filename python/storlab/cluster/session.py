"""A task of all clients, seen from the lab: it is outside of MPI, and trusts only files.

What mpiexec says when it ends counts for nothing: with a killed proxy all data can be there and its
code be 255, and with a link down it may never end. A task is done when every client's outcome is
there.
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

START_NS = 120 * NS_PER_S  # from mpiexec to the first sign of rank 0
_LOOK_S = 0.05
_LONGEST_LOOK_NS = NS_PER_S  # of the time between two looks, what counts as silence of rank 0
_OUTPUT_S = 2.0  # for what mpiexec printed last
_STARTS = 3  # of mpiexec, where MPI itself does not come up
_GRACE_S = 2.0  # of mpiexec, once all has been gathered


@dataclass(frozen=True, slots=True)
class Gathered:
    """What came of a task."""

    outcomes: dict[int, bytes]  # by rank; of clients that are lost, none
    clocks: list[dict[str, ClockOffset]]  # by client: before the load, and after it
    failure: Failure | None = None
    lost: dict[str, str] = field(default_factory=dict)  # clients, and why
    printed: str = ""  # by mpiexec and all ranks, the end of it


class Session:
    """One mpiexec from its start to its end. ``directory`` is empty and its own."""

    def __init__(
        self, launcher: Launcher, ranks: Ranks, program: list[str], order: Order, directory: Path
    ) -> None:
        self._order = order
        self._directory = directory
        self._stamp = 0  # of the last sign of rank 0
        self._silent_ns = 0  # since then
        self._result: Gathered | None = None
        self._starts_left = _STARTS
        self._launch = partial(
            launch.start, launcher, ranks, program, order.model_dump_json().encode(), directory
        )
        self._start()

    def live(self) -> dict[str, Any]:
        """What rank 0 last wrote: ``phase``, ``armed``, and ``clients`` by name."""
        with suppress(OSError, ValueError):
            return dict(json.loads((self._directory / LIVE).read_bytes()))
        return {"phase": "start", "armed": 0, "clients": {}}

    def stop(self) -> None:
        """Ask the clients to end their load. Returns at once."""
        (self._directory / STOP).touch()

    def wait(self, timeout_s: float) -> Gathered | None:
        """What came of it, or None when the time-out passed first."""
        deadline_ns = monotonic_ns() + round(timeout_s * NS_PER_S)
        while self._result is None and monotonic_ns() < deadline_ns:
            self._result = self._look()
            if self._result is None:
                sleep_s(_LOOK_S)
        return self._result

    def end(self) -> None:
        """End all of it that is on this machine. Clients elsewhere end without rank 0."""
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
            where = "rank 0 gave no sign" if self._stamp else "the clients did not start"
            return self._finish(Failure(message=f"{where}: {self._tail()}", fix=_START_FIX), {})
        return None

    def _can_start_again(self) -> bool:
        """MPI itself gave up before rank 0 gave a sign: nothing has begun, and nobody was lost.

        Seen with MPICH under Slurm: now and then its ranks cannot exchange their addresses. Then
        mpiexec may end, or wait for ever.
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
        """After a load the clocks are measured again; without that, too, the outcome counts.

        A directory is given up when all clients have ended: that, too, is waited for.
        """
        if code is not None or self._is_mute():
            return True
        if self._order.gives_up:
            return self._read(LOST) is not None
        return not self._order.loads or len(self._read(CLOCKS) or [0, 0]) > 1

    def _is_mute(self) -> bool:
        """Rank 0 gave no sign for too long, as far as this process was run to see one."""
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
        message = f"{named}: said nothing for {limit:g} s ({lost['phase']})"
        return Failure(message=message, fix=_LOST_FIX), clients

    def _died(self, code: int) -> tuple[Failure, dict[str, str]]:
        """mpiexec has ended without all outcomes: which client, only its words tell."""
        missing = [c.name for c in self._order.clients if c.rank in self._missing()]
        blamed = [name for name in self._blamed() if name in missing] or missing
        message = f"{', '.join(blamed)}: ended without an outcome (mpiexec: {code}): {self._tail()}"
        return Failure(message=message, fix=_LOST_FIX), dict.fromkeys(missing, "ended")

    def _blamed(self) -> list[str]:
        """Whom mpiexec speaks of: a client by its rank, by its process, or all of one host."""
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
    """What every rank runs; it finds its modules as this process does."""
    return [python or sys.executable, "-m", module]


def _names_host(text: str, host: str) -> bool:
    return any(word.strip(".,:;()[]") == host for word in text.split())


# MPICH and Intel MPI: "PID 123 RUNNING AT c1"; Open MPI: "with PID 123 on node c1". Hydra, the
# launcher of the former, kills all others of the host before it looks who has ended, and may print
# the process of one of those.
_KILLED = re.compile(r"\bPID\s+(\d+)\s+(RUNNING AT|on node)\s+([^\s,]+)")
_HYDRA = "RUNNING AT"
# Slurm: "srun: error: n2: task 2: Killed"; the others are terminated for it.
_TASK = re.compile(r"^srun: error: \S+: task (\d+): (?!Terminated)", re.MULTILINE)
# MPICH and Intel MPI: "Fatal error in internal_Init_thread" or PMPI_Init_thread; Open MPI: "It
# looks like MPI_INIT failed", "*** An error occurred in MPI_Init_thread"; Slurm, whose PMI2 may
# read half of a rank's request: "slurmstepd-n2: error: mpi/pmi2: request not begin with 'cmd='".
_NO_MPI = re.compile(
    r"error in (internal|P?MPI)_Init|MPI_INIT failed|occurred in MPI_Init"
    r"|^slurmstepd\S*: error: mpi/pmi2: .*request",
    re.MULTILINE,
)
_NOISE = re.compile(
    r"srun: error: \S+: tasks? \S+: Terminated|\S+: error: .* CANCELLED AT |srun: Force Terminated"
    r"|srun: (launch/slurm|Job step aborted|cluster configuration lacks support for cpu binding)"
    r"|CLEANING UP REMAINING|YOU CAN IGNORE|This typically refers|Please see the FAQ"
    r"|\[(mpiexec|proxy)\S*@"  # of Hydra's own functions
)
_LOST_FIX = "see whether that host is up and reaches this one (storlab doctor STUDY)"
_START_FIX = "see whether the hosts can be reached without a password (storlab doctor STUDY)"
