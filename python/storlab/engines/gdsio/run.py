"""Run of a job by gdsio: child process, result and outcome."""

from __future__ import annotations

import os

from storlab.base.clock import monotonic_ns
from storlab.base.units import NS_PER_S, significant
from storlab.engines.gdsio import command as gdsio_command
from storlab.engines.gdsio.failure import Ended, explain
from storlab.engines.gdsio.result import GdsioFormatError, Result, read_results
from storlab.model.result import EngineInfo, Failure, OperationTotals, RunOutcome, Snapshot
from storlab.process.child import ENDED, ChildRun, Launch
from storlab.workloads.gpudirect.job import GpuDirectJob

KILL_AFTER_S = 10.0
_MOST_LOG = 64 * 1024  # bytes of cuFile's log to keep
_LENGTH_TOLERANCE = 0.2


class GdsioRun(ChildRun):
    """Run of a job by gdsio, in progress. Every method may be called from any thread."""

    piped = True
    account_note = "of all of it: buffers, registration and a ramp included"

    def __init__(self, job: GpuDirectJob, launch: Launch, info: EngineInfo) -> None:
        self._job = job
        self._lines: list[tuple[int, str]] = []  # lines with their time of arrival
        super().__init__(launch, info)

    def line(self, text: str) -> None:
        """Store a line of gdsio's output with its time of arrival.

        The arrival of the result line marks the end of the load on the run's clock.
        """
        self._lines.append((monotonic_ns(), text))

    def snapshot(self) -> Snapshot:
        """Return phase and elapsed time, but no rates: gdsio prints nothing before its end."""
        if self.has_ended:
            return ENDED
        job, elapsed_ns = self._job, monotonic_ns() - self.started_ns
        if elapsed_ns < job.ramp_ns:
            return Snapshot("ramp", elapsed_ns, job.ramp_ns, cpu_percent=self._cpu_percent)
        elapsed_ns -= job.ramp_ns
        return Snapshot("measure", elapsed_ns, job.window_ns, cpu_percent=self._cpu_percent)

    def finish(self) -> RunOutcome:
        """Return the outcome of a gdsio process that has ended."""
        stdout = "".join(text for _, text in self._lines)
        result: Result | None = None
        damage: str | None = None
        try:
            result = self._result(stdout)
        except GdsioFormatError as error:
            damage = str(error)
        stderr = (self.launch.work_dir / "stderr.txt").read_text(errors="replace")
        outcome = self.unmeasured()
        outcome.notes = gdsio_command.caveats(self._job)
        if result is not None:
            self._measure(outcome, result)
        outcome.conclude(self._failure(Ended(self.exit_code, damage, stdout, stderr)))
        outcome.raw = {**self.raw(), "stdout.txt": stdout.encode(), **self._logs()}
        return outcome

    def _failure(self, ended: Ended) -> Failure | None:
        if self.hung:
            return self.hung_failure(
                "run `storlab doctor`, which tests cuFileDriverOpen, a call that is known to hang"
            )
        return None if self.cancelled else explain(ended, self._names())

    def _result(self, stdout: str) -> Result:
        """Parse gdsio's result. Raises GdsioFormatError if it does not match the job."""
        (result, *others) = read_results(stdout)
        if others:
            raise GdsioFormatError(f"it has {len(others) + 1} result lines instead of one")
        wanted = gdsio_command.io_type(self._job)
        if result.io_type.removeprefix("RAND") != wanted.removeprefix("RAND"):
            raise GdsioFormatError(f"it reports {result.io_type} instead of {wanted}")
        if result.block_bytes != self._job.longest:
            raise GdsioFormatError(
                f"it reports I/Os of {result.block_bytes} bytes instead of {self._job.longest}"
            )
        return result

    def _measure(self, outcome: RunOutcome, result: Result) -> None:
        """Set window, totals and CPU use of the outcome.

        The measure window ends when gdsio's result line arrived.
        """
        end_ns = next(at for at, text in self._lines if "total_time" in text)
        start_ns = end_ns - result.length_ns
        outcome.window_start_ns, outcome.window_end_ns = start_ns, end_ns
        batch = self._job.in_batches
        outcome.totals = {
            result.operation: OperationTotals(
                operations=result.operations,
                bytes=result.bytes,
                latency_mean_ns=None if batch else result.latency_mean_ns,
            )
        }
        cores = min(self._job.workers, len(os.sched_getaffinity(0)))
        outcome.cpu = self.trace.cpu_use(start_ns, end_ns, cores)
        outcome.engine.features.append(f"XferType={result.xfer_type}")
        outcome.notes += self._differences(result)

    def _differences(self, result: Result) -> list[str]:
        """Return notes on where gdsio's result is inconsistent or differs from the job."""
        notes = []
        disagreement = result.disagreement()
        if disagreement is not None:
            notes.append(disagreement)
        job = self._job
        if result.threads != job.workers:
            notes.append(f"gdsio ran {result.threads} threads instead of {job.workers}")
        if job.in_batches and result.depth != job.queue_depth:
            asked = f"instead of {job.queue_depth}"
            notes.append(f"gdsio made batches of {result.depth} entries {asked}")
        asked_s = gdsio_command.seconds(job.window_ns or 0)
        if abs(result.length_ns / NS_PER_S / asked_s - 1) > _LENGTH_TOLERANCE:
            notes.append(
                f"gdsio ran for {significant(result.length_ns / NS_PER_S, 3)} s instead of "
                f"{asked_s} s"
            )
        return notes

    def _names(self) -> dict[str, str]:
        """Return the displayed name of each target file by the name of its link for gdsio."""
        members = {}
        for group in gdsio_command.groups(self._job):
            for (name, _), member in zip(group.links(), group.members, strict=True):
                members[name.split("/")[-1]] = member.name
        return members

    def _logs(self) -> dict[str, bytes]:
        logs = {}
        for name in ("ramp.txt", "cufile.log"):
            path = self.launch.work_dir / name
            if path.is_file():
                logs[name] = path.read_bytes()[-_MOST_LOG:]
        return logs
