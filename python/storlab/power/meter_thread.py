"""Read a meter in its own thread, so that a slow one delays neither the load nor other meters."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable
from concurrent.futures import Future
from concurrent.futures import TimeoutError as FutureTimeoutError
from contextlib import suppress
from dataclasses import dataclass
from queue import Empty, SimpleQueue
from typing import Any, TypeVar

from storlab.base.clock import monotonic_ns
from storlab.base.errors import MeterError, StorlabError
from storlab.base.units import NS_PER_S
from storlab.contracts.meter import Meter
from storlab.model.power import Reading, SensorInfo
from storlab.model.result import RunOutcome
from storlab.process.defect import DEFECTS

OPEN_LIMIT_S = 60.0  # a management controller may have to wake up, or an address may not answer
ANSWER_LIMIT_S = 15.0
CLOSE_LIMIT_S = 5.0

ValueT = TypeVar("ValueT")
_Task = tuple["Future[Any]", Callable[[], Any]]


@dataclass(frozen=True, slots=True)
class Ended:
    """Time and reason at which a meter stopped answering."""

    time_ns: int
    why: str


class MeterThread:
    """Thread that opens a meter and reads it ``rate_hz`` times per second until it is closed.

    Only this thread uses the meter. A reading that takes longer than its period delays only the
    next one. If a reading fails, the thread takes no more readings, and ``ended`` has the time and
    the reason.
    """

    def __init__(self, name: str, opener: Callable[[], Meter], rate_hz: float) -> None:
        self.name = name
        self.period_ns = round(NS_PER_S / rate_hz)
        self.ended: Ended | None = None
        self._opener = opener
        self._meter: Meter | None = None
        self._readings: list[Reading] = []
        self._lock = threading.Lock()
        self._tasks: SimpleQueue[_Task | None] = SimpleQueue()
        self._periodic = False
        self._hangs = False
        self._thread = threading.Thread(target=self._live, name=f"meter {name}", daemon=True)

    def open(self) -> list[SensorInfo]:
        """Open the meter, start periodic readings and return its sensors.

        Raises:
            MeterError: The meter cannot be opened, or did not answer in time.
            StorlabError: Another error of the meter, such as a wrong field.
        """
        self._thread.start()
        try:
            return self.ask(self._open, OPEN_LIMIT_S)
        except StorlabError:
            self._tasks.put(None)
            raise

    def ask(self, question: Callable[[], ValueT], limit_s: float = ANSWER_LIMIT_S) -> ValueT:
        """Run a function in the meter's thread and wait for its result.

        Args:
            question: Function to run.
            limit_s: Longest wait in seconds.

        Raises:
            MeterError: The meter does not answer in time, did not answer before, or is closed.
        """
        if self._hangs or not self._thread.is_alive():
            why = "did not answer an earlier request" if self._hangs else "is closed"
            raise MeterError(self.name, why, "see the meter's first error")
        answer: Future[ValueT] = Future()
        self._tasks.put((answer, question))
        try:
            return answer.result(limit_s)
        except FutureTimeoutError:
            what = f"did not answer within {limit_s:g} s"
            self._hangs = True
            self.ended = self.ended or Ended(self._last_ns(), what)
            fix = "check the sensor and the connection to it"
            raise MeterError(self.name, what, fix) from None

    def describe(self) -> list[SensorInfo]:
        """Return the descriptions of the meter's sensors, as they are now."""
        return self.ask(lambda: self._open_meter().describe())

    def read_now(self) -> None:
        """Take one reading now, in addition to the periodic ones; a failure ends the readings."""
        self.ask(self._sample)

    def after_run(self, outcome: RunOutcome) -> list[Reading]:
        """Return the readings that the meter delivers only after a run, such as those of a log."""
        return self.ask(lambda: self._open_meter().after_run(outcome), OPEN_LIMIT_S)

    def notes(self) -> list[str]:
        """Return the meter's warnings about the last run; empty if there are none."""
        say = getattr(self._meter, "notes", None)
        return [] if say is None else list(self.ask(say))

    def idle_w(self) -> float | None:
        """Return the idle power in W that the study declares; None for other meters."""
        say = getattr(self._meter, "idle_w", None)
        return None if say is None else self.ask(say)

    @property
    def is_periodic(self) -> bool:
        """Return whether the meter is read during the load; False for declared or logged power."""
        return bool(getattr(self._meter, "periodic", True))

    def take(self, since_ns: int) -> list[Reading]:
        """Return the readings from ``since_ns`` on, and drop older ones."""
        with self._lock:
            self._readings = [r for r in self._readings if r.time_ns >= since_ns]
            return list(self._readings)

    def last(self, sensor: str, since_ns: int) -> list[Reading]:
        """Return the readings of one sensor from ``since_ns`` on, without dropping any."""
        readings: list[Reading] = []
        with self._lock:
            for reading in reversed(self._readings):
                if reading.time_ns < since_ns:
                    break
                if reading.sensor == sensor:
                    readings.append(reading)
        return readings[::-1]

    def close(self) -> None:
        """Stop the thread and close the meter; a thread that hangs is abandoned."""
        if self._thread.ident is None:
            return
        self._tasks.put(None)
        self._thread.join(CLOSE_LIMIT_S)

    def _last_ns(self) -> int:
        with self._lock:
            return self._readings[-1].time_ns if self._readings else 0

    def _open(self) -> list[SensorInfo]:
        self._meter = self._opener()
        self._periodic = self.is_periodic
        return self._meter.describe()

    def _open_meter(self) -> Meter:
        if self._meter is None:
            raise MeterError(self.name, "could not be opened", "see the meter's first error")
        return self._meter

    def _live(self) -> None:
        """Run the thread's loop. If it fails, record the reason. At its end, fail waiting tasks."""
        try:
            self._loop()
        finally:
            error = sys.exception()
            if error is not None:
                self.ended = self.ended or Ended(monotonic_ns(), f"its thread died: {_why(error)}")
            while True:
                try:
                    task = self._tasks.get_nowait()
                except Empty:
                    break
                if task is not None:
                    closed = MeterError(self.name, "is closed", "see the meter's first error")
                    task[0].set_exception(closed)

    def _loop(self) -> None:
        due_ns = monotonic_ns()
        while True:
            try:
                wait_s = max(0, due_ns - monotonic_ns()) / NS_PER_S if self._periodic else None
                task = self._tasks.get(timeout=wait_s)
            except Empty:
                self._sample()
                late = max(0, monotonic_ns() - due_ns) // self.period_ns
                due_ns += (late + 1) * self.period_ns
                continue
            if task is None:
                break
            _answer(*task)
        if self._meter is not None:
            with suppress(*DEFECTS):  # all readings have been taken, so errors do not matter
                self._meter.close()

    def _sample(self) -> None:
        if self.ended is not None or not self.is_periodic:
            return
        try:
            readings = self._open_meter().sample()
        except DEFECTS as error:
            self.ended = Ended(monotonic_ns(), _why(error))
            self._periodic = False
            return
        with self._lock:
            self._readings += readings


def _answer(answer: Future[Any], question: Callable[[], Any]) -> None:
    try:
        answer.set_result(question())
    except StorlabError as error:
        answer.set_exception(error)
    except DEFECTS as error:
        answer.set_exception(MeterError("meter", _why(error), "this is a defect of the meter"))
    finally:
        cause = sys.exception()
        if cause is not None and not answer.done():
            answer.set_exception(MeterError("meter", _why(cause), "this is a defect of the meter"))


def _why(error: BaseException) -> str:
    if isinstance(error, StorlabError):
        return error.what
    return str(error) if isinstance(error, OSError) else f"{type(error).__name__}: {error}"
