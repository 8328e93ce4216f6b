"""CPU time of a child process over time, so that a window can be cut from it afterwards.

The kernel's account of a process (``/proc/PID/stat``) counts in ticks of 10 ms; between two
readings CPU time is taken to grow evenly.
"""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np

from storlab.base.clock import monotonic_ns
from storlab.base.units import NS_PER_S
from storlab.model.result import CpuUse
from storlab.process.machine_cpu import MachineTrace

_USER, _SYSTEM = 13, 14  # fields of /proc/PID/stat, from 0


class CpuTrace:
    """Readings of one process, from its start to its end."""

    def __init__(self, pid: int, started_ns: int) -> None:
        self._stat = Path(f"/proc/{pid}/stat")
        self._tick_ns = NS_PER_S // os.sysconf("SC_CLK_TCK")
        self._times: list[int] = [started_ns]
        self._user: list[int] = [0]
        self._system: list[int] = [0]
        self._machine = MachineTrace()

    def read(self) -> None:
        """Add a reading; nothing when the process is gone."""
        try:
            text = self._stat.read_text()
        except OSError:
            return
        fields = text.rpartition(")")[2].split()  # the name before it may hold anything
        user, system = (int(fields[n - 2]) * self._tick_ns for n in (_USER, _SYSTEM))
        self._add(monotonic_ns(), user, system)
        self._machine.read()

    def cpu_use(self, start_ns: int, end_ns: int, cores: int) -> CpuUse:
        """Between two moments of the run's clock, of a program that could use so many cores."""
        user_ns, system_ns = self.between(start_ns, end_ns)
        return CpuUse(
            user_ns=user_ns,
            system_ns=system_ns,
            cores=cores,
            **self._machine.between(start_ns, end_ns),
        )

    def end(self, user_s: float, system_s: float) -> None:
        """The exact account of the whole process, when it has ended."""
        self._add(monotonic_ns(), round(user_s * NS_PER_S), round(system_s * NS_PER_S))

    def _add(self, now_ns: int, user_ns: int, system_ns: int) -> None:
        self._times.append(now_ns)
        self._user.append(max(self._user[-1], user_ns))
        self._system.append(max(self._system[-1], system_ns))

    def between(self, start_ns: int, end_ns: int) -> tuple[int, int]:
        """User and system time that was used between two moments of the run's clock, in ns."""
        moments = [start_ns, end_ns]
        user = np.interp(moments, self._times, self._user)
        system = np.interp(moments, self._times, self._system)
        return round(user[1] - user[0]), round(system[1] - system[0])

    def latest(self) -> tuple[int, int]:
        """Time of the last reading, and CPU time used until then, in ns."""
        return self._times[-1], self._user[-1] + self._system[-1]
