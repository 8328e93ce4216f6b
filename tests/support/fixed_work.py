"""A small workload family of fixed work for tests, which reads its own data set in a home.

Files and native engine are real; only utilisation is synthetic, from ``au_of``.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, ClassVar, Literal

from pydantic import Field

from storlab.base.errors import Problem
from storlab.contracts.details import Details
from storlab.contracts.family import DataSet, Estimate, JobContext, Step, Workload
from storlab.contracts.page import Operations, Page, Parameters, Search
from storlab.model.job import Member, WeightedSize
from storlab.model.point import Point
from storlab.model.result import Concurrency, Flag, Metric, RunOutcome
from storlab.model.study import Header, Target, WorkloadSpec
from storlab.model.types import Swept
from storlab.workloads.block.job import BlockJob, Mix, Offsets
from storlab.workloads.common.costs import IOPS

SIZE = 64 * 1024


class DrillSpec(WorkloadSpec):
    """``kind = "drill"``."""

    swept: ClassVar[tuple[str, ...]] = ("accelerators", "extra")

    kind: Literal["drill"] = Field(description="a family of tests")
    accelerators: Swept[int] = Field(default=1, description="swept")
    extra: Swept[int] = Field(default=0, description="another parameter; swept")


class DrillWorkload(Workload):
    """Workload family of fixed work for tests."""

    kind = "drill"
    fixed_work = True
    spec: type[WorkloadSpec] = DrillSpec
    details: type[Details] = Details
    places: tuple[str, ...] = ("directory",)
    page = Page(
        operations=Operations(main=("read",), moved=("read",), rate=IOPS),
        parameters=Parameters(axes=("accelerators",)),
        search=Search("accelerators", "accelerator", "au_percent"),
    )
    figures: tuple[str, ...] = ()
    engine_kind = "block"  # kind passed to the native engine

    def __init__(
        self,
        au_of: Callable[[Point, int], float] = lambda point, repeat: 100.0,
        most: int = 64,
        space_bytes: int = 0,
        data_bytes: int = SIZE,
    ) -> None:
        self.au_of = au_of
        self.most = most
        self.space_bytes = space_bytes
        self.data_bytes = data_bytes
        self.homes: list[Path] = []  # of executed jobs
        self.runs: list[tuple[str, int]] = []  # target, accelerators
        self.flagged: dict[int, str] = {}  # flag by accelerators

    def check(self, params: dict[str, Any], target: Target) -> list[Problem]:
        del target
        if params["accelerators"] > self.most:
            what = f"the data set has files for {self.most}"
            return [Problem(("accelerators",), what, "use fewer")]
        return []

    def estimate(self, point: Point, header: Header, target: Target) -> Estimate:
        del point, header, target
        return Estimate(
            duration_ns=1_000_000,
            bytes_written=0,
            writes=False,
            data_sets=(DataSet("drill-1", self.data_bytes),),
            space_bytes=self.space_bytes,
        )

    def job(self, point: Point, context: JobContext) -> BlockJob:
        self.runs.append((point.target, point.params["accelerators"]))
        return self._job(context, write=False)

    def prepare(self, points: Sequence[Point], context: JobContext) -> list[Step]:
        del points
        home = context.access.home
        assert home is not None
        self.homes.append(home)
        (home / "drill-1").mkdir(exist_ok=True)
        (home / "drill-1" / "data").write_bytes(bytes(SIZE))
        return [Step("making the drill's data", self._job(context, write=True), SIZE)]

    def after(self, point: Point, context: JobContext) -> list[Step]:
        del point, context
        return []

    def concurrency(self, point: Point, outcome: RunOutcome) -> Concurrency:
        del point, outcome
        return Concurrency(configured=1, implied=None)

    def metrics(self, point: Point, outcome: RunOutcome) -> list[Metric]:
        del outcome
        number = self.runs.count((point.target, point.params["accelerators"]))
        return [Metric(name="au_percent", value=self.au_of(point, number), unit="%")]

    def flags(self, point: Point, target: Target, outcome: RunOutcome) -> list[Flag]:
        del target, outcome
        kind = self.flagged.get(point.params["accelerators"])
        return [] if kind is None else [Flag(kind=kind, message="said by the test")]

    def _job(self, context: JobContext, *, write: bool) -> BlockJob:
        home = context.access.home
        if home is None:
            raise ValueError("it has no directory")
        path = home / "drill-1" / "data"
        return BlockJob(
            members=[Member(path=str(path), name=path.name, kind="file", size=SIZE)],
            direct=False,
            jobs=1,
            queue_depth=1,
            mix=Mix(read=0 if write else 100, write=100 if write else 0),
            block_sizes=[WeightedSize(bytes=4096)],
            offsets=Offsets(kind="sequential"),
            interval_ns=10_000_000,
            window_bytes=SIZE,
        )
