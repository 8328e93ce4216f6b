"""Steps around the runs: jobs outside of all measurement, carried out by the native engine."""

from __future__ import annotations

import shutil
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from storlab.base.errors import EngineError, ResultError
from storlab.contracts.family import JobContext, Step
from storlab.contracts.registry import FAMILIES, get_engine
from storlab.contracts.reporter import Reporter
from storlab.lab.prepare.dataset import ByteMeter, PrepareError
from storlab.model.point import Point
from storlab.model.result import Failure, RunOutcome
from storlab.model.study import Target
from storlab.process.execution import StopRequest, finish

_INCONSISTENT = "correct the workload"


class Steps:
    """What the workloads of a campaign ask for before its first run and after each."""

    def __init__(self, work_dir: Path, stop: StopRequest, reporter: Reporter) -> None:
        self.work_dir = work_dir
        self._stop = stop
        self._reporter = reporter

    def before(self, points: Sequence[Point], context: JobContext) -> None:
        """Make what these points of one family and target need.

        Raises PrepareError, ResultError without room for its work, or Interrupted.
        """
        self._carry_out(context.target, _prepare_steps(points, context))

    def after(self, point: Point, context: JobContext) -> bool:
        """Put right what a run has left behind; False where there was nothing to do.

        Raises PrepareError, ResultError without room for its work, or Interrupted.
        """
        return self._carry_out(context.target, _after_steps(point, context))

    def _carry_out(self, target: Target, steps: Iterable[Step]) -> bool:
        done = False
        try:
            for step in steps:
                carry_out(step, target.name, self.work_dir, self._stop, self._reporter)
                done = True
        except EngineError as error:
            raise PrepareError(
                target.name, Failure(message=f"{error.where}: {error.what}", fix=error.fix)
            ) from error
        except ValueError as error:
            failure = Failure(message=str(error), fix=_INCONSISTENT)
            raise PrepareError(target.name, failure) from error
        return done


def _prepare_steps(points: Sequence[Point], context: JobContext) -> Iterator[Step]:
    yield from FAMILIES[points[0].kind].prepare(points, context)


def _after_steps(point: Point, context: JobContext) -> Iterator[Step]:
    yield from FAMILIES[point.kind].after(point, context)


def carry_out(
    step: Step, target: str, work_dir: Path, stop: StopRequest, reporter: Reporter
) -> RunOutcome:
    """Do one step to its end. ``work_dir`` is made for it, and removed.

    Raises PrepareError, naming the target, when it fails; EngineError for a job that contradicts
    itself; ResultError where there is no room for ``work_dir``; Interrupted on a stop request.
    """
    total = None if step.total_bytes is None else float(step.total_bytes)
    reporter.step(f"{target}: {step.text}", total)
    try:
        work_dir.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        fix = "make room, then go on with `storlab resume`"
        raise ResultError(str(work_dir), f"cannot be made: {error.strerror}", fix) from error
    try:
        handle = get_engine("native").start(step.job, work_dir)
        outcome = finish(handle, stop, ByteMeter(reporter).add)
    finally:
        shutil.rmtree(work_dir, ignore_errors=True)
    if outcome.failure is not None or outcome.status != "finished":
        failure = outcome.failure or Failure(message="the engine ended it and did not say why")
        message = f"{step.text}: {failure.message}"
        raise PrepareError(target, failure.model_copy(update={"message": message}))
    return outcome
