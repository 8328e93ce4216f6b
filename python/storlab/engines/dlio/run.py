"""Run of a training job by DLIO: child process, results and outcome."""

from __future__ import annotations

from pathlib import Path

from storlab.base.clock import monotonic_ns, wall_at_ns
from storlab.base.units import MB, NS_PER_S, significant
from storlab.engines.dlio import config as dlio_config
from storlab.engines.dlio import result as dlio_result
from storlab.engines.dlio.result import DlioFormatError, Results, Timeline
from storlab.model.result import EngineInfo, Failure, RunOutcome
from storlab.process.child import STEP_NS, ChildRun, Launch
from storlab.workloads.training.job import TrainingJob

_FIX = (
    "read raw/stderr.txt; DLIO needs PyTorch (for TFRecord, TensorFlow) and the MPI with which its "
    "mpi4py was built"
)


class DlioRun(ChildRun):
    """Run of a training job by DLIO, in progress. Methods may be called from any thread."""

    def __init__(self, job: TrainingJob, launch: Launch, info: EngineInfo) -> None:
        self._job = job
        now_ns = monotonic_ns()
        self._offset_ns = now_ns - wall_at_ns(now_ns)  # run's clock minus UNIX time
        super().__init__(launch, info)

    def finish(self) -> RunOutcome:
        """Return the outcome of a DLIO process that has ended."""
        stepped = abs(self.ended_ns - wall_at_ns(self.ended_ns) - self._offset_ns) > STEP_NS
        files = self._files(self.launch.work_dir / dlio_config.OUTPUT)
        results: Results | None = None
        damage: str | None = None
        try:
            results = dlio_result.read_results(files)
        except DlioFormatError as error:
            damage = str(error)
        outcome = self._outcome_of(results)
        outcome.notes += dlio_config.caveats(self._job)
        if stepped:
            outcome.notes.append(
                "the wall clock was set during the run, so the times in DLIO's files may be wrong"
            )
        outcome.conclude(self._why(damage, outcome))
        config = self.launch.work_dir / "config" / "workload" / f"{dlio_config.WORKLOAD}.yaml"
        outcome.raw = {**self.raw(), "workload.yaml": config.read_bytes(), **files}
        return outcome

    def _files(self, place: Path) -> dict[str, bytes]:
        if not place.is_dir():
            return {}
        paths = sorted(place.iterdir())
        return {p.name: p.read_bytes() for p in paths if dlio_result.is_result_file(p.name)}

    def _outcome_of(self, results: Results | None) -> RunOutcome:
        job = self._job
        workers = job.accelerators * (job.reader_threads + 1)
        if results is None:
            now = (self.ended_ns, self.ended_ns)
            return self.measured([], now, job.interval_ns, workers)
        sample_bytes, exact = self._sample_bytes()
        line = dlio_result.timeline(results, self._offset_ns, job.batch, sample_bytes)
        for epoch in line.epochs:
            window = (epoch["start_ns"], epoch["end_ns"])
            epoch["device_read_bytes"] = self.trace.device_read_bytes(*window)
        outcome = self.measured(line.events, line.window, job.interval_ns, workers)
        outcome.spans = line.spans
        outcome.details = {
            "epochs": line.epochs,
            "steps": dlio_config.steps(job),
            "device_counters": any(e["device_read_bytes"] is not None for e in line.epochs),
        }
        outcome.notes += [*dlio_result.defects(results), *self._moved_note(line)]
        if not exact:
            outcome.notes.append(
                "bytes are steps x batch x mean file size: DLIO does not record which files it read"
            )
        return outcome

    def _moved_note(self, line: Timeline) -> list[str]:
        start_ns, end_ns = line.window
        if end_ns <= start_ns:
            return []
        moved = sum(epoch["bytes"] for epoch in line.epochs)
        rate = moved * NS_PER_S / (end_ns - start_ns) / MB
        return [f"file bytes read, divided by the measure window: {significant(rate, 5)} MB/s"]

    def _sample_bytes(self) -> tuple[float, bool]:
        """Return the mean file bytes per sample, and whether an epoch reads all samples."""
        records = self._job.records
        place = Path(self._job.place.directory or ".") / records.folder
        pattern = f"{records.prefix}_*_of_{records.files}.{records.format}"
        sizes = [path.stat().st_size for path in place.glob(pattern)]
        samples = max(1, len(sizes) * records.samples_per_file)
        read = dlio_config.steps(self._job) * self._job.batch * self._job.accelerators
        return sum(sizes) / samples, read == records.files * records.samples_per_file

    def _why(self, damage: str | None, outcome: RunOutcome) -> Failure | None:
        failure = self.failure(_FIX)
        if failure is not None or self.cancelled:
            return failure
        if damage is not None:
            return Failure(message=f"DLIO's results are damaged: {damage}", fix=_FIX)
        done, wanted = len(outcome.details.get("epochs", ())), self._job.epochs
        if done < wanted:
            message = f"DLIO finished {done} of {wanted} epochs"
            return Failure(message=message, fix="read raw/stderr.txt for the cause")
        return None
