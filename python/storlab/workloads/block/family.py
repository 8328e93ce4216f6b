"""Block and file I/O as a family: what it promises the lab and the brief."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from storlab.base.errors import Problem
from storlab.base.units import NS_PER_S
from storlab.contracts.details import Details
from storlab.contracts.family import Estimate, JobContext, Step
from storlab.contracts.figure import FigureKind
from storlab.contracts.page import Page
from storlab.model.job import Arrival, Member
from storlab.model.point import Point
from storlab.model.result import Concurrency, Flag, Metric, RunOutcome
from storlab.model.study import Header, Target, WorkloadSpec
from storlab.workloads.block.job import BlockJob, Offsets, Payload, Sync, Verify
from storlab.workloads.block.layout import Layout
from storlab.workloads.block.metrics import run_concurrency, run_flags, run_metrics
from storlab.workloads.block.page import BLOCK_PAGE
from storlab.workloads.block.rules import (
    target_problem,
)
from storlab.workloads.block.spec import (
    ASSUMED_BYTES_S,
    BlockSpec,
    block_sizes,
    granule,
    largest_block,
    mean_block,
    mix_of,
    region_of,
)
from storlab.workloads.block.starter import Starter
from storlab.workloads.common.drawings import (
    EFFICIENCY_BARS,
    LATENCY_BARS,
    LATENCY_CDF,
    POWER_OVER_TIME,
    RATIOS,
    THROUGHPUT_VS_JOBS,
    TIME_SERIES,
)


class BlockWorkload(Layout, Starter):
    """Block and file I/O. Implements :class:`storlab.contracts.family.Workload`."""

    kind = "block"
    fixed_work = False
    spec: type[WorkloadSpec] = BlockSpec
    details: type[Details] = Details
    places: tuple[str, ...] = ("path", "paths", "directory")
    page: Page = BLOCK_PAGE
    figures: tuple[FigureKind, ...] = (
        THROUGHPUT_VS_JOBS,
        LATENCY_BARS,
        LATENCY_CDF,
        TIME_SERIES,
        POWER_OVER_TIME,
        EFFICIENCY_BARS,
        RATIOS,
    )

    def check(self, params: dict[str, Any], target: Target) -> list[Problem]:
        """Why these values cannot run on this target; none where they can."""
        problem = target_problem(params, target, region_of)
        return [] if problem is None else [problem]

    def estimate(self, point: Point, header: Header, target: Target) -> Estimate:
        """Time and bytes of one run; bytes None where only time bounds them."""
        params = point.params
        mix = mix_of(params)
        rate, total = params["rate_iops"], params["total_bytes"]
        bytes_s = ASSUMED_BYTES_S if rate is None else rate * mean_block(params)
        window_ns = header.runtime if total is None else round(total / bytes_s * NS_PER_S)
        written: int | None = None
        if mix.write == 0:
            written = 0
        elif total is not None:
            ramp_bytes = bytes_s * header.ramp / NS_PER_S
            written = round((total + ramp_bytes) * mix.write / 100)
        elif rate is not None:
            seconds = (header.ramp + window_ns) / NS_PER_S
            written = round(bytes_s * seconds * mix.write / 100)
        return Estimate(
            duration_ns=header.ramp + window_ns + header.settle,
            bytes_written=written,
            writes=mix.write > 0 or mix.trim > 0,
            files=params["jobs"] if target.directory is not None else 0,
            write_share=mix.write / (mix.read + mix.write) if mix.write else 0.0,
            reads=mix.read > 0,
            buffer_bytes=largest_block(params) * params["queue_depth"] * params["jobs"],
        )

    def job(self, point: Point, context: JobContext) -> BlockJob:
        """The engine's order for one run. Raises ValueError when a member is too small for it."""
        params, header, target = point.params, context.header, context.target
        total = params["total_bytes"]
        if total is not None and params["verify"]:
            total = -(-total // granule(params)) * granule(params)
        layout = "per_job" if target.directory is not None else target.layout or "jbod"
        return BlockJob(
            backend=params["backend"],
            members=[_narrowed(member, params) for member in context.members],
            layout=layout,
            stripe_chunk=target.stripe_chunk,
            direct=target.direct,
            jobs=params["jobs"],
            queue_depth=params["queue_depth"],
            batch=params["batch"],
            cpus=params["cpus"],
            mix=mix_of(params),
            block_sizes=block_sizes(params),
            offsets=Offsets(
                kind=params["offsets"],
                theta=params["zipf_theta"],
                hot_space_percent=params["hot_space_percent"],
                hot_access_percent=params["hot_access_percent"],
            ),
            arrival=_arrival(params),
            sync=_sync(params),
            payload=Payload(
                compress_percent=params["compress_percent"],
                dedupe_percent=params["dedupe_percent"],
            ),
            verify=_verify(params, context),
            ramp_ns=header.ramp,
            window_ns=header.runtime if total is None else None,
            window_bytes=total,
            interval_ns=min(header.interval, header.runtime),
            drain_timeout_ns=params["drain_timeout"],
            seed=context.seed,
        )

    def prepare(self, points: Sequence[Point], context: JobContext) -> list[Step]:
        """Nothing: the lab itself lays out the files of file targets."""
        del points, context
        return []

    def after(self, point: Point, context: JobContext) -> list[Step]:
        """Nothing: a run leaves the files as large as it found them."""
        del point, context
        return []

    def concurrency(self, point: Point, outcome: RunOutcome) -> Concurrency:
        """Configured (queue depth times jobs), and implied by Little's law."""
        return run_concurrency(point.params, outcome)

    def metrics(self, point: Point, outcome: RunOutcome) -> list[Metric]:
        """Throughput, rates, latencies, client CPU and effective concurrency of one run."""
        return run_metrics(point.params, outcome)

    def flags(self, point: Point, target: Target, outcome: RunOutcome) -> list[Flag]:
        """Warnings that belong beside the numbers of one run."""
        return run_flags(point.params, target, outcome)


def _narrowed(member: Member, params: dict[str, Any]) -> Member:
    start, length = region_of(params, member.size)
    if params["verify"]:  # whole granules only
        unit = granule(params)
        skipped = -(member.offset + start) % unit
        start, length = start + skipped, (length - skipped) // unit * unit
    largest = largest_block(params)
    if start + length > member.size or length < largest:
        raise ValueError(
            f"{member.name}: region_start and region_size leave {max(0, length)} bytes of "
            f"{member.size}, and a block has {largest}"
        )
    return member.model_copy(update={"offset": member.offset + start, "size": length})


def _arrival(params: dict[str, Any]) -> Arrival:
    if params["rate_iops"] is None:
        return Arrival()
    return Arrival(kind=params["arrival"] or "constant", rate_iops=params["rate_iops"])


def _sync(params: dict[str, Any]) -> Sync:
    kind = params["sync"]
    if kind == "none" and params["final_sync"]:
        kind = "fsync"  # only at the end: every_writes is 0
    return Sync(kind=kind, every_writes=params["sync_every"], final=params["final_sync"])


def _verify(params: dict[str, Any], context: JobContext) -> Verify | None:
    if not params["verify"]:
        return None
    return Verify(state=str(context.work_dir / "verify.state"), block=granule(params))
