"""Dask schedulers and workers as processes for the duration of a test."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

from storlab.base.clock import monotonic_ns, sleep_s
from storlab.base.units import NS_PER_S

START_S = 120


class Crowd:
    """A scheduler with its address, and workers started on request."""

    def __init__(self, place: Path) -> None:
        self._place = place
        self._processes: list[subprocess.Popen[bytes]] = []
        file = place / "scheduler.json"
        self.scheduler = self._start(
            "scheduler", "--host", "127.0.0.1", "--port", "0", "--no-dashboard",
            "--scheduler-file", str(file),
        )  # fmt: skip
        end_ns = monotonic_ns() + START_S * NS_PER_S
        self.address = ""
        while not self.address:
            assert self.scheduler.poll() is None, self.log()
            assert monotonic_ns() < end_ns, self.log()
            sleep_s(0.05)
            with suppress(OSError, ValueError):
                self.address = json.loads(file.read_text())["address"]

    def add(
        self, *options: str, before: Sequence[str] = (), memory: str = "4GiB"
    ) -> subprocess.Popen[bytes]:
        """Start a one-thread worker under a nanny, which restarts it if it is killed."""
        before_it = self._registered()
        worker = self._start(
            "worker", self.address, "--nthreads", "1", "--memory-limit", memory,
            "--no-dashboard", "--local-directory", str(self._place), *options, before=before,
        )  # fmt: skip
        end_ns = monotonic_ns() + START_S * NS_PER_S
        while self._registered() == before_it:
            assert worker.poll() is None, self.log()
            assert monotonic_ns() < end_ns, self.log()
            sleep_s(0.1)
        return worker

    def _registered(self) -> int:
        return self.log().count("Registered to:")

    def log(self) -> str:
        """Return the output of all processes."""
        return (self._place / "dask.log").read_text()

    def end(self) -> None:
        """End all processes."""
        for process in reversed(self._processes):
            process.terminate()
        for process in reversed(self._processes):
            try:
                process.wait(10)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()

    def _start(
        self, kind: str, *options: str, before: Sequence[str] = ()
    ) -> subprocess.Popen[bytes]:
        with (self._place / "dask.log").open("ab") as log:
            process = subprocess.Popen(
                [*before, sys.executable, "-m", f"distributed.cli.dask_{kind}", *options],
                stdout=log,
                stderr=log,
                cwd=self._place,
            )
        self._processes.append(process)
        return process


@contextmanager
def crowd(place: Path) -> Iterator[Crowd]:
    """Provide a scheduler and end it with all workers at the end of the block."""
    place.mkdir(parents=True, exist_ok=True)
    gathered = Crowd(place)
    try:
        yield gathered
    finally:
        gathered.end()


def children(pid: int) -> list[int]:
    """Return the current child processes of a process."""
    pids = []
    for entry in Path("/proc").iterdir():
        with suppress(OSError, ValueError):
            fields = (entry / "stat").read_text().rpartition(")")[2].split()
            if int(fields[1]) == pid:
                pids.append(int(entry.name))
    return pids


def worker_processes(pid: int) -> list[int]:
    """Return the processes spawned by nannies below a process, which do the work."""
    return [child for child in children(pid) if b"spawn_main" in _command(child)]


def _command(pid: int) -> bytes:
    with suppress(OSError):
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    return b""


def is_there(pid: int) -> bool:
    """Return whether a process has not ended."""
    with suppress(OSError):
        os.kill(pid, 0)
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
        return state != "Z"
    return False
