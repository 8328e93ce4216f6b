"""Conversion of a planned run to the job that an engine executes."""

from __future__ import annotations

from pathlib import Path

from storlab.analysis.offered_load import level_of
from storlab.base.seeds import derive_seed
from storlab.contracts.family import WHOLE, Access, JobContext, Share
from storlab.contracts.registry import FAMILIES
from storlab.model.job import Job
from storlab.model.point import PlannedRun, Point
from storlab.model.study import StudyBase


def run_seed(study_seed: int, point: Point, repeat: int) -> int:
    """Return the random seed of one run.

    Runs with the same work and repeat get the same seed, and so the same I/O, on all targets and
    with all engines.
    """
    non_work_parameters = FAMILIES[point.kind].spec.non_work_parameters
    work = {name: value for name, value in point.params.items() if name not in non_work_parameters}
    if level_of(point) is not None:  # its rate differs between targets
        work.pop(FAMILIES[point.kind].page.load.open_loop, None)
    return derive_seed(study_seed, point.kind, work, repeat)


def run_context(
    study: StudyBase,
    point: Point,
    run: PlannedRun,
    access: Access,
    work_dir: Path,
    share: Share = WHOLE,
) -> JobContext:
    """Return what a workload needs to build the job of one run: target, access, seed and paths."""
    return JobContext(
        header=study.study,
        target=study.target_named(point.target),
        access=access,
        seed=run_seed(study.study.seed, point, run.repeat),
        work_dir=work_dir,
        run_id=run.run_id,
        share=share,
    )


def make_job(
    study: StudyBase, point: Point, run: PlannedRun, access: Access, work_dir: Path
) -> Job:
    """Build the job of one run for its engine.

    Raises:
        ValueError: The target is too small for the workload.
    """
    context = run_context(study, point, run, access, work_dir)
    return FAMILIES[point.kind].job(point, context)
