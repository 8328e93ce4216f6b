"""Waiting for a run to end, with progress reports, and handling of requests to stop."""

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


class Interrupted(Exception):  # noqa: N818  (not an error: the user asked for it)
    """Raised when the user has asked to stop, such as by Ctrl-C. Finished runs are stored."""


class StopRequest:
    """Request to stop by Ctrl-C, by SIGTERM, or by SIGHUP when a terminal is closed.

    The first request stops the campaign cleanly; a second Ctrl-C or SIGTERM ends the process at
    once. A closed terminal sends several SIGHUP, which count as one request.
    """

    def __init__(self) -> None:
        self._event = threading.Event()
        self._asked_by_name = False

    @property
    def requested(self) -> bool:
        """Whether a stop was requested."""
        return self._event.is_set()

    def ask(self) -> None:
        """Request a stop, like the first Ctrl-C."""
        self._event.set()

    def pause(self, seconds: float) -> None:
        """Wait ``seconds``. Raises Interrupted as soon as a stop is requested."""
        if self._event.wait(seconds):
            raise Interrupted

    @contextmanager
    def installed(self) -> Iterator[StopRequest]:
        """Handle Ctrl-C, SIGTERM and SIGHUP as requests to stop inside a ``with`` block.

        This works only in the main thread. Under nohup, SIGHUP remains ignored.
        """
        with _handled(_SIGNALS, self._on_signal):
            yield self

    def _on_signal(self, number: int, _frame: FrameType | None) -> None:
        if number != signal.SIGHUP:  # a closed terminal may send several
            if self._asked_by_name:
                signal.signal(number, signal.SIG_DFL)
                os.kill(os.getpid(), number)
            self._asked_by_name = True
        self._event.set()


@contextmanager
def ended_as_by_ctrl_c() -> Iterator[None]:
    """Make SIGTERM and SIGHUP raise KeyboardInterrupt in a ``with`` block, so clean-up runs."""

    def interrupt(_number: int, _frame: FrameType | None) -> None:
        raise KeyboardInterrupt

    with _handled((signal.SIGTERM, signal.SIGHUP), interrupt):
        yield


@contextmanager
def _handled(
    signals: tuple[signal.Signals, ...], handler: Callable[[int, FrameType | None], None]
) -> Iterator[None]:
    """Install a handler for those signals that are not ignored, inside a ``with`` block.

    Does nothing outside the main thread, where Python permits no handlers.
    """
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
    """Redirect the output of this process from a closed terminal to /dev/null.

    Writing to the closed terminal would fail.
    """
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
    """Wait for a run to end while reporting its progress; cancel it on a request to stop.

    Raises:
        Interrupted: A stop was requested.
        RunError: The engine ended without an outcome.
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
        while handle.wait(POLL_S) is None:  # in-flight I/O must not outlive the run
            if handle.snapshot().phase == "done":
                _outcome_of_ended(handle)
        raise


def _outcome_of_ended(handle: RunHandle) -> RunOutcome:
    """Return the outcome of an ended run, or raise RunError after a number of attempts.

    An engine that never produces an outcome would otherwise be polled for ever.
    """
    for _ in range(_LAST_TRIES):
        outcome = handle.wait(POLL_S)
        if outcome is not None:
            return outcome
    raise RunError("engine", "ended without an outcome", "report this defect of the engine")
