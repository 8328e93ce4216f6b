"""Workload family for transfers between storage and GPU memory."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from storlab.base.errors import Problem
from storlab.base.units import NS_PER_S
from storlab.contracts.check import Check
from storlab.contracts.details import Details
from storlab.contracts.family import ClientDetails, Estimate, JobContext
from storlab.contracts.figure import FigureKind
from storlab.contracts.page import Page
from storlab.model.job import Job, Member
from storlab.model.point import Point
from storlab.model.result import Concurrency, Flag, Metric, Proof, RunOutcome
from storlab.model.study import Header, Target, WorkloadSpec
from storlab.workloads.common.in_place import InPlace, window_and_written
from storlab.workloads.common.io_fields import arrival_of
from storlab.workloads.common.random_choice import mean_size, offsets_of, weighted_sizes
from storlab.workloads.common.regions import part_of, region_of
from storlab.workloads.gpudirect.clients import merged_details
from storlab.workloads.gpudirect.details import GpuDirectDetails
from storlab.workloads.gpudirect.figures import GPUDIRECT_FIGURES
from storlab.workloads.gpudirect.gpu_memory import memory_problem
from storlab.workloads.gpudirect.job import GpuDirectJob, Libraries, Mix
from storlab.workloads.gpudirect.libraries import cuda_places, cufile_places
from storlab.workloads.gpudirect.machine.points import examine_here, examine_points
from storlab.workloads.gpudirect.machine.run_facts import path_obstacles, stand_ins
from storlab.workloads.gpudirect.metrics import (
    run_concurrency,
    run_flags,
    run_metrics,
    run_proof,
)
from storlab.workloads.gpudirect.page import GPUDIRECT_PAGE
from storlab.workloads.gpudirect.params import GpuDirectParams
from storlab.workloads.gpudirect.resource_needs import (
    compared_bytes,
    compared_once,
    files_of,
    host_buffer_bytes,
    open_files,
)
from storlab.workloads.gpudirect.rules import (
    depth_of,
    engine_problems,
    longest,
    sharers_of,
    target_problem,
    verified_bytes,
)
from storlab.workloads.gpudirect.spec import ASSUMED_BYTES_S, GpuDirectSpec


class GpuDirectWorkload(InPlace):
    """Workload family for transfers between storage and GPU memory."""

    kind = "gpudirect"
    spec: type[WorkloadSpec] = GpuDirectSpec
    details: type[Details] = GpuDirectDetails
    page: Page = GPUDIRECT_PAGE
    figures: tuple[FigureKind, ...] = GPUDIRECT_FIGURES

    def check(self, params: dict[str, Any], target: Target) -> list[Problem]:
        """Return the problems that prevent a run with these parameters on a target."""
        problem = target_problem(GpuDirectParams.of(params), target)
        return [] if problem is None else [problem]

    def check_machine(self, params: dict[str, Any]) -> list[Problem]:
        """Return a problem if the buffers exceed the memory of a GPU in this machine."""
        problem = memory_problem(GpuDirectParams.of(params))
        return [] if problem is None else [problem]

    def check_engine(self, params: dict[str, Any], engine: str) -> list[Problem]:
        """Return a problem if ``api = "batch-stream"`` is used with an engine other than gdsio."""
        return engine_problems(GpuDirectParams.of(params), engine)

    def estimate(self, point: Point, header: Header, target: Target) -> Estimate:
        """Estimate duration and written bytes of a run.

        The bytes are None if neither a rate nor a total size limits them.
        """
        params = GpuDirectParams.of(point.params)
        writes = 100 - params.read_percent
        mean, rate = mean_size(params.block_size), params.rate_iops
        rated = None if rate is None else rate * mean
        window_ns, written = window_and_written(
            header, params.total_bytes, rated, ASSUMED_BYTES_S, writes
        )
        # Other engines do not compare transferred data with storage.
        compared = compared_bytes(params, target) if point.engine == "native" else 0
        return Estimate(
            duration_ns=header.ramp + window_ns + header.settle,
            bytes_written=written,
            writes=writes > 0,
            layout_files=files_of(params, target) if target.directory is not None else 0,
            write_share=writes / 100,
            reads=params.read_percent > 0,
            buffer_bytes=host_buffer_bytes(params),
            buffer_fields=("block_size", "queue_depth", "workers"),
            open_files=open_files(params, target),
            compared_bytes=compared,
            compared_ns=compared * NS_PER_S // ASSUMED_BYTES_S,
            compared_once=compared_once(point, params, target),
        )

    def job(self, point: Point, context: JobContext) -> GpuDirectJob:
        """Build the job of one run; raise ValueError if a file or device is too small."""
        params, header, target = GpuDirectParams.of(point.params), context.header, context.target
        count = None if target.directory is not None else len(context.members)
        members = [_narrowed(member, params, count) for member in context.members]
        least = min((member.size for member in members), default=0)
        return GpuDirectJob(
            members=members,
            path=params.path,
            api=params.api,
            mix=Mix(read=params.read_percent, write=round(100 - params.read_percent, 9)),
            offsets=offsets_of(params),
            block_sizes=weighted_sizes(params.block_size),
            workers=params.workers,
            workers_per_file=params.workers_per_file,
            queue_depth=depth_of(params),
            gpus=params.gpu,
            register_buffers=params.register_buffers,
            arrival=arrival_of(params.rate_iops, params.arrival),
            cpus=params.cpus,
            verify_bytes=verified_bytes(params, least),
            libraries=Libraries(
                cufile=cufile_places(params.cufile_library),
                cuda=cuda_places(params.cuda_library),
            ),
            direct=target.direct,
            ramp_ns=header.ramp,
            window_ns=header.runtime if params.total_bytes is None else None,
            window_bytes=params.total_bytes,
            interval_ns=min(header.interval, header.runtime),
            drain_timeout_ns=params.drain_timeout,
            seed=context.seed,
        )

    def concurrency(self, point: Point, outcome: RunOutcome) -> Concurrency:
        """Return the concurrency as configured (queue depth times workers) and by Little's law."""
        return run_concurrency(GpuDirectParams.of(point.params), outcome)

    def metrics(self, point: Point, outcome: RunOutcome) -> list[Metric]:
        """Compute throughput, rates, latencies, client CPU, and percentages of bytes by route.

        Routes to the GPU are the kernel's P2PDMA, nvidia-fs, and POSIX through host memory.
        """
        return run_metrics(GpuDirectParams.of(point.params), outcome)

    def proof(self, point: Point, target: Target, outcome: RunOutcome) -> Proof | None:
        """Judge whether the medium served a run; for path = direct, also whether it was direct."""
        return run_proof(GpuDirectParams.of(point.params), target, outcome)

    def flags(self, point: Point, target: Target, outcome: RunOutcome) -> list[Flag]:
        """Return the flags of one run: warnings that a brief shows beside its numbers."""
        return run_flags(GpuDirectParams.of(point.params), target, outcome)

    def merge_details(self, parts: Sequence[ClientDetails]) -> dict[str, Any]:
        """Merge what the clients of a cluster report about a run."""
        return merged_details([GpuDirectDetails.model_validate(part.details) for part in parts])

    def run_facts(self, job: Job, outcome: RunOutcome) -> dict[str, Any]:
        """Return facts about this machine that make a run's numbers doubtful.

        These are stand-ins (emulated parts, such as a library that is not NVIDIA's) and reasons why
        transfers cannot have been direct although counters say so.
        """
        if not isinstance(job, GpuDirectJob) or job.do != "load" or job.path == "host":
            return {}
        details = GpuDirectDetails.of(outcome)
        facts: dict[str, Any] = {"stand_ins": stand_ins(details.libraries)}
        route = details.route
        if job.path == "direct" and route.counted:
            by_nvidia_fs = route.nvfs_bytes > 0
            facts["path_obstacles"] = path_obstacles(job.members, by_nvidia_fs=by_nvidia_fs)
        return facts

    def examine_machine(self, points: Sequence[Point] = ()) -> list[Check]:
        """Check GPUs, libraries and possible data paths of this machine, for ``storlab doctor``."""
        return examine_here(points)

    def examine_target(
        self, target: Target, points: Sequence[Point], places: Sequence[Path]
    ) -> list[Check]:
        """Check whether points fit in GPU memory, and what a target lacks for the direct path."""
        del target
        return examine_points(points, places)


def _narrowed(member: Member, params: GpuDirectParams, members: int | None) -> Member:
    start, length = region_of(params, member.size)
    block, sharers = longest(params), sharers_of(params, members)
    needs = f"{sharers} worker(s) need a block of {block} each"
    return part_of(member, start, length, block * sharers, needs)
