"""From a planned run to the engine's order."""

from __future__ import annotations

from pathlib import Path

from storlab.base.seeds import derive_seed
from storlab.contracts.family import WHOLE, Access, JobContext, Share
from storlab.contracts.registry import FAMILIES
from storlab.model.job import Job
from storlab.model.point import PlannedRun, Point
from storlab.model.study import StudyBase


def run_seed(study_seed: int, point: Point, repeat: int) -> int:
    """The seed of one run. Equal work is an equal sequence, on all targets and by all engines."""
    asides = FAMILIES[point.kind].spec.asides
    work = {name: value for name, value in point.params.items() if name not in asides}
    return derive_seed(study_seed, point.kind, work, repeat)


def run_context(
    study: StudyBase,
    point: Point,
    run: PlannedRun,
    access: Access,
    work_dir: Path,
    share: Share = WHOLE,
) -> JobContext:
    """What a workload needs to know of one run; ``access`` is what the guard grants."""
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
    """The engine's order for one run. Raises ValueError when the target is too small for it."""
    context = run_context(study, point, run, access, work_dir)
    return FAMILIES[point.kind].job(point, context)
