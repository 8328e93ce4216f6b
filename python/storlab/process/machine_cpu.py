"""What all cores of this machine were busy with over time, whoever used them."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any, NamedTuple

from storlab.base.clock import monotonic_ns

_IDLE, _WAITING, _STOLEN = 3, 4, 7  # ticks of /proc/stat
_FIELDS = 8  # those of guests, behind them, are in user time already


class MachineTicks(NamedTuple):
    """Of all cores, since the machine began."""

    busy: int
    stolen: int  # by its host, for others
    all: int


def machine_ticks() -> MachineTicks:
    """Until now. Raises OSError where the kernel does not tell."""
    first = Path("/proc/stat").read_text().split("\n", 1)[0]
    ticks = [int(field) for field in first.split()[1 : 1 + _FIELDS]]
    busy = sum(ticks) - ticks[_IDLE] - ticks[_WAITING]
    return MachineTicks(busy, ticks[_STOLEN], sum(ticks))


class MachineTrace:
    """Readings of ``/proc/stat``; between two of them ticks are taken to grow evenly."""

    def __init__(self) -> None:
        self._readings: list[tuple[int, ...]] = []  # time; ticks: busy, stolen, all

    def read(self) -> None:
        """Add a reading."""
        self._readings.append((monotonic_ns(), *machine_ticks()))

    def between(self, start_ns: int, end_ns: int) -> dict[str, Any]:
        """Fields of ``CpuUse`` about the machine; None where nothing was read."""
        busy, stolen = self._percent(start_ns, end_ns) or (None, None)
        return {
            "machine_busy_percent": busy,
            "machine_steal_percent": stolen,
            "machine_cores": os.cpu_count(),
        }

    def _percent(self, start_ns: int, end_ns: int) -> tuple[float, float] | None:
        if len(self._readings) < 2:
            return None
        import numpy as np  # a fifth of what a client of a cluster imports, and few need it

        times, *kept = zip(*self._readings, strict=True)
        busy, stolen, every = (
            float(np.diff(np.interp([start_ns, end_ns], times, ticks))[0]) for ticks in kept
        )
        return (100 * busy / every, 100 * stolen / every) if every > 0 else None
