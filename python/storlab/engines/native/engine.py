"""Native engine: adapter of the Rust extension ``storlab._native`` to the engine interface."""

from __future__ import annotations

import errno
import json
import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

from storlab import __version__, _native
from storlab.base.clock import monotonic_ns
from storlab.base.errors import EngineError
from storlab.engines.native.start import start_in_thread
from storlab.model.cluster import ByWorker
from storlab.model.job import Job, RereadJob
from storlab.model.result import (
    CpuUse,
    EngineInfo,
    Failure,
    GroupOutcome,
    Operation,
    OperationTotals,
    RunOutcome,
    Sample,
    Snapshot,
    Span,
    VerifyReport,
    group_operation,
)
from storlab.process.open_files import allow_open_files
from storlab.workloads.object.job import OBJECT_OPERATIONS

_ORDER = {name: n for n, name in enumerate(("read", "write", "trim", "sync", *OBJECT_OPERATIONS))}


class NativeEngine:
    """Engine that executes jobs in Rust threads of this process.

    Implements ``contracts.engine.Engine``.
    """

    name = "native"
    kinds: tuple[str, ...] = tuple(_native.family_names())

    def describe(self) -> EngineInfo:
        """Return the engine's version, the backend that ``auto`` selects, and its features."""
        probed = json.loads(_native.probe())
        uring = probed["uring"]
        return EngineInfo(
            name=self.name,
            version=__version__,
            backend="uring" if uring["available"] else "posix",
            features=[*uring["features"], *([] if probed["optimised"] else ["unoptimised build"])],
            clock=probed["clock"]["source"],
        )

    def refuse(self, job: Job) -> str | None:  # noqa: ARG002  (no job of its kinds is refused)
        """Return None: the native engine refuses no job here; problems are reported at start."""
        return None

    def start(self, job: Job, work_dir: Path) -> NativeRun:  # noqa: ARG002  (writes no files)
        """Start a run. If a file or device cannot be opened, the returned run has failed already.

        Raises:
            EngineError: The job's parameters are inconsistent.
        """
        return _begin(job, held=False)

    def hold(self, job: Job, work_dir: Path) -> NativeRun:  # noqa: ARG002  (writes no files)
        """Prepare a run like ``start``, but send no I/O until ``NativeRun.open_at`` is called.

        Implements ``contracts.engine.HoldsRuns``.
        """
        return _begin(job, held=True)

    def share(self, job: Job, work_dir: Path) -> NativeRun:  # noqa: ARG002  (writes no files)
        """Prepare this client's part of a run that several clients execute together.

        It sends no I/O until ``NativeRun.open_at`` is called. Implements
        ``contracts.engine.SharesRuns``.
        """
        run = _begin(job, held=True)
        run.share()
        return run


def _begin(job: Job, *, held: bool) -> NativeRun:
    allow_open_files()
    text, secrets = job.model_dump_json(), job.secrets()
    try:
        run = start_in_thread(lambda: _native.Run(job.kind, text, secrets, held))
        return NativeRun(run, None)
    except ValueError as error:
        raise EngineError("native engine", str(error), "correct the workload table") from error
    except OSError as error:
        return NativeRun(None, _failed_to_start(error))


class NativeRun:
    """Run of the native engine, in progress. Implements ``contracts.engine.SharedRun``."""

    def __init__(self, run: _native.Run | None, ended: RunOutcome | None) -> None:
        self._run = run
        self._ended = ended
        self._met: list[tuple[int, int, int]] = []

    def share(self) -> None:
        """Make the run wait for the other clients of this run at synchronisation points."""
        if self._run is not None:
            self._run.share()

    def announced(self, number: int, timeout_s: float) -> int | None:
        """Wait until the run announces synchronisation point ``number``; the GIL is released.

        Returns:
            The time (ns) at which the run will be ready for this point, or None after a timeout.
        """
        return None if self._run is None else self._run.announced(number, timeout_s)

    def tell(self, ready_ns: int) -> None:
        """Set the time at which all clients are ready for the next synchronisation point.

        Raises:
            RuntimeError: The run has not announced a synchronisation point.
        """
        if self._run is not None:
            self._run.tell(ready_ns)

    def met(self) -> list[tuple[int, int, int]]:
        """Return three times (ns) for each completed synchronisation point.

        They are when this run announced its ready time, when it received the time at which all
        clients are ready, and that time.
        """
        return self._met if self._run is None else self._run.met()

    def snapshot(self) -> Snapshot:
        """Return the run's current phase and its rates."""
        if self._run is None:
            return Snapshot("done", 0)
        return Snapshot(**json.loads(self._run.snapshot()))

    def armed(self) -> bool:
        """Return whether a held run is set up and ready to start its load."""
        return self._run is not None and self._run.armed()

    def open_at(self, start_ns: int) -> None:
        """Set the time at which a held run starts its load. Has no effect if the run has ended.

        Raises:
            RuntimeError: The run is not held, or its start time is already set.
        """
        if self._run is not None:
            self._run.open_at(start_ns)

    def cancel(self) -> None:
        """Ask the run to end soon."""
        if self._run is not None:
            self._run.cancel()

    def wait(self, timeout_s: float | None = None) -> RunOutcome | None:
        """Return the outcome, or None if the timeout expires first. The GIL is released."""
        if self._ended is None and self._run is not None and self._run.wait(timeout_s):
            text, rows = self._run.outcome()
            self._met = self._run.met()
            self._ended = _outcome(json.loads(text), rows)
            self._run = None  # dropping it closes the run's files
        return self._ended


def verify_pass(job: RereadJob, keep_going: Callable[[], bool] | None = None) -> VerifyReport:
    """Read back and verify all data that a verify-mode job wrote, now or in an earlier process.

    Signals are handled meanwhile: Ctrl-C raises KeyboardInterrupt or calls its handler.

    Args:
        job: The job whose data is verified.
        keep_going: Called several times a second; the pass ends early if it returns False.

    Raises:
        EngineError: The job is not in verify mode, or its state file is damaged.
        OSError: A data file, device or the state file cannot be opened.
    """
    try:
        report = _native.verify_pass(job.model_dump_json(), keep_going)
        return VerifyReport.model_validate_json(report)
    except ValueError as error:
        fix = "name a run whose workload has verify = true"
        raise EngineError("verify", str(error), fix) from error


def _outcome(document: dict[str, Any], rows: list[tuple[Any, ...]]) -> RunOutcome:
    verify, cpu, failure, by_worker = (
        document.get(key) for key in ("verify", "cpu", "failure", "by_worker")
    )
    totals = _totals(document["totals"])
    samples, groups = _divided([Sample(*row) for row in rows], document.get("groups") or {})
    return RunOutcome(
        status=document["status"],
        engine=EngineInfo.model_validate(document["engine"]),
        window_start_ns=document["window_start_ns"],
        window_end_ns=document["window_end_ns"],
        samples=samples,
        totals=totals,
        groups=groups,
        by_worker=ByWorker.model_validate(by_worker) if by_worker else None,
        cpu=CpuUse.model_validate(cpu) if cpu else None,
        failure=Failure.model_validate(failure) if failure else None,
        notes=list(document.get("notes", [])),
        final_sync_ns=document.get("final_sync_ns"),
        drain_ns=document.get("drain_ns", 0),
        first_io_late_ns=document.get("first_io_late_ns"),
        last_worker_late_ns=document.get("last_worker_late_ns"),
        verify=VerifyReport.model_validate(verify) if verify else None,
        details=dict(document.get("details") or {}),
        spans=[Span.model_validate(span) for span in document.get("spans") or ()],
    )


def _totals(document: dict[str, Any]) -> dict[Operation, OperationTotals]:
    return {
        operation: OperationTotals.model_validate(totals)
        for operation, totals in sorted(document.items(), key=_place)
    }


def _divided(
    samples: list[Sample], groups: dict[str, Any]
) -> tuple[list[Sample], dict[str, GroupOutcome]]:
    """Return the samples of the run as a whole, and the outcomes of its groups."""
    own = {
        group_operation(name, operation): (name, operation)
        for name, totals in groups.items()
        for operation in totals
    }
    of_groups: dict[str, list[Sample]] = {name: [] for name in groups}
    for sample in samples:
        if sample.operation in own:
            name, operation = own[sample.operation]
            of_groups[name].append(replace(sample, operation=operation))
    whole = [sample for sample in samples if sample.operation not in own]
    return whole, {
        name: GroupOutcome(_totals(totals), of_groups[name]) for name, totals in groups.items()
    }


def _place(entry: tuple[Operation, Any]) -> tuple[int, Operation]:
    """Return the sort key that gives operations their order of display."""
    return _ORDER.get(entry[0], len(_ORDER)), entry[0]


def _words(error: OSError) -> str:
    return str(error) if error.errno is None else os.strerror(error.errno)


def _failed_to_start(error: OSError) -> RunOutcome:
    now = monotonic_ns()
    return RunOutcome(
        status="failed",
        engine=EngineInfo(name=NativeEngine.name, version=__version__),
        window_start_ns=now,
        window_end_ns=now,
        samples=[],
        totals={},
        cpu=None,
        failure=Failure(
            message=f"cannot open {error.filename or 'a file of the target'}: {_words(error)}",
            fix="check that the target is connected, and that this user may open it",
            errno=error.errno,
            errno_name=errno.errorcode.get(error.errno or 0),
            operation="open",
            path=None if error.filename is None else str(error.filename),
        ),
    )
