"""Resources that a GPUDirect run needs: buffers, open files, and bytes to compare before the load.

The formulas must be those of ``spec.rs``, ``stack.rs`` and ``content.rs`` in the engine.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

from storlab.model.point import Point
from storlab.model.study import Target
from storlab.stores.devices import device_number
from storlab.workloads.common.regions import region_of
from storlab.workloads.gpudirect.params import GpuDirectParams
from storlab.workloads.gpudirect.rules import (
    GRAIN,
    depth_of,
    longest,
    members_of,
    verified_bytes,
)

POOL_BYTES = 4093 * 4096  # pool of the data to write, without the block that is added
LARGE_PAGE = 2 << 20
_BUFFER_GRAIN = 64 << 10
_FILES = {"direct": 2, "bounce": 1, "bounce-overlapped": 3, "host": 1}  # open files of each worker


def host_buffer_bytes(params: GpuDirectParams) -> int:
    """Return the bytes of host memory for all buffers; 0 for the direct path."""
    if params.path == "direct":
        return 0
    least = LARGE_PAGE if params.path == "bounce-overlapped" else 0
    pool = pool_bytes(params) if params.path == "host" else 0
    return max(longest(params) * depth_of(params), least) * params.workers + pool


def pool_bytes(params: GpuDirectParams) -> int:
    """Return the size of the pool of data to write, in bytes; 0 without writes."""
    return POOL_BYTES + longest(params) if params.read_percent < 100 else 0


def worker_gpu_bytes(params: GpuDirectParams) -> int:
    """Return the bytes of one worker's buffers in GPU memory.

    They are for data that is read, and for data that is written with api = async.
    """
    stride, depth = _up(longest(params), GRAIN), depth_of(params)
    if params.path == "direct" and params.api == "async":  # a buffer for each in flight
        return depth * _up(stride, _BUFFER_GRAIN)
    if params.path == "host" or params.read_percent == 0:
        return 0
    return _up(depth * stride, _BUFFER_GRAIN)


def gpu_buffer_bytes(params: GpuDirectParams) -> int:
    """Return the bytes of buffers on the GPU that needs the most."""
    if params.path == "host":
        return 0
    worker, pool = worker_gpu_bytes(params), pool_bytes(params)
    return max(bytes_on(gpu, params.gpu, params.workers, worker, pool) for gpu in set(params.gpu))


def bytes_on(gpu: int, gpus: Sequence[int], workers: int, worker: int, pool: int) -> int:
    """Return the bytes of buffers that a point needs on one GPU.

    Args:
        gpu: Number of the GPU.
        gpus: GPUs that workers use in turn; a number may occur several times.
        workers: Number of workers.
        worker: Bytes per worker that uses the GPU.
        pool: Bytes per occurrence of the GPU in ``gpus``.
    """
    turns = [place for place, number in enumerate(gpus) if number == gpu]
    users = sum(-(-max(0, workers - turn) // len(gpus)) for turn in turns)
    return users * worker + len(turns) * pool


def files_of(params: GpuDirectParams, target: Target) -> int:
    """Return how many files or devices the workers use."""
    groups = -(-params.workers // params.workers_per_file)
    members = members_of(target)
    return groups if members is None else min(groups, members)


def open_files(params: GpuDirectParams, target: Target) -> int:
    """Estimate how many files are open at the same time, including those for comparisons."""
    compared = files_of(params, target) if params.verify and params.read_percent else 0
    return _FILES[params.path] * params.workers + compared


def compared_bytes(params: GpuDirectParams, target: Target) -> int:
    """Return the bytes to read for comparisons before a run if no file was compared earlier.

    Each file is read twice: by the path of the run and by another one.
    """
    if params.read_percent == 0 or params.verify == 0:
        return 0
    wanted = max(params.verify, longest(params))
    length = wanted if target.size is None else region_of(params, target.size)[1]
    return 2 * files_of(params, target) * verified_bytes(params, length)


def compared_once(point: Point, params: GpuDirectParams, target: Target) -> str:
    """Return a key that is equal for runs of which only the first must compare its files.

    The key is empty if every run must compare its own data with storage: if the run writes; on
    devices, because only a file's change time shows that its data is unchanged; and on a cluster,
    because clients keep no record of compared files between runs.
    """
    places = [Path(location) for location in target.locations]
    devices = target.directory is None and any(device_number(place) is not None for place in places)
    if devices or params.read_percent < 100 or point.clients is not None:
        return ""
    way = params.path, params.api, params.register_buffers, params.gpu, depth_of(params) > 1
    part = params.block_size, params.region_start, params.region_size, params.verify
    return json.dumps([*way, *part, params.workers_per_file])


def _up(value: int, grain: int) -> int:
    return -(-value // grain) * grain
