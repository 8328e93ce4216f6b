"""Workload families. One file each; registered here and nowhere else."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from storlab.model.job import BlockJob, Member
from storlab.model.point import Point
from storlab.model.result import Concurrency, Flag, Metric, RunOutcome
from storlab.model.study import Header, StudyBase, Target, WorkloadSpec, study_model


@dataclass(frozen=True, slots=True)
class Estimate:
    """What one run of a point costs, before it runs."""

    duration_ns: int  # ramp + window + settle
    bytes_written: int | None  # None: bounded by time, not by bytes
    writes: bool  # does the point write to its target at all
    files: int  # for directory targets: how many files the point needs
    write_share: float = 0.0  # written bytes over moved bytes, 0 to 1


@dataclass(frozen=True, slots=True)
class JobContext:
    """What the lab knows and a workload needs to make its job."""

    header: Header
    target: Target
    members: list[Member]
    seed: int  # of this run: study seed, point and repeat combined
    work_dir: Path  # of this run


class Workload(Protocol):
    """One family of work."""

    kind: str
    spec: type[WorkloadSpec]
    figures: tuple[str, ...]  # names in storlab.figures, in the order of the brief

    def check(self, params: dict[str, Any], target: Target) -> str | None:
        """Why these values cannot run on this target, or None."""
        ...

    def estimate(self, point: Point, header: Header, target: Target) -> Estimate:
        """Time and bytes of one run."""
        ...

    def job(self, point: Point, context: JobContext) -> BlockJob:
        """The engine's order for one run."""
        ...

    def concurrency(self, point: Point, outcome: RunOutcome) -> Concurrency:
        """Configured and implied outstanding I/O."""
        ...

    def metrics(self, point: Point, outcome: RunOutcome) -> list[Metric]:
        """The named quantities of one run."""
        ...

    def flags(self, point: Point, target: Target, outcome: RunOutcome) -> list[Flag]:
        """Warnings that belong beside its numbers."""
        ...


def _registered() -> list[Workload]:
    from storlab.workloads.block import BlockWorkload

    return [BlockWorkload()]


WORKLOADS: dict[str, Workload] = {w.kind: w for w in _registered()}
Study: type[StudyBase] = study_model([w.spec for w in WORKLOADS.values()])
"""The model of a study file with every registered family."""
