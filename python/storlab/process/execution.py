"""Running one job to its end: poll, report, and stop when the user says so."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType

from storlab.base.errors import RunError
from storlab.contracts.engine import RunHandle
from storlab.model.result import RunOutcome, Snapshot

POLL_S = 0.25
_LAST_TRIES = 100


class Interrupted(Exception):  # noqa: N818  (not an error: the user's wish)
    """The user asked to stop. What was finished is stored."""


class StopRequest:
    """Ctrl-C, SIGTERM, and SIGHUP of a terminal that has gone.

    The first asks the campaign to stop cleanly. The second of Ctrl-C or SIGTERM ends it at once; a
    lost terminal sends several SIGHUP, which ask no more than one does.
    """

    def __init__(self) -> None:
        self._event = threading.Event()
        self._asked_by_name = False

    @property
    def requested(self) -> bool:
        """Whether somebody asked."""
        return self._event.is_set()

    def ask(self) -> None:
        """Ask, as the first Ctrl-C does."""
        self._event.set()

    def pause(self, seconds: float) -> None:
        """Wait so long. Raises Interrupted as soon as somebody asks to stop."""
        if self._event.wait(seconds):
            raise Interrupted

    @contextmanager
    def installed(self) -> Iterator[StopRequest]:
        """Listen to the signals inside the block; in another thread than the main one, to none.

        Under nohup SIGHUP stays without effect.
        """
        with _handled(_SIGNALS, self._on_signal):
            yield self

    def _on_signal(self, number: int, _frame: FrameType | None) -> None:
        if number != signal.SIGHUP:  # of which a terminal that goes may send several
            if self._asked_by_name:
                signal.signal(number, signal.SIG_DFL)
                os.kill(os.getpid(), number)
            self._asked_by_name = True
        self._event.set()


@contextmanager
def ended_as_by_ctrl_c() -> Iterator[None]:
    """Inside the block SIGTERM and SIGHUP raise KeyboardInterrupt: what is open gets closed."""

    def interrupt(_number: int, _frame: FrameType | None) -> None:
        raise KeyboardInterrupt

    with _handled((signal.SIGTERM, signal.SIGHUP), interrupt):
        yield


@contextmanager
def _handled(
    signals: tuple[signal.Signals, ...], handler: Callable[[int, FrameType | None], None]
) -> Iterator[None]:
    """Only the main thread has handlers; what is ignored from outside stays so."""
    terminals = [fd for fd in _OUTPUTS if os.isatty(fd)]

    def on_signal(number: int, frame: FrameType | None) -> None:
        if number == signal.SIGHUP:
            _leave(terminals)
        handler(number, frame)

    if threading.current_thread() is not threading.main_thread():
        yield
        return
    numbers = [number for number in signals if signal.getsignal(number) is not signal.SIG_IGN]
    before = {number: signal.signal(number, on_signal) for number in numbers}
    try:
        yield
    finally:
        for number, former in before.items():
            signal.signal(number, former)


def _leave(terminals: list[int]) -> None:
    """What is still to be said goes nowhere: a terminal that has gone takes nothing."""
    nowhere = os.open(os.devnull, os.O_WRONLY | os.O_CLOEXEC)
    for fd in terminals:
        os.dup2(nowhere, fd)
    os.close(nowhere)
    terminals.clear()


_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
_OUTPUTS = (1, 2)


def finish(
    handle: RunHandle, stop: StopRequest, on_progress: Callable[[Snapshot], None]
) -> RunOutcome:
    """Wait for a run, reporting snapshots. Cancels it and raises Interrupted on a stop request.

    Raises RunError for an engine that has ended and gives no outcome.
    """
    try:
        while True:
            outcome = handle.wait(POLL_S)
            if outcome is not None:
                return outcome
            if stop.requested:
                raise Interrupted
            snapshot = handle.snapshot()
            if snapshot.phase == "done":
                return _outcome_of_ended(handle)
            on_progress(snapshot)
    except BaseException:
        handle.cancel()
        while handle.wait(POLL_S) is None:  # in flight I/O must not outlive the run
            if handle.snapshot().phase == "done":
                _outcome_of_ended(handle)
        raise


def _outcome_of_ended(handle: RunHandle) -> RunOutcome:
    """A handle that has ended answers ``wait`` at once: without an outcome, for ever the same."""
    for _ in range(_LAST_TRIES):
        outcome = handle.wait(POLL_S)
        if outcome is not None:
            return outcome
    raise RunError("engine", "ended without an outcome", "report it, with the engine's name")
