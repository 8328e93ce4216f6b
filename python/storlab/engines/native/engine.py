"""The native engine: a thin adapter over ``storlab._native.Run``."""

from __future__ import annotations

import errno
import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

from storlab import __version__, _native
from storlab.base.clock import monotonic_ns
from storlab.base.errors import EngineError
from storlab.model.job import Job, RereadJob
from storlab.model.result import (
    CpuUse,
    EngineInfo,
    Failure,
    Operation,
    OperationTotals,
    RunOutcome,
    Sample,
    Snapshot,
    Span,
    VerifyReport,
)
from storlab.process.open_files import allow_open_files
from storlab.workloads.object.job import OBJECT_OPERATIONS

_ORDER = {name: n for n, name in enumerate(("read", "write", "trim", "sync", *OBJECT_OPERATIONS))}


class NativeEngine:
    """Executes jobs in this process, in threads of Rust. Implements ``contracts.engine.Engine``."""

    name = "native"
    kinds: tuple[str, ...] = tuple(_native.family_names())

    def describe(self) -> EngineInfo:
        """Version, backend that ``auto`` would take, and its features. Never raises."""
        said = json.loads(_native.probe())
        uring = said["uring"]
        return EngineInfo(
            name=self.name,
            version=__version__,
            backend="uring" if uring["available"] else "posix",
            features=[*uring["features"], *([] if said["optimised"] else ["unoptimised build"])],
            clock=said["clock"]["source"],
        )

    def refuse(self, job: Job) -> str | None:  # noqa: ARG002  (it runs every job of its kinds)
        """None: what it cannot do, it says when it starts."""
        return None

    def start(self, job: Job, work_dir: Path) -> NativeRun:  # noqa: ARG002  (leaves no files)
        """Start one run at once. A member that cannot be opened gives a run that has failed.

        Raises EngineError for a job that contradicts itself.
        """
        allow_open_files()
        try:
            return NativeRun(_native.Run(job.kind, job.model_dump_json(), job.secrets()), None)
        except ValueError as error:
            raise EngineError("native engine", str(error), "correct the workload") from error
        except OSError as error:
            return NativeRun(None, _failed_to_start(error))


class NativeRun:
    """A run of the native engine. Implements ``contracts.engine.RunHandle``."""

    def __init__(self, run: _native.Run | None, ended: RunOutcome | None) -> None:
        self._run = run
        self._ended = ended

    def snapshot(self) -> Snapshot:
        """What is happening now."""
        if self._run is None:
            return Snapshot("done", 0, None, 0.0, 0.0, None, None)
        return Snapshot(**json.loads(self._run.snapshot()))

    def cancel(self) -> None:
        """End soon."""
        if self._run is not None:
            self._run.cancel()

    def wait(self, timeout_s: float | None = None) -> RunOutcome | None:
        """The outcome, or None when the time-out passed first. The GIL is released."""
        if self._ended is None and self._run is not None and self._run.wait(timeout_s):
            text, rows = self._run.outcome()
            self._ended = _outcome(json.loads(text), rows)
            self._run = None  # closes the files
        return self._ended


def verify_pass(job: RereadJob, keep_going: Callable[[], bool] | None = None) -> VerifyReport:
    """Read again everything that a verify-mode job wrote, in this process or an earlier one.

    Signals are handled meanwhile: Ctrl-C raises KeyboardInterrupt, or calls its handler. The pass
    ends early when ``keep_going``, asked several times a second, says no.

    Raises EngineError when the job is not of verify mode or its state file is damaged, OSError when
    a member or the state file cannot be opened.
    """
    try:
        report = _native.verify_pass(job.model_dump_json(), keep_going)
        return VerifyReport.model_validate_json(report)
    except ValueError as error:
        raise EngineError("verify", str(error), "give a run of a verify-mode workload") from error


def _outcome(said: dict[str, Any], rows: list[tuple[Any, ...]]) -> RunOutcome:
    verify, cpu, failure = (said.get(key) for key in ("verify", "cpu", "failure"))
    totals: dict[Operation, OperationTotals] = {
        operation: OperationTotals.model_validate(totals)
        for operation, totals in sorted(said["totals"].items(), key=_place)
    }
    return RunOutcome(
        status=said["status"],
        engine=EngineInfo.model_validate(said["engine"]),
        window_start_ns=said["window_start_ns"],
        window_end_ns=said["window_end_ns"],
        samples=[Sample(*row) for row in rows],
        totals=totals,
        cpu=CpuUse.model_validate(cpu) if cpu else None,
        failure=Failure.model_validate(failure) if failure else None,
        notes=list(said.get("notes", [])),
        final_sync_ns=said.get("final_sync_ns"),
        drain_ns=said.get("drain_ns", 0),
        verify=VerifyReport.model_validate(verify) if verify else None,
        details=dict(said.get("details") or {}),
        spans=[Span.model_validate(span) for span in said.get("spans") or ()],
    )


def _place(entry: tuple[Operation, Any]) -> tuple[int, Operation]:
    """Where a kind of operation stands in a list for people."""
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
            message=f"cannot open {error.filename or 'a member'}: {_words(error)}",
            fix="check that the target is connected, and that this user may open it",
            errno=error.errno,
            errno_name=errno.errorcode.get(error.errno or 0),
            operation="open",
            path=None if error.filename is None else str(error.filename),
        ),
    )
