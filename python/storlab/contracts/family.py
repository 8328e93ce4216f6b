"""What a family of work promises the floors above it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

from storlab.base.errors import Problem
from storlab.contracts.details import Details
from storlab.contracts.figure import FigureKind
from storlab.contracts.page import Page
from storlab.model.job import Job, Member
from storlab.model.point import Point
from storlab.model.result import Concurrency, Flag, Metric, RunOutcome
from storlab.model.s3 import S3Access
from storlab.model.study import Header, Target, WorkloadSpec


@dataclass(frozen=True, slots=True)
class Estimate:
    """What one run of a point costs, before it runs."""

    duration_ns: int  # ramp + window + settle
    bytes_written: int | None  # None: bounded by time, not by bytes
    writes: bool  # does the point write to its target at all
    files: int  # for directory targets: how many files the point needs
    write_share: float = 0.0  # written bytes over moved bytes, 0 to 1
    frees: bool = False  # does it trim or punch holes: fewer blocks are allocated after it
    reads: bool = True  # does the point read data that must be there before
    data_bytes: int = 0  # of the data set that ``prepare`` makes for it; 0: the lab lays it out
    data_objects: int = 0  # requests that make it, where each object is one; 0: bytes decide
    data_set: str = ""  # which one that is: points that say the same share it; its name in a home
    space_bytes: int | None = None  # most that a run's own files take at once; None: bytes_written
    buffer_bytes: int = 0  # of memory that its I/O takes at once
    buffer_fields: tuple[str, ...] = ()  # whose product that is, about: smaller, they need less
    histograms: int = 0  # of each worker; 0: one for each operation of the family's page
    compared_bytes: int = 0  # read before the load, to compare what arrives, and how long it takes
    compared_ns: int = 0
    compared_once: str = ""  # runs of a target that say the same compare once what none has changed
    continues: bool = False  # a run goes on with what an interrupted one of its id has left
    open_files: int = 0  # at once, sockets included, about; 0: few
    raw_files: tuple[Path, ...] = ()  # of somebody's, that it reads; absolute
    cautions: tuple[str, ...] = ()  # what will bend its numbers and is known before it runs


@dataclass(frozen=True, slots=True)
class Access:
    """What the guard grants of a target: files and devices, a prefix of a bucket, or a directory.

    ``home``, of a directory target, is for families whose estimate needs no ``files``: all that is
    in it belongs to storlab. Data sets lie in ``<home>/<Estimate.data_set>/``, what a run writes in
    directories named by its run id.
    """

    members: list[Member] = field(default_factory=list)
    s3: S3Access | None = None
    home: Path | None = None  # absolute; exists, but where the guard only looks


@dataclass(frozen=True, slots=True)
class Share:
    """Which share of a work that is made for all clients one of them does."""

    index: int = 0
    count: int = 1

    def of(self, total: int) -> range:
        """Of so many pieces, numbered from 0: neighbours, and as many as any other share or one
        fewer. Each piece is of exactly one share.
        """
        return range(total * self.index // self.count, total * (self.index + 1) // self.count)


WHOLE = Share()


@dataclass(frozen=True, slots=True)
class JobContext:
    """What the lab knows and a workload needs to make its job."""

    header: Header
    target: Target
    access: Access
    seed: int  # of this run: study seed, point and repeat combined
    work_dir: Path  # of this run
    run_id: str = ""
    share: Share = WHOLE  # of the work of a family that divides it

    @property
    def members(self) -> list[Member]:
        """Files and devices of the target."""
        return self.access.members


@dataclass(frozen=True, slots=True)
class Step:
    """A job outside of all measurement: it makes what a run needs, or removes what one left.

    The native engine carries it out. Doing it again changes nothing.
    """

    text: str  # for people: "making 2,500 objects"
    job: Job
    total_bytes: int | None = None  # for the progress bar; None: not known


class Workload(Protocol):
    """One family of work."""

    kind: str
    fixed_work: bool  # a run ends when its work is done: no ramp, no runtime, no steady state
    spec: type[WorkloadSpec]
    details: type[Details]  # of what engines tell of its runs
    places: tuple[str, ...]  # fields of a target that say where: path, paths, directory, s3
    page: Page
    figures: tuple[FigureKind, ...]  # in the order of the brief

    def check(self, params: dict[str, Any], target: Target) -> list[Problem]:
        """Why these values cannot run on this target; none where they can.

        A field is one of the workload where it has such a field, else one of the target.
        """
        ...

    def estimate(self, point: Point, header: Header, target: Target) -> Estimate:
        """Time and bytes of one run."""
        ...

    def job(self, point: Point, context: JobContext) -> Job:
        """The engine's order for one run."""
        ...

    def prepare(self, points: Sequence[Point], context: JobContext) -> list[Step]:
        """What these points of one target need before the first run of a session.

        ``context.seed`` is the study's, and ``run_id`` is empty.
        """
        ...

    def after(self, point: Point, context: JobContext) -> list[Step]:
        """What is to be put right after each run, whether it finished or failed."""
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
