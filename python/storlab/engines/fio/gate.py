"""Gate that makes fio's jobs wait after their set-up, so that all start their load at a given time.

fio's own options are too imprecise: ``startdelay`` creates the threads only after the delay and
polls every 100 ms, and clients in fio's client-server mode start hundreds of milliseconds apart.
``exec_prerun`` runs a command in each job after set-up (files laid out, ring and buffers created)
and before its clock starts. The command used here signals that the job has arrived, waits until a
pipe has a writer, and signals that the job continues. Then the job only has to open its file.
"""

from __future__ import annotations

import os
import threading
from contextlib import suppress
from pathlib import Path

from storlab.base.clock import monotonic_ns
from storlab.base.units import NS_PER_S

GATE, SIGNS = "gate", "signs"  # pipes in the run's directory, which is fio's working directory
ARRIVED, LEFT, OVER = b"a", b"l", b"x"
# The command must not contain a semicolon, which starts a comment in fio's job files.
OPTION = f"exec_prerun=(printf a >&3 && : <{GATE} && printf l >&3) 3>{SIGNS}"
NOTE = "Saving output of"  # start of the line that fio prints for each such command


class Gate:
    """Gate at which all jobs of one fio run wait until the start time.

    Create it before fio starts, and close it after fio has ended.
    """

    def __init__(self, work_dir: Path, jobs: int) -> None:
        for name in (GATE, SIGNS):
            os.mkfifo(work_dir / name, 0o600)
        self._place = work_dir / GATE
        # With O_RDWR, opening the pipe does not block and reading it never returns end of file.
        self._signs = os.open(work_dir / SIGNS, os.O_RDWR | os.O_CLOEXEC)
        self._open_fd: int | None = None
        self._jobs = jobs
        self._arrived = 0
        self._left_ns: list[int] = []
        self._start_ns: int | None = None
        self._told = threading.Event()
        self._over = threading.Event()
        self._reader = threading.Thread(target=self._read, name="fio gate", daemon=True)
        self._opener = threading.Thread(target=self._open, name="fio start", daemon=True)
        self._reader.start()
        self._opener.start()

    @property
    def armed(self) -> bool:
        """Whether all jobs of the run are set up and wait at the gate."""
        return self._arrived >= self._jobs

    @property
    def start_ns(self) -> int | None:
        """Start time (ns) that ``open_at`` has set; None before that."""
        return self._start_ns

    @property
    def first_late_ns(self) -> int | None:
        """Delay of the first job after the start time in ns; None until it has passed the gate."""
        return self._late(self._left_ns[:1])

    @property
    def last_late_ns(self) -> int | None:
        """Delay of the last job after the start time in ns; None until all have passed the gate."""
        return self._late(self._left_ns[self._jobs - 1 :])

    def open_at(self, start_ns: int) -> None:
        """Open the gate at a given time, or at once if that has passed.

        Raises:
            RuntimeError: The time is already set.
        """
        if self._start_ns is not None:
            raise RuntimeError("the run already has a start time")
        self._start_ns = start_ns
        self._told.set()

    def close(self) -> None:
        """End the gate's threads and close its pipes."""
        self._over.set()
        self._told.set()
        self._opener.join()
        with suppress(OSError):
            os.write(self._signs, OVER)
        self._reader.join()
        for fd in (self._signs, self._open_fd):
            if fd is not None:
                os.close(fd)
        self._open_fd = None

    def _late(self, went_ns: list[int]) -> int | None:
        if self._start_ns is None or not went_ns:
            return None
        return max(0, went_ns[0] - self._start_ns)

    def _read(self) -> None:
        while True:
            signs = os.read(self._signs, 4096)
            now = monotonic_ns()
            self._arrived += signs.count(ARRIVED)
            self._left_ns += [now] * signs.count(LEFT)
            if OVER in signs:
                return

    def _open(self) -> None:
        self._told.wait()
        start_ns = self._start_ns or 0
        while not self._over.is_set() and (left_ns := start_ns - monotonic_ns()) > 0:
            self._over.wait(left_ns / NS_PER_S)
        if not self._over.is_set():
            self._open_fd = os.open(self._place, os.O_RDWR | os.O_CLOEXEC)
