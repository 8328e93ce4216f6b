"""Workload family for block and file I/O."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from storlab.base.errors import Problem
from storlab.contracts.check import Check
from storlab.contracts.details import Details
from storlab.contracts.family import Estimate, JobContext
from storlab.contracts.figure import FigureKind
from storlab.contracts.page import Page
from storlab.model.job import Member
from storlab.model.point import Point
from storlab.model.result import Concurrency, Flag, Metric, Proof, RunOutcome
from storlab.model.study import Header, Target, WorkloadSpec
from storlab.stores.devices import Device, device_number, read_fact
from storlab.workloads.block.groups import BlockGroup
from storlab.workloads.block.job import BlockJob, GroupedBlockJob, Payload, Sync, Verify
from storlab.workloads.block.layout import Layout
from storlab.workloads.block.metrics import run_concurrency, run_flags, run_metrics
from storlab.workloads.block.page import BLOCK_PAGE
from storlab.workloads.block.params import BlockParams
from storlab.workloads.block.rules import (
    buffer_bytes,
    histograms,
    target_problem,
    unit_cautions,
    zones_problem,
)
from storlab.workloads.block.spec import (
    ASSUMED_BYTES_S,
    BlockSpec,
    granule,
    largest_block,
    mix_of,
)
from storlab.workloads.block.starter import Starter
from storlab.workloads.common.figure_kinds import (
    EFFICIENCY_BARS,
    EFFICIENCY_VS_AXIS,
    LATENCY_CDF,
    LATENCY_POINTS,
    LATENCY_UNDER_LOAD,
    POWER_OVER_TIME,
    RATES_VS_JOBS,
    RATIOS,
    RATIOS_FURTHER,
    THROUGHPUT_VS_JOBS,
    TIME_SERIES,
)
from storlab.workloads.common.groups import estimate_together, points_by_group, seed_of_group
from storlab.workloads.common.in_place import InPlace, window_and_written
from storlab.workloads.common.io_fields import arrival_of
from storlab.workloads.common.proof import medium_proof
from storlab.workloads.common.random_choice import mean_size, offsets_of, weighted_sizes
from storlab.workloads.common.regions import part_of, region_of


class BlockWorkload(Layout, Starter, InPlace):
    """Workload family for block and file I/O."""

    kind = "block"
    writes_zones = True
    spec: type[WorkloadSpec] = BlockSpec
    details: type[Details] = Details
    page: Page = BLOCK_PAGE
    figures: tuple[FigureKind, ...] = (
        LATENCY_UNDER_LOAD,
        THROUGHPUT_VS_JOBS,
        LATENCY_POINTS,
        RATES_VS_JOBS,
        LATENCY_CDF,
        TIME_SERIES,
        POWER_OVER_TIME,
        EFFICIENCY_BARS,
        EFFICIENCY_VS_AXIS,
        RATIOS,
        RATIOS_FURTHER,
    )

    def check(self, params: dict[str, Any], target: Target) -> list[Problem]:
        """Return the problems that prevent a run with these parameters on a target."""
        values = BlockParams.of(params)
        if not values.group:
            problem = target_problem(values, target)
            return [] if problem is None else [problem]
        loads = [*values.loads().values()]
        problems = [target_problem(load, target) for load in loads]
        if not any(problems) and (problem := zones_problem(loads, target)):
            return [problem]
        names = {*BlockGroup.fields}
        return [
            Problem(("group", index, *p.field) if p.field[0] in names else p.field, p.what, p.fix)
            for index, p in enumerate(problems)
            if p is not None
        ]

    def estimate(self, point: Point, header: Header, target: Target) -> Estimate:
        """Estimate duration and written bytes of a run.

        The bytes are None if neither a rate nor a total size limits them.
        """
        params = BlockParams.of(point.params)
        if params.group:
            parts = self.groups(point).values()
            return estimate_together([self.estimate(part, header, target) for part in parts])
        mix = mix_of(params)
        mean, rate = mean_size(params.block_size), params.rate_iops
        rated = None if rate is None else rate * mean
        window_ns, written = window_and_written(
            header, params.total_bytes, rated, ASSUMED_BYTES_S, mix.write
        )
        files = params.jobs if target.directory is not None else 0
        return Estimate(
            duration_ns=header.ramp + window_ns + header.settle,
            bytes_written=written,
            writes=mix.write > 0 or mix.trim > 0,
            layout_files=files,
            write_share=mix.write / (mix.read + mix.write) if mix.write else 0.0,
            reads=mix.read > 0,
            frees=mix.trim > 0,
            buffer_bytes=buffer_bytes(params, point.engine),
            buffer_fields=("block_size", "queue_depth", "jobs"),
            histograms=histograms(params),
            open_files=(files or len(target.locations)) + params.jobs,  # an io_uring per job
            cautions=unit_cautions(params, target),
        )

    def groups(self, point: Point) -> dict[str, Point]:
        """Return a point for each group of jobs, by its name; empty if there are no groups."""
        return points_by_group(point)

    def job(self, point: Point, context: JobContext) -> BlockJob | GroupedBlockJob:
        """Build the job of one run; raise ValueError if a file or device is too small."""
        groups = self.groups(point)
        if not groups:
            return self._job(point, context)
        members, jobs = context.members, {}
        for index, (name, own) in enumerate(groups.items()):
            seed = seed_of_group(context.seed, index)
            count = BlockParams.of(own.params).jobs
            in_directory = context.target.directory is not None
            access = replace(context.access, members=members[:count] if in_directory else members)
            members = members[count:] if in_directory else members
            jobs[name] = self._job(own, replace(context, access=access, seed=seed))
        return GroupedBlockJob.of(jobs)

    def _job(self, point: Point, context: JobContext) -> BlockJob:
        params, header, target = BlockParams.of(point.params), context.header, context.target
        total = params.total_bytes
        if total is not None and params.verify:
            total = -(-total // granule(params)) * granule(params)
        layout = "per_job" if target.directory is not None else target.layout or "jbod"
        return BlockJob(
            backend=params.backend,
            members=[_narrowed(member, params) for member in context.members],
            layout=layout,
            stripe_chunk=target.stripe_chunk,
            direct=target.direct,
            jobs=params.jobs,
            queue_depth=params.queue_depth,
            batch=params.batch,
            cpus=params.cpus,
            mix=mix_of(params),
            block_sizes=weighted_sizes(params.block_size),
            offsets=offsets_of(params),
            arrival=arrival_of(params.rate_iops, params.arrival),
            sync=_sync(params),
            payload=Payload(
                compress_percent=params.compress_percent,
                dedupe_percent=params.dedupe_percent,
            ),
            verify=_verify(params, context),
            ramp_ns=header.ramp,
            window_ns=header.runtime if total is None else None,
            window_bytes=total,
            interval_ns=min(header.interval, header.runtime),
            drain_timeout_ns=params.drain_timeout,
            seed=context.seed,
        )

    def concurrency(self, point: Point, outcome: RunOutcome) -> Concurrency:
        """Return the concurrency as configured (queue depth times jobs) and by Little's law."""
        return run_concurrency(BlockParams.of(point.params), outcome)

    def metrics(self, point: Point, outcome: RunOutcome) -> list[Metric]:
        """Compute throughput, rates, latencies, client CPU and effective concurrency of one run."""
        return run_metrics(BlockParams.of(point.params), outcome)

    def proof(self, point: Point, target: Target, outcome: RunOutcome) -> Proof | None:
        """Judge whether the medium (rather than a cache) served the bytes of a run."""
        if BlockParams.of(point.params).backend == "null":
            return None
        return medium_proof(target, outcome)

    def flags(self, point: Point, target: Target, outcome: RunOutcome) -> list[Flag]:
        """Return the flags of one run: warnings that a brief shows beside its numbers."""
        return run_flags(BlockParams.of(point.params), target, outcome)

    def examine_machine(self, points: Sequence[Point] = ()) -> list[Check]:
        """Return no checks, as ``storlab doctor`` itself checks all that block I/O needs."""
        del points
        return []

    def examine_target(
        self, target: Target, points: Sequence[Point], places: Sequence[Path]
    ) -> list[Check]:
        """Return an error for each device that the points would trim but that cannot discard."""
        del target
        every = (BlockParams.of(point.params).loads().values() for point in points)
        trims = any(load.trim_percent for loads in every for load in loads)
        return [
            Check(
                name="trim",
                status="error",
                what=f"{place} has no discard support",
                fix="set trim_percent = 0",
            )
            for place in (places if trims else ())
            if (number := device_number(place)) is not None
            and (device := Device(number)).is_there
            and read_fact(device.whole.sysfs / "queue" / "discard_max_bytes") in (None, "0")
        ]


def _narrowed(member: Member, params: BlockParams) -> Member:
    start, length = region_of(params, member.size)
    if params.verify:  # verified blocks begin and end on multiples of the granule
        unit = granule(params)
        skipped = -(member.offset + start) % unit
        start, length = start + skipped, (length - skipped) // unit * unit
    largest = largest_block(params)
    return part_of(member, start, length, largest, f"a block has {largest}")


def _sync(params: BlockParams) -> Sync:
    kind = params.sync
    if kind == "none" and params.final_sync:
        kind = "fsync"  # only at the end, because every_writes is 0
    return Sync(kind=kind, every_writes=params.sync_every, final=params.final_sync)


def _verify(params: BlockParams, context: JobContext) -> Verify | None:
    if not params.verify:
        return None
    return Verify(state=str(context.work_dir / "verify.state"), block=granule(params))
