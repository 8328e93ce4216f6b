"""Periodic sampling of counters during a whole run, since its window is known only afterwards."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import Self

from storlab.base.clock import monotonic_ns

PERIOD_S = 0.05
MOST_READINGS = 100_000  # beyond this, every second reading is dropped and the period doubled


@dataclass(frozen=True, slots=True)
class CounterReading:
    """Values of counters, and the time on the run's clock at which they were read."""

    time_ns: int
    values: tuple[int, ...]


class CounterWatch:
    """Thread that reads counters periodically inside a ``with`` block, and at both ends of it.

    It calls ``read`` every ``period_s`` seconds, until ``read`` raises OSError.
    """

    def __init__(
        self, read: Callable[[], tuple[int, ...]], name: str, period_s: float = PERIOD_S
    ) -> None:
        self._read = read
        self._readings: list[CounterReading] = []
        self._period_s = period_s
        self._gone = False
        self._end = threading.Event()
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)

    def __enter__(self) -> Self:
        self._take()
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._end.set()
        self._thread.join()
        self._take()

    @property
    def readings(self) -> list[CounterReading]:
        """Readings so far in order of time; complete after the ``with`` block."""
        return self._readings

    def _run(self) -> None:
        while not self._end.wait(self._period_s):
            self._take()
            if self._gone:
                return

    def _take(self) -> None:
        if self._gone:
            return
        try:
            values = self._read()
        except OSError:
            self._gone = True
            return
        self._readings.append(CounterReading(monotonic_ns(), values))
        if len(self._readings) > MOST_READINGS:
            del self._readings[1::2]
            self._period_s *= 2
