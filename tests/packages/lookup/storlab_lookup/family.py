"""Lookup family."""

from __future__ import annotations

from typing import Any

from storlab.base.errors import Problem
from storlab.contracts.details import Details
from storlab.contracts.family import DataSet, Estimate, JobContext, Workload
from storlab.contracts.figure import Bars, FigureKind, OverSweep
from storlab.contracts.page import Load, Operations, Page, Parameters, Text, rate
from storlab.model.point import Point
from storlab.model.result import Concurrency, Flag, Metric, RunOutcome
from storlab.model.study import Header, Target, WorkloadSpec
from storlab.workloads.common import metrics as common
from storlab_lookup.job import LookupJob
from storlab_lookup.spec import LookupParams, LookupSpec

FILE_BYTES = 1 << 20
READS = ("read",)


class LookupFamily(Workload):
    """Workload family that looks up records of a file."""

    kind = "lookup"
    fixed_work = False
    spec: type[WorkloadSpec] = LookupSpec
    details: type[Details] = Details
    places: tuple[str, ...] = ("directory",)
    page = Page(
        operations=Operations(main=READS, moved=READS, rate=rate("lookups_s", "lookups/s")),
        parameters=Parameters(
            axes=("record_size",), model=LookupParams, titles={"record_size": "record size"}
        ),
        load=Load(buffered=True),
        text=Text(work="lookups"),
    )
    figures: tuple[FigureKind, ...] = (
        FigureKind(
            "lookup_rate",
            "section",
            "Throughput",
            "Mean of the repeats; every dot is one run.",
            parts=(
                OverSweep(("lookups_s.all",), name="lookups-by-size", words="lookups"),
                Bars("throughput", {"looked up": "throughput_mb_s.all"}),
            ),
        ),
    )

    def check(self, params: dict[str, Any], target: Target) -> list[Problem]:
        del target
        if LookupParams.of(params).record_size > FILE_BYTES:
            return [Problem(("record_size",), "is larger than the file", "use at most 1MiB")]
        return []

    def estimate(self, point: Point, header: Header, target: Target) -> Estimate:
        del point, target
        return Estimate(
            duration_ns=header.runtime,
            bytes_written=FILE_BYTES,
            writes=True,
            data_sets=(DataSet("lookup", FILE_BYTES),),
        )

    def job(self, point: Point, context: JobContext) -> LookupJob:
        home = context.access.home
        if home is None:
            raise ValueError("it has no directory")
        return LookupJob(
            path=str(home / "lookup" / "records"),
            file_bytes=FILE_BYTES,
            record_bytes=LookupParams.of(point.params).record_size,
            window_ns=context.header.runtime,
            interval_ns=context.header.interval,
            seed=context.seed,
        )

    def concurrency(self, point: Point, outcome: RunOutcome) -> Concurrency:
        del point
        return Concurrency(configured=1, implied=common.implied_outstanding(outcome, READS))

    def metrics(self, point: Point, outcome: RunOutcome) -> list[Metric]:
        implied = self.concurrency(point, outcome).implied
        return [
            *common.rate_metrics(outcome, READS, READS, "lookups_s"),
            *common.time_metrics(outcome, READS, "latency"),
            *common.concurrency_metric(implied),
        ]

    def flags(self, point: Point, target: Target, outcome: RunOutcome) -> list[Flag]:
        del point, target, outcome
        return []
