"""One run by PyTorch, from its process to an outcome."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np

from storlab.engines.torch.ranks import KINDS
from storlab.model.result import EngineInfo, Failure, RunOutcome, Span
from storlab.process.child import ChildRun, Launch
from storlab.process.events import Events, Ints
from storlab.workloads.checkpoint.job import CheckpointJob
from storlab.workloads.training.job import TrainingJob

_FIX = (
    "see raw/stderr.txt; workers of a loader that end by a bus error lack room in /dev/shm, and "
    "processes that end by signal 9 lack memory"
)
_COLUMNS = 4  # of a row of events


class TorchRun(ChildRun):
    """A run in progress. Every method may be called from any thread."""

    def __init__(
        self,
        job: TrainingJob | CheckpointJob,
        launch: Launch,
        info: EngineInfo,
        notes: list[str],
    ) -> None:
        self._job = job
        self._notes = notes
        super().__init__(launch, info)

    def finish(self) -> RunOutcome:
        """The outcome of a child that has ended."""
        said = self._result()
        job = self._job
        start_ns = said.get("start_ns", self.ended_ns)
        window = (start_ns, max(said.get("end_ns", start_ns), start_ns))
        workers = (
            job.accelerators * (job.reader_threads + 1)
            if isinstance(job, TrainingJob)
            else job.ranks
        )
        outcome = self.measured(self._events(), window, job.interval_ns, workers)
        outcome.details = said.get("details", {})
        outcome.spans = [Span.model_validate(span) for span in said.get("spans", [])]
        outcome.notes = [*self._notes, *said.get("notes", [])]
        outcome.failure = self._why(said.get("failure"), outcome)
        if outcome.failure is not None:
            outcome.status = "failed"
        outcome.raw = {**self.raw(), "order.json": self._bytes("order.json")}
        return outcome

    def _bytes(self, name: str) -> bytes:
        return (self.launch.work_dir / name).read_bytes()

    def _result(self) -> dict[str, Any]:
        try:
            said: dict[str, Any] = json.loads(self._bytes("result.json"))
        except OSError:
            return {}  # it ended before the first epoch or checkpoint did
        return said

    def _events(self) -> list[Events]:
        """Those of all processes. An epoch or checkpoint that did not end has none."""
        files = sorted(self.launch.work_dir.glob("events-*.bin"))
        rows = [_rows(path) for path in files]
        every = np.concatenate(rows) if rows else np.empty((0, _COLUMNS), dtype=np.int64)
        found = []
        for number, kind in enumerate(KINDS):
            mine = every[every[:, 0] == number]
            if len(mine):
                found.append(Events.of_rows(kind, mine[:, 1:]))
        return found

    def _why(self, said: dict[str, Any] | None, outcome: RunOutcome) -> Failure | None:
        ended = self.failure(_FIX)
        if said is not None and not self.cancelled and not self.hung:
            return Failure.model_validate({"fix": _FIX, **said})
        if ended is None and outcome.status == "finished" and not outcome.spans:
            return Failure(message="PyTorch ended without a result", fix=_FIX)
        return ended


def _rows(path: Path) -> Ints:
    """A process that was killed may have left part of a row."""
    data = path.read_bytes()
    row_bytes = _COLUMNS * 8
    whole = len(data) // row_bytes * row_bytes
    return np.frombuffer(data[:whole], dtype=np.int64).reshape(-1, _COLUMNS)
