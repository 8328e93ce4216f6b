"""Lookup engine: Python file reads in a thread of this process."""

from __future__ import annotations

import os
import platform
import random
import threading
from pathlib import Path

import numpy as np

from storlab.base.clock import monotonic_ns
from storlab.model.job import Job
from storlab.model.result import EngineInfo, RunOutcome, Snapshot
from storlab.process.events import Events, samples, totals
from storlab_lookup.job import LookupJob


class LookupEngine:
    """Implementation of ``storlab.contracts.engine.Engine``."""

    name = "lookup-python"
    kinds: tuple[str, ...] = ("lookup",)

    def describe(self) -> EngineInfo:
        return EngineInfo(name=self.name, version=platform.python_version(), clock="monotonic")

    def refuse(self, job: Job) -> str | None:
        return None if isinstance(job, LookupJob) else "it runs lookups only"

    def start(self, job: Job, work_dir: Path) -> LookupRun:
        del work_dir
        if not isinstance(job, LookupJob):
            raise TypeError(job.kind)
        return LookupRun(job, self.describe())


class LookupRun:
    """Implementation of ``storlab.contracts.engine.RunHandle``."""

    def __init__(self, job: LookupJob, info: EngineInfo) -> None:
        self._job = job
        self._info = info
        self._stop = threading.Event()
        self._rows: list[tuple[int, int, int]] = []  # end (ns), latency (ns), bytes
        self._window = (0, 0)
        self._thread = threading.Thread(target=self._work, daemon=True)
        self._thread.start()

    def _work(self) -> None:
        place = Path(self._job.path)
        place.parent.mkdir(exist_ok=True)
        if not place.exists():
            place.write_bytes(random.Random(0).randbytes(self._job.file_bytes))
        draw = random.Random(self._job.seed)
        size = self._job.record_bytes
        start = monotonic_ns()
        end = start + self._job.window_ns
        with place.open("rb", buffering=0) as file:
            while (before := monotonic_ns()) < end and not self._stop.is_set():
                offset = draw.randrange(self._job.file_bytes // size) * size
                read = len(os.pread(file.fileno(), size, offset))
                after = monotonic_ns()
                self._rows.append((after, after - before, read))
        self._window = (start, end)

    def snapshot(self) -> Snapshot:
        phase = "measure" if self._thread.is_alive() else "done"
        return Snapshot(phase, 0, self._job.window_ns)  # type: ignore[arg-type]

    def cancel(self) -> None:
        self._stop.set()

    def wait(self, timeout_s: float | None = None) -> RunOutcome | None:
        self._thread.join(timeout_s)
        if self._thread.is_alive():
            return None
        start, end = self._window
        rows = np.array([row for row in self._rows if row[0] < end], dtype=np.int64)
        reads = [Events.of_rows("read", rows.reshape(-1, 3))]
        return RunOutcome(
            status="cancelled" if self._stop.is_set() else "finished",
            engine=self._info,
            window_start_ns=start,
            window_end_ns=end,
            samples=samples(reads, self._window, self._job.interval_ns),
            totals=totals(reads),
            cpu=None,
        )
