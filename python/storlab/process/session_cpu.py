"""CPU time of a child and of all its descendants over time, and what a device read meanwhile.

The window of a run is cut from it afterwards. The kernel's account of a process counts in ticks of
10 ms (``/proc/PID/stat``); between two readings CPU time is taken to grow evenly.

Some children start others (mpirun its ranks, a loader its workers), some of them in sessions of
their own. The time of those that have ended and were waited for is in the account of their parents.
``/proc`` is read by hand: parent, times and birth of a process are wanted of one moment, several
times a second of all processes, and psutil would be a dependency for these few lines.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from storlab.base.clock import monotonic_ns
from storlab.base.units import NS_PER_S
from storlab.model.result import CpuUse
from storlab.process.device_counter import counter_of, moved_bytes
from storlab.process.machine_cpu import MachineTrace

TICK_NS = NS_PER_S // os.sysconf("SC_CLK_TCK")
_PARENT = 3  # fields of /proc/PID/stat, from 0
_USER, _SYSTEM, _KIDS_USER, _KIDS_SYSTEM = 13, 14, 15, 16
_BORN = 21


class SessionTrace:
    """Readings of ``leader`` with its descendants, of the machine, and of the device behind
    ``place``, from the start of the leader to its end.

    ``alone``: it starts no others, so that none are looked for among all processes.
    """

    def __init__(
        self, leader: int, started_ns: int, place: Path | None = None, *, alone: bool = False
    ) -> None:
        self._leader = leader
        self._alone = alone
        self._times: list[int] = [started_ns]
        self._user: list[int] = [0]
        self._system: list[int] = [0]
        self._machine = MachineTrace()
        self._counter = None if place is None else counter_of(place)
        self._device: list[tuple[int, int]] = []  # time, bytes read
        self.relatives: dict[int, int] = {}  # descendants as last seen: pid, and when it was born

    def read(self) -> None:
        """Add a reading; of CPU time nothing when the child has gone."""
        used = account(self._leader) if self._alone else family(self._leader)
        if used:
            self.relatives = {pid: times[2] for pid, times in used.items() if pid != self._leader}
            user, system = (TICK_NS * sum(times[n] for times in used.values()) for n in (0, 1))
            self._add(monotonic_ns(), user, system)
        self._machine.read()
        moved = moved_bytes(self._counter)
        if moved is not None:
            self._device.append((monotonic_ns(), moved[0]))

    def end(self, user_s: float, system_s: float) -> None:
        """The exact account of the whole child, when it has ended."""
        self._add(monotonic_ns(), round(user_s * NS_PER_S), round(system_s * NS_PER_S))

    def _add(self, now_ns: int, user_ns: int, system_ns: int) -> None:
        self._times.append(now_ns)
        self._user.append(max(self._user[-1], user_ns))
        self._system.append(max(self._system[-1], system_ns))

    def between(self, start_ns: int, end_ns: int) -> tuple[int, int]:
        """User and system time that was used between two moments of the run's clock, in ns."""
        import numpy as np  # as in machine_cpu

        moments = [start_ns, end_ns]
        user = np.interp(moments, self._times, self._user)
        system = np.interp(moments, self._times, self._system)
        return round(user[1] - user[0]), round(system[1] - system[0])

    def latest(self) -> tuple[int, int]:
        """Time of the last reading, and CPU time used until then, in ns."""
        return self._times[-1], self._user[-1] + self._system[-1]

    def machine(self, start_ns: int, end_ns: int) -> dict[str, Any]:
        """Fields of ``CpuUse`` about the whole machine, between two moments."""
        return self._machine.between(start_ns, end_ns)

    def cpu_use(self, start_ns: int, end_ns: int, cores: int) -> CpuUse:
        """Between two moments of the run's clock, of a child that could use so many cores."""
        user_ns, system_ns = self.between(start_ns, end_ns)
        return CpuUse(
            user_ns=user_ns,
            system_ns=system_ns,
            cores=cores,
            **self.machine(start_ns, end_ns),
        )

    def device_read_bytes(self, start_ns: int, end_ns: int) -> int | None:
        """What the device read between two moments, between readings evenly; None: not counted."""
        if len(self._device) < 2:
            return None
        import numpy as np

        times, read = zip(*self._device, strict=True)
        begin, end = np.interp([start_ns, end_ns], times, read)
        return round(float(end - begin))


def account(pid: int) -> dict[int, tuple[int, int, int]]:
    """As ``family``, of the process alone and without its children."""
    fields = _fields(pid)
    if not fields:
        return {}
    user, system, born = (int(fields[n - 2]) for n in (_USER, _SYSTEM, _BORN))
    return {pid: (user, system, born)}


def family(leader: int) -> dict[int, tuple[int, int, int]]:
    """Of a process and of all its descendants, by pid: user and system ticks, those of waited-for
    children included, and the tick of its birth. Empty when it has gone.
    """
    used: dict[int, tuple[int, int, int]] = {}
    children: dict[int, list[int]] = {}
    for pid in map(int, filter(str.isdigit, os.listdir("/proc"))):  # noqa: PTH208 - names alone
        fields = _fields(pid)
        if not fields:
            continue
        parent, user, system, kids_user, kids_system, born = (
            int(fields[n - 2]) for n in (_PARENT, _USER, _SYSTEM, _KIDS_USER, _KIDS_SYSTEM, _BORN)
        )
        used[pid] = (user + kids_user, system + kids_system, born)
        children.setdefault(parent, []).append(pid)
    own = [leader] if leader in used else []
    for pid in own:
        own += children.get(pid, [])
    return {pid: used[pid] for pid in own}


def is_alive(pid: int, born: int) -> bool:
    """Whether that very process is still there, and has not just its number."""
    fields = _fields(pid)
    return bool(fields) and int(fields[_BORN - 2]) == born and fields[0] != b"Z"


def _fields(pid: int) -> list[bytes]:
    """Of ``/proc/PID/stat`` from the state on; none when the process has ended."""
    try:
        # Bytes by the shortest way: during a run every process of the machine is read, often.
        with open(f"/proc/{pid}/stat", "rb", buffering=0) as file:  # noqa: PTH123
            text = file.read()
    except OSError:
        return []
    return text.rpartition(b")")[2].split()  # the name before it may hold anything
