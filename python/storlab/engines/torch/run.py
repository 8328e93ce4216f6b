"""Run of a job by PyTorch: child process, events and outcome."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from storlab.engines.torch.ranks import KINDS
from storlab.model.result import EngineInfo, RunOutcome, Span
from storlab.process.child import Launch
from storlab.process.events import Events, Ints
from storlab.process.storlab_child import OwnChildRun
from storlab.workloads.checkpoint.job import CheckpointJob
from storlab.workloads.training.job import TrainingJob

_COLUMNS = 4  # columns in a row of events


class TorchRun(OwnChildRun):
    """Run of a job by PyTorch, in progress. Every method may be called from any thread."""

    fix = (
        "read raw/stderr.txt; a bus error of a loader worker means that /dev/shm is too small, and "
        "signal 9 usually means that memory ran out"
    )

    def __init__(
        self,
        job: TrainingJob | CheckpointJob,
        launch: Launch,
        info: EngineInfo,
        notes: list[str],
    ) -> None:
        self._job = job
        super().__init__(launch, info, notes)

    def finish(self) -> RunOutcome:
        """Return the outcome of a PyTorch child process that has ended."""
        document = self.result()
        job = self._job
        start_ns = document.get("start_ns", self.ended_ns)
        window = (start_ns, max(document.get("end_ns", start_ns), start_ns))
        workers = (
            job.accelerators * (job.reader_threads + 1)
            if isinstance(job, TrainingJob)
            else job.ranks
        )
        outcome = self.measured(self._events(), window, job.interval_ns, workers)
        outcome.details = document.get("details", {})
        outcome.spans = [Span.model_validate(span) for span in document.get("spans", [])]
        outcome.notes = [*self._notes, *document.get("notes", [])]
        outcome.conclude(self.failure_in(document, outcome))
        outcome.raw = self.raw()
        return outcome

    def _events(self) -> list[Events]:
        """Return the operations of all processes, without those of unfinished epochs.

        Operations of unfinished checkpoints are missing, too.
        """
        files = sorted(self.launch.work_dir.glob("events-*.bin"))
        rows = [_rows(path) for path in files]
        every = np.concatenate(rows) if rows else np.empty((0, _COLUMNS), dtype=np.int64)
        events = []
        for number, kind in enumerate(KINDS):
            of_kind = every[every[:, 0] == number]
            if len(of_kind):
                events.append(Events.of_rows(kind, of_kind[:, 1:]))
        return events


def _rows(path: Path) -> Ints:
    """Return the complete rows of an event file.

    A partial last row, which a killed process may leave, is ignored.
    """
    data = path.read_bytes()
    row_bytes = _COLUMNS * 8
    whole = len(data) // row_bytes * row_bytes
    return np.frombuffer(data[:whole], dtype=np.int64).reshape(-1, _COLUMNS)
