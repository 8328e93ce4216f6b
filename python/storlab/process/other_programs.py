"""CPU time of programs other than storlab and its children, between two moments."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from storlab.base.clock import monotonic_ns
from storlab.base.units import NS_PER_S

_TICKS_PER_S = os.sysconf("SC_CLK_TCK")
# Fields of /proc/PID/stat after the name, from 0.
_PARENT, _USER, _SYSTEM, _BORN = 1, 11, 12, 19
_PROC = Path("/proc")


class _Process(NamedTuple):
    name: str
    parent: int
    ticks: int


class OtherPrograms:
    """CPU time of all programs since this object was created, except storlab's own.

    Threads of the kernel count as programs. Programs that end meanwhile are not seen, nor, in a
    container, those outside of it.

    Args:
        proc: Directory of processes; /proc except in tests.
        own: Process id of storlab.
    """

    def __init__(self, proc: Path = _PROC, own: int | None = None) -> None:
        self._proc = proc
        self._own = os.getpid() if own is None else own
        self._began_ns = monotonic_ns()
        self._before = dict(self._processes())

    def busiest(self, least_percent: float) -> list[tuple[str, float]]:
        """Return the names of busy programs and their CPU time in percent of a core, busiest first.

        Args:
            least_percent: CPU time below which a program is left out.
        """
        now = dict(self._processes())
        elapsed_s = max(1, monotonic_ns() - self._began_ns) / NS_PER_S
        parents = {pid: process.parent for (pid, _), process in now.items()}
        used: dict[str, float] = {}
        for (pid, born), process in now.items():
            before = self._before.get((pid, born))
            ticks = process.ticks - (0 if before is None else before.ticks)
            if ticks and not self._is_own(pid, parents):
                used[process.name] = used.get(process.name, 0.0) + ticks
        percent = {name: 100 * ticks / _TICKS_PER_S / elapsed_s for name, ticks in used.items()}
        busy = [(name, share) for name, share in percent.items() if share >= least_percent]
        return sorted(busy, key=lambda program: -program[1])

    def _is_own(self, pid: int, parents: dict[int, int]) -> bool:
        while pid in parents and pid != self._own:
            pid = parents[pid]
        return pid == self._own

    def _processes(self) -> Iterator[tuple[tuple[int, int], _Process]]:
        """Yield each process with its id and its start tick, which no two processes share."""
        for name in filter(str.isdigit, os.listdir(self._proc)):  # noqa: PTH208 - names alone
            try:
                # Unbuffered reading is faster, and a machine may have thousands of processes.
                with open(self._proc / name / "stat", "rb", buffering=0) as file:  # noqa: PTH123
                    head, _, rest = file.read().rpartition(b")")
            except OSError:
                continue  # it has ended
            fields = rest.split()
            command = head.partition(b"(")[2].decode(errors="replace")
            ticks = int(fields[_USER]) + int(fields[_SYSTEM])
            yield (int(name), int(fields[_BORN])), _Process(command, int(fields[_PARENT]), ticks)
