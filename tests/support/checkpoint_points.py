"""Checkpoint workloads from a few lines of TOML, as points and jobs."""

from __future__ import annotations

from pathlib import Path

from storlab.contracts.family import Access, JobContext
from storlab.contracts.registry import FAMILIES
from storlab.lab.study.file import parse_study
from storlab.model.point import Point
from storlab.model.study import Header, Target
from storlab.workloads.checkpoint.job import CheckpointJob

CHECKPOINT = FAMILIES["checkpoint"]
HEADER = Header(name="s", settle="1s", interval="500ms")  # type: ignore[arg-type]
TARGET = Target(name="t", directory="d")
BUCKET = Target(name="b", s3="http://127.0.0.1:9000/bucket")
PROFILE = 'profile = "llama3-405b-8gpu-415gb"\n'
SIZE = 415_200_000_000
GB = 1_000_000_000


def points(lines: str) -> list[Point]:
    """Return all points of a workload with these lines."""
    study = parse_study(
        '[study]\nname = "s"\n[[target]]\nname = "t"\ndirectory = "d"\n'
        f'[[workload]]\nkind = "checkpoint"\n{lines}'
    )
    workload = study.workload[0]
    return [
        Point(
            target="t",
            workload="w",
            workload_index=0,
            kind="checkpoint",
            engine=workload.engine or "native",
            params=values,
        )
        for values in workload.values()
    ]


def point(lines: str = PROFILE) -> Point:
    """Return the single point of a workload with these lines."""
    (single,) = points(lines)
    return single


def context(target: Target = TARGET, home: Path | None = Path("/h")) -> JobContext:
    """Return the context for making a job."""
    access = Access(home=home)
    return JobContext(HEADER, target, access, seed=7, work_dir=Path("w"), run_id="p1-r1")


def order(lines: str = PROFILE, target: Target = TARGET) -> CheckpointJob:
    """Return the engine job of a point."""
    made = CHECKPOINT.job(point(lines), context(target))
    assert isinstance(made, CheckpointJob)
    return made
