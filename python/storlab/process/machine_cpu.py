"""CPU use of the whole machine over time, by any process."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any, NamedTuple

from storlab.base.clock import monotonic_ns

_IDLE, _WAITING, _STOLEN = 3, 4, 7  # columns of /proc/stat
_FIELDS = 8  # later columns are guest time, already included in user time


class MachineTicks(NamedTuple):
    """CPU ticks of all cores since boot: busy, stolen by the hypervisor, and total."""

    busy: int
    stolen: int  # by the hypervisor, for other guests
    all: int


def machine_ticks() -> MachineTicks:
    """Return the CPU ticks of the machine since boot. Raises OSError without /proc/stat."""
    first = Path("/proc/stat").read_text().split("\n", 1)[0]
    ticks = [int(field) for field in first.split()[1 : 1 + _FIELDS]]
    busy = sum(ticks) - ticks[_IDLE] - ticks[_WAITING]
    return MachineTicks(busy, ticks[_STOLEN], sum(ticks))


class MachineTrace:
    """Series of readings of the machine's CPU ticks; values between them are interpolated."""

    def __init__(self) -> None:
        self._readings: list[tuple[int, ...]] = []  # time; busy, stolen and all ticks

    def read(self) -> None:
        """Add a reading of ``/proc/stat``."""
        self._readings.append((monotonic_ns(), *machine_ticks()))

    def between(self, start_ns: int, end_ns: int) -> dict[str, Any]:
        """Return the fields of ``CpuUse`` that describe the whole machine, between two times.

        All percentages are None if there are fewer than two readings.
        """
        busy, stolen = self._percent(start_ns, end_ns) or (None, None)
        return {
            "machine_busy_percent": busy,
            "machine_steal_percent": stolen,
            "machine_cores": os.cpu_count(),
        }

    def _percent(self, start_ns: int, end_ns: int) -> tuple[float, float] | None:
        if len(self._readings) < 2:
            return None
        import numpy as np  # imported late: rarely needed, and a fifth of a client's import time

        times, *kept = zip(*self._readings, strict=True)
        busy, stolen, every = (
            float(np.diff(np.interp([start_ns, end_ns], times, ticks))[0]) for ticks in kept
        )
        return (100 * busy / every, 100 * stolen / every) if every > 0 else None
