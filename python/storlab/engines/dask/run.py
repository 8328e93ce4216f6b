"""Run of a preprocess job on a Dask cluster: child process, live progress and outcome."""

from __future__ import annotations

import json
import threading
from dataclasses import replace
from typing import Any, ClassVar

from storlab.base.clock import monotonic_ns
from storlab.base.units import NS_PER_S
from storlab.engines.dataframe.run import DataframeRun
from storlab.model.result import CpuUse, EngineInfo, RunOutcome, Snapshot
from storlab.process.child import Launch
from storlab.workloads.preprocess.job import PreprocessJob

_SPAN_NS = 2 * NS_PER_S  # averaging span of the live rates


class DaskRun(DataframeRun):
    """Run of a preprocess job on Dask, in progress. Methods may be called from any thread."""

    piped: ClassVar[bool] = True

    def __init__(
        self, job: PreprocessJob, launch: Launch, info: EngineInfo, notes: list[str]
    ) -> None:
        self._lock = threading.Lock()
        self._progress: list[tuple[int, int, int]] = []  # (time in ns, units, bytes)
        super().__init__(job, launch, info, notes)

    def line(self, text: str) -> None:
        """Record a progress line of the child process; ignore lines that libraries print."""
        try:
            document = json.loads(text)
            entry = (monotonic_ns(), int(document["units"]), int(document["bytes"]))
        except (ValueError, KeyError, TypeError):
            return
        with self._lock:
            since = entry[0] - _SPAN_NS
            self._progress = [progress for progress in self._progress if progress[0] >= since][-64:]
            self._progress.append(entry)

    def snapshot(self) -> Snapshot:
        """Return the run's phase, with units and bytes per second over the last two seconds."""
        plain = super().snapshot()
        with self._lock:
            progress = list(self._progress)
        if plain.phase == "done" or len(progress) < 2:
            return plain
        seconds = max(progress[-1][0] - progress[0][0], 1) / NS_PER_S
        units = (progress[-1][1] - progress[0][1]) / seconds
        moved = (progress[-1][2] - progress[0][2]) / seconds
        return replace(plain, operations_s=units, bytes_s=moved)

    def finish(self) -> RunOutcome:
        """Return the outcome of a finished run, with the CPU time of local and remote workers."""
        outcome = super().finish()
        cluster: dict[str, Any] | None = self.result().get("cluster")
        if cluster is None:
            return outcome
        outcome.details["cluster"] = cluster
        if cluster["scheduler"] is not None and outcome.cpu is not None:
            outcome.cpu = self._cpu(cluster, outcome)
        return outcome

    def _cpu(self, cluster: dict[str, Any], outcome: RunOutcome) -> CpuUse:
        """Return the CPU use as measured by the workers.

        Remote workers are not child processes, so the kernel's count for children misses them.
        """
        workers = cluster["workers"]
        return CpuUse(
            user_ns=cluster["own_user_ns"] + sum(worker["user_ns"] for worker in workers),
            system_ns=cluster["own_system_ns"] + sum(worker["system_ns"] for worker in workers),
            cores=max(1, min(self._job.workers, cluster["cores"])),
            **self.trace.machine(outcome.window_start_ns, outcome.window_end_ns),
        )
