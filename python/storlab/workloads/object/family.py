"""Workload family for object storage (S3).

A pool of objects is created before runs, and shared by all runs that need an equal one. Each run
writes below a prefix of its own, which is deleted after the run. Other objects in the bucket are
never touched.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Literal

from storlab.base.errors import Problem
from storlab.base.seeds import derive_seed
from storlab.base.units import NS_PER_S, format_bytes_si
from storlab.contracts.details import Details
from storlab.contracts.family import ClientDetails, DataSet, Estimate, JobContext, Step, Workload
from storlab.contracts.figure import FigureKind
from storlab.contracts.page import Page
from storlab.model.point import Point
from storlab.model.result import Concurrency, Flag, Metric, RunOutcome
from storlab.model.s3 import S3Access
from storlab.model.study import Header, Target, WorkloadSpec
from storlab.workloads.common.groups import estimate_together, points_by_group, seed_of_group
from storlab.workloads.common.io_fields import arrival_of
from storlab.workloads.object.delete_job import BACKOFF_NS, RETRIES, Clear
from storlab.workloads.object.details import ObjectDetails
from storlab.workloads.object.endpoints import merged_endpoints
from storlab.workloads.object.figures import OBJECT_FIGURES
from storlab.workloads.object.job import GroupedObjectJob, Keys, ObjectJob, ObjectMix, Pool
from storlab.workloads.object.metrics import run_concurrency, run_flags, run_metrics
from storlab.workloads.object.page import OBJECT_PAGE
from storlab.workloads.object.params import ObjectParams
from storlab.workloads.object.rules import (
    DELETES,
    POOL_USERS,
    open_connections,
    shares,
    target_problem,
)
from storlab.workloads.object.sizes import mean_size, sizes_of
from storlab.workloads.object.spec import PREPARE_CONCURRENCY, ObjectSpec
from storlab.workloads.object.starter import Starter

# Version of the objects' content. It is part of a pool's name, so that pools with older content,
# which would fail verification, are not used.
CONTENT = 3


class ObjectWorkload(Clear, Starter, Workload):
    """Workload family for requests to object storage."""

    kind = "object"
    fixed_work = False
    spec: type[WorkloadSpec] = ObjectSpec
    details: type[Details] = ObjectDetails
    data_tops: tuple[str, ...] = ("pool",)
    run_tops: tuple[str, ...] = ("run",)
    places: tuple[str, ...] = ("s3",)
    page: Page = OBJECT_PAGE
    figures: tuple[FigureKind, ...] = OBJECT_FIGURES

    def check(self, params: dict[str, Any], target: Target) -> list[Problem]:
        """Return the problems that prevent a run with these parameters on a target."""
        del params
        problem = target_problem(target)
        return [] if problem is None else [problem]

    def estimate(self, point: Point, header: Header, target: Target) -> Estimate:
        """Estimate duration and written bytes of a run.

        The bytes are None if the run has PUTs but no set rate.
        """
        params = ObjectParams.of(point.params)
        every = [_estimate(load, name, header, target) for name, load in params.loads().items()]
        return estimate_together(every) if params.group else every[0]

    def groups(self, point: Point) -> dict[str, Point]:
        """Return a point for each group of requests, by its name; empty if there are none."""
        return points_by_group(point)

    def job(self, point: Point, context: JobContext) -> ObjectJob | GroupedObjectJob:
        """Build the job of one run; raise ValueError if the target has no bucket."""
        params = ObjectParams.of(point.params)
        if not params.group:
            return _job(params, "", context)
        return GroupedObjectJob.of(
            {
                name: _job(load, name, replace(context, seed=seed_of_group(context.seed, index)))
                for index, (name, load) in enumerate(params.loads().items())
            }
        )

    def prepare(self, points: Sequence[Point], context: JobContext) -> list[Step]:
        """Return the steps that create the pools of objects for these points, each pool once."""
        pools: dict[str, tuple[ObjectParams, str]] = {}
        for point in points:
            for group, params in ObjectParams.of(point.params).loads().items():
                if _uses_pool(params):
                    first, own = pools.get(name := _pool_name(params, group), (params, group))
                    most = max(first.concurrency, params.concurrency)
                    pools[name] = first.model_copy(update={"concurrency": most}), own
        return [_fill(params, group, context) for params, group in pools.values()]

    def after(self, point: Point, context: JobContext) -> list[Step]:
        """Return the steps that delete a run's objects and restore pool objects that it deleted."""
        loads = ObjectParams.of(point.params).loads()
        steps: list[Step] = []
        writers = [params for params in loads.values() if "put" in shares(params)]
        if writers:
            text = "deleting what the run wrote"
            steps.append(Step(text, _unmeasured("clean", writers[0], "", context)))
        steps += [
            _fill(params, group, context)
            for group, params in loads.items()
            if DELETES & set(shares(params))
        ]
        return steps

    def merge_details(self, parts: Sequence[ClientDetails]) -> dict[str, Any]:
        """Merge what the clients of a cluster report about a run."""
        told = [ObjectDetails.model_validate(part.details) for part in parts]
        return {
            **parts[0].details,
            "endpoints": merged_endpoints(row for one in told for row in one.endpoints),
        }

    def concurrency(self, point: Point, outcome: RunOutcome) -> Concurrency:
        """Return the requests in flight, as configured and (successful ones) by Little's law."""
        return run_concurrency(ObjectParams.of(point.params), outcome)

    def metrics(self, point: Point, outcome: RunOutcome) -> list[Metric]:
        """Compute rates, latencies, time to first byte, errors, CPU and effective concurrency."""
        return run_metrics(ObjectParams.of(point.params), outcome)

    def flags(self, point: Point, target: Target, outcome: RunOutcome) -> list[Flag]:
        """Return the flags of one run: warnings that a brief shows beside its numbers."""
        return run_flags(ObjectParams.of(point.params), target, outcome)


def _estimate(params: ObjectParams, group: str, header: Header, target: Target) -> Estimate:
    asked = shares(params)
    size = mean_size(params.object_size)
    put = asked.get("put", 0.0) * size
    got = asked.get("get", 0.0) * (params.range_size or size)
    written: int | None = None
    if not put:
        written = 0
    elif params.rate_requests is not None:
        seconds = (header.ramp + header.runtime) / NS_PER_S
        written = round(params.rate_requests * seconds * put / 100)
    return Estimate(
        duration_ns=header.ramp + header.runtime + header.settle,
        bytes_written=written,
        writes=bool(put or DELETES & set(asked)),
        write_share=put / (put + got) if put else 0.0,
        reads=_uses_pool(params),
        data_sets=(_data_set(params, group),) if _uses_pool(params) else (),
        open_files=open_connections(params, target),
    )


def _job(params: ObjectParams, group: str, context: JobContext) -> ObjectJob:
    header = context.header
    access = _s3(context)
    lanes = params.concurrency_per_operation
    threads = params.threads
    return ObjectJob(
        task="run",
        store=access.store,
        pool=_pool(params, group, context) if _uses_pool(params) else None,
        write_prefix=_run_prefix(context),
        sizes=sizes_of(params.object_size),
        mix=ObjectMix() if lanes is not None else ObjectMix(**shares(params)),
        concurrency=params.concurrency,
        lanes=lanes,
        threads=None if threads is None else min(threads, params.concurrency),
        keys=Keys(
            kind=params.keys,
            theta=params.zipf_theta,
            hot_space_percent=params.hot_space_percent,
            hot_access_percent=params.hot_access_percent,
        ),
        join_pool=params.read_written,
        part_size=params.part_size,
        part_concurrency=params.part_concurrency,
        range_size=params.range_size,
        list_max_keys=params.list_max_keys,
        delete_batch=params.delete_batch,
        arrival=arrival_of(params.rate_requests, params.arrival),
        payload=params.payload,
        routing=params.routing,
        request_timeout_ns=params.request_timeout,
        retries=params.retries,
        backoff_ns=params.retry_backoff,
        verify=params.verify,
        ramp_ns=header.ramp,
        window_ns=header.runtime,
        interval_ns=min(header.interval, header.runtime),
        drain_timeout_ns=params.request_timeout,
        seed=context.seed,
    )


def _s3(context: JobContext) -> S3Access:
    if context.access.s3 is None:
        raise ValueError(f"{context.target.name}: object requests need an S3 bucket")
    return context.access.s3


def _uses_pool(params: ObjectParams) -> bool:
    return bool(POOL_USERS & set(shares(params)))


def _pool_name(params: ObjectParams, group: str) -> str:
    """Return the name of a load's pool; loads with equal sizes, number and prefixes share it.

    A group that deletes has a pool of its own, because other groups may read at the same time.
    """
    parts: list[Any] = [
        CONTENT,
        params.object_size,
        params.objects,
        params.prefixes,
        params.part_size,
    ]
    if group and DELETES & set(shares(params)):
        parts.append(group)
    text = json.dumps(parts, sort_keys=True, separators=(",", ":"))
    return f"pool-{hashlib.sha256(text.encode()).hexdigest()[:8]}"


def _pool_bytes(params: ObjectParams) -> int:
    objects: int = params.objects
    return round(mean_size(params.object_size) * objects)


def _data_set(params: ObjectParams, group: str) -> DataSet:
    return DataSet(_pool_name(params, group), _pool_bytes(params), params.objects)


def _pool(params: ObjectParams, group: str, context: JobContext) -> Pool:
    name = _pool_name(params, group)
    return Pool(
        prefix=f"{_s3(context).prefix}{name}/",
        objects=params.objects,
        shards=params.prefixes,
        sizes=sizes_of(params.object_size),
        # independent of target and session, so that pools have equal objects everywhere
        seed=derive_seed(context.header.seed, name),
    )


def _run_prefix(context: JobContext) -> str:
    return f"{_s3(context).prefix}run-{context.run_id}/"


def _fill(params: ObjectParams, group: str, context: JobContext) -> Step:
    total = _pool_bytes(params)
    text = f"making {params.objects:,} objects ({format_bytes_si(total)})"
    return Step(text, _unmeasured("fill", params, group, context), total_bytes=total)


def _unmeasured(
    task: Literal["fill", "clean"], params: ObjectParams, group: str, context: JobContext
) -> ObjectJob:
    """Return a job that creates pool objects or deletes a run's objects.

    It retries failed requests, which is harmless, as it is not measured.
    """
    access = _s3(context)
    pool = _pool(params, group, context) if task == "fill" else None
    return ObjectJob(
        task=task,
        store=access.store,
        pool=pool,
        write_prefix=_run_prefix(context) if pool is None else pool.prefix,
        concurrency=max(PREPARE_CONCURRENCY, params.concurrency),
        part_size=params.part_size,
        part_concurrency=params.part_concurrency,
        payload=params.payload,
        routing=params.routing,
        request_timeout_ns=params.request_timeout,
        retries=RETRIES,
        backoff_ns=BACKOFF_NS,
        drain_timeout_ns=params.request_timeout,
        seed=context.header.seed if pool is None else pool.seed,
    )
