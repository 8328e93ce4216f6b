"""Checks of a GPUDirect workload's parameters: do they fit together, and do they fit a target?"""

from __future__ import annotations

from collections.abc import Iterable

from storlab.base.errors import Problem
from storlab.model.study import Target
from storlab.workloads.common.io_fields import arrival_problems
from storlab.workloads.common.random_choice import offset_problems, sizes_of
from storlab.workloads.common.regions import (
    alignment_problem,
    directory_problem,
    room_problem,
    sector_of,
    size_problems,
)
from storlab.workloads.common.skew import needless
from storlab.workloads.gpudirect.params import GpuDirectParams

BATCH_APIS = ("batch", "batch-stream")
BATCH_MAX = 128  # largest batch of cuFileBatchIOSetUp
DEPTH_MAX = 4096  # limit of the engine
GRAIN = 4096  # alignment for direct transfers: cuFile moves unaligned parts through host memory
OVERLAPPED_DEPTH = 2  # copy k runs while part k+1 is read


def depth_of(params: GpuDirectParams) -> int:
    """Return the transfers in flight per worker; 1 for paths without a queue depth."""
    if not has_depth(params):
        return 1
    usual = OVERLAPPED_DEPTH if params.path == "bounce-overlapped" else 1
    return usual if params.queue_depth is None else params.queue_depth


def has_depth(params: GpuDirectParams) -> bool:
    """Return whether a worker can have several transfers in flight."""
    if params.path == "direct":
        return params.api != "sync"
    return params.path == "bounce-overlapped"


def needless_fields(params: GpuDirectParams) -> list[str]:
    """Return the fields that have no effect at a point because of its other parameters."""
    named = needless(params.offsets)
    if params.path == "host":
        named = [*named, "gpu"]
    return named if params.path == "direct" else [*named, "api", "register_buffers"]


def longest(params: GpuDirectParams) -> int:
    """Return the largest transfer size in bytes, which is the size of every buffer."""
    return max(sizes_of(params.block_size))


def combination_problems(values: list[GpuDirectParams], given: set[str]) -> list[Problem]:
    """Check whether the parameters of a workload fit together; return the problems.

    Args:
        values: Parameters of each point of the workload.
        given: Names of the fields that the study sets.
    """
    return [
        *_needless_problems(values, given),
        *_depth_problems(values, given),
        *size_problems(values, longest),
    ]


def _needless_problems(values: list[GpuDirectParams], given: set[str]) -> Iterable[Problem]:
    """Yield a problem for each field of a feature that the workload does not use."""
    paths = {v.path for v in values}
    if "direct" not in paths:
        for name in ("api", "register_buffers", "cufile_library"):
            if name in given:
                yield Problem(
                    (name,),
                    f"applies only to cuFile, but path is {_words(paths)}",
                    f'add "direct" to path, or remove {name}',
                )
    if paths == {"host"}:
        for name in ("gpu", "cuda_library"):
            if name in given:
                yield Problem(
                    (name,),
                    "has no effect: path = host does not use a GPU",
                    f"add another path, or remove {name}",
                )
    yield from offset_problems({v.offsets for v in values}, given)
    yield from arrival_problems(values[0].arrival, values[0].rate_iops, "rate_iops = 1000")


def _words(names: Iterable[str]) -> str:
    return " and ".join(sorted(names))


def _depth_problems(values: list[GpuDirectParams], given: set[str]) -> Iterable[Problem]:
    deep = [v for v in values if has_depth(v)]
    several = [v for v in values if v.queue_depth is not None and v.queue_depth > 1]
    if "queue_depth" in given and several and not deep:
        yield Problem(
            ("queue_depth",),
            "has no effect: with api = sync, path = bounce or path = host, each worker has one "
            "transfer in flight",
            'set api = "batch" or "async", or path = "bounce-overlapped"; or raise workers instead',
        )
    for v in deep:
        most = BATCH_MAX if v.path == "direct" and v.api in BATCH_APIS else DEPTH_MAX
        if depth_of(v) > most:
            holder = "a batch of cuFile has" if most == BATCH_MAX else "a worker has"
            yield Problem(
                ("queue_depth",),
                f"{holder} at most {most:,} entries, not {depth_of(v):,}",
                f"set queue_depth to at most {most:,}, and raise workers for more in flight",
            )
            return


def engine_problems(params: GpuDirectParams, engine: str) -> list[Problem]:
    """Return a problem if ``api = "batch-stream"`` is used with an engine other than gdsio."""
    if params.path != "direct" or params.api != "batch-stream" or engine == "gdsio":
        return []
    what = f"batch-stream is an API of gdsio only, but the engine is {engine}"
    fix = 'set engine = "gdsio" in [study] or in this [[workload]], or remove batch-stream'
    return [Problem(("api",), what, fix)]


def target_problem(params: GpuDirectParams, target: Target) -> Problem | None:
    """Return the problem that prevents a point from running on a target; None if it can run."""
    if target.is_null:
        return Problem(
            ("path",), 'the target "null:" has no data for a GPU', "use a file or a directory"
        )
    if target.layout == "stripe":
        return Problem(
            ("layout",),
            "stripe is not possible, as each worker has a file or device of its own",
            "remove layout, or combine the devices by RAID and use a file system on it",
        )
    return (
        directory_problem(target, "48GB")
        or _alignment_problem(params, target)
        or room_problem(params, target, longest(params), sharers_of(params, members_of(target)))
    )


def _alignment_problem(params: GpuDirectParams, target: Target) -> Problem | None:
    if params.path == "direct" and not target.direct:
        return Problem(
            ("direct",),
            "direct transfers by cuFile need files that are opened with O_DIRECT",
            "remove direct = false, or use another path",
        )
    if not target.direct:
        return None
    sizes = sizes_of(params.block_size)
    grain = GRAIN if params.path == "direct" else sector_of(target, sizes)
    fields = {
        "block_size": next((size for size in sizes if size % grain), None),
        "region_start": params.region_start,
        "offset": target.offset,
    }
    if params.path == "direct":
        return alignment_problem(fields, GRAIN, "as direct transfers need", "use such a size")
    return alignment_problem(fields, grain)


def members_of(target: Target) -> int | None:
    """Return the number of files or devices of a target.

    None for a directory, in which as many files as needed are created.
    """
    return None if target.directory is not None else len(target.locations)


def sharers_of(params: GpuDirectParams, members: int | None) -> int:
    """Return the largest number of workers that share a file or device for sequential access.

    Each of them gets a part of the file. For random access it is 1, as no parts are needed.
    """
    if params.access == "random":
        return 1
    groups = -(-params.workers // params.workers_per_file)
    rounds = 1 if members is None else -(-groups // members)
    return min(params.workers, params.workers_per_file * rounds)


def verified_bytes(params: GpuDirectParams, length: int) -> int:
    """Return how many bytes of a file of ``length`` bytes are compared; 0 if verify is off.

    These are whole blocks, at least one.
    """
    if params.verify == 0:
        return 0
    block = longest(params)
    return min(max(params.verify, block), length) // block * block
