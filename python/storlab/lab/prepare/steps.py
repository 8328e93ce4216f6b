"""Steps of workloads before and after runs, such as writing data sets; they are not measured."""

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
    """Executes the steps of workloads before a campaign's first run and after each run."""

    def __init__(self, work_dir: Path, stop: StopRequest, reporter: Reporter) -> None:
        self.work_dir = work_dir
        self._stop = stop
        self._reporter = reporter

    def before(self, points: Sequence[Point], context: JobContext) -> None:
        """Execute the steps that prepare a target for points of one workload family.

        Raises:
            PrepareError: A step failed.
            ResultError: The working directory of a step cannot be created.
            Interrupted: A stop was requested.
        """
        self._carry_out(context.target, _prepare_steps(points, context))

    def after(self, point: Point, context: JobContext) -> bool:
        """Execute the steps that restore a target after a run; return whether there were any.

        Raises:
            PrepareError: A step failed.
            ResultError: The working directory of a step cannot be created.
            Interrupted: A stop was requested.
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
    """Run one step to its end, in a working directory that exists only for the step.

    Raises:
        PrepareError: The step failed; the error names the target.
        EngineError: The job's parameters are inconsistent.
        ResultError: ``work_dir`` cannot be created.
        Interrupted: A stop was requested.
    """
    total = None if step.total_bytes is None else float(step.total_bytes)
    reporter.step(f"{target}: {step.text}", total)
    try:
        work_dir.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        fix = "make room there, then continue with `storlab resume`"
        raise ResultError(str(work_dir), f"cannot be created: {error.strerror}", fix) from error
    try:
        handle = get_engine("native").start(step.job, work_dir)
        outcome = finish(handle, stop, ByteMeter(reporter).add)
    finally:
        shutil.rmtree(work_dir, ignore_errors=True)
    if outcome.failure is not None or outcome.status != "finished":
        failure = outcome.failure or Failure(message="the engine ended it without giving a reason")
        message = f"{step.text}: {failure.message}"
        raise PrepareError(target, failure.model_copy(update={"message": message}))
    return outcome
