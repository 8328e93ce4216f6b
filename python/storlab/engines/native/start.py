"""Start of native runs in a thread, so that a hanging file system cannot block storlab."""

from __future__ import annotations

import errno
import threading
from collections.abc import Callable

from storlab import _native

LIMIT_S = 300.0  # far more than opening the files of a run takes
_LOOK_S = 0.5  # interval at which signals are handled


class _Start:
    """One attempt to start a run in a thread; after ``give_up``, a late start is cancelled."""

    def __init__(self, start: Callable[[], _native.Run]) -> None:
        self._start = start
        self._lock = threading.Lock()
        self._given_up = False
        self.run: _native.Run | None = None
        self.error: BaseException | None = None

    def work(self) -> None:
        """Start the run and store it, or store its exception. Executed in the thread."""
        try:
            run = self._start()
        except BaseException as error:  # noqa: BLE001 (the waiting thread raises it)
            self.error = error
            return
        with self._lock:
            self.run = run
            if self._given_up:
                run.cancel()

    def give_up(self) -> None:
        """Cancel the run at once if it has started, else as soon as it starts."""
        with self._lock:
            self._given_up = True
            if self.run is not None:
                self.run.cancel()


def start_in_thread(start: Callable[[], _native.Run], limit_s: float = LIMIT_S) -> _native.Run:
    """Call ``start`` in a thread and return the run that it starts, or raise its exception.

    Raises:
        OSError: ``start`` did not return within ``limit_s`` seconds (ETIMEDOUT).
    """
    begun = _Start(start)
    thread = threading.Thread(target=begun.work, name="storlab-start", daemon=True)
    thread.start()
    left_s = limit_s
    try:
        while thread.is_alive() and left_s > 0:
            thread.join(min(_LOOK_S, left_s))
            left_s -= _LOOK_S
    except BaseException:
        begun.give_up()
        raise
    if begun.error is not None:
        raise begun.error
    if begun.run is None:
        begun.give_up()
        raise OSError(errno.ETIMEDOUT, f"opening the files of the run took over {limit_s:g} s")
    return begun.run
