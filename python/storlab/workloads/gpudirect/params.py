"""Parameters of GPUDirect workloads: fields of a study file with defaults and descriptions."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BeforeValidator, Discriminator, Field, Tag, WithJsonSchema

from storlab.base.units import parse_size
from storlab.model.params import InStudy, Nanoseconds, Params, Sweep
from storlab.model.types import BYTES, SIZE_PATTERN, Size
from storlab.workloads.common.io_fields import (
    REGION_SIZE,
    REGION_START,
    Access,
    ArrivalKind,
    Count,
    Cpus,
    Percent,
    Rate,
    Region,
    numbered,
)
from storlab.workloads.common.random_choice import (
    HOT_ACCESS,
    HOT_SPACE,
    OFFSETS,
    ZIPF_THETA,
    HotAccess,
    HotSpace,
    IoSize,
    OffsetKind,
    Theta,
)


def _read_verify(value: object) -> int:
    """Check how much of each file to compare: return bytes, or 0 for ``false``."""
    if value is True:
        raise ValueError('must be the size to compare of each file, such as "64MiB", or false')
    return 0 if value is False else parse_size(value)  # type: ignore[arg-type]


Verified = Annotated[
    int,
    BYTES,
    BeforeValidator(_read_verify),
    WithJsonSchema(
        {
            "anyOf": [
                {"type": "string", "pattern": SIZE_PATTERN},
                {"type": "integer", "minimum": 0},
                {"const": False},
            ]
        }
    ),
]
_OneSet = Annotated[list[int], Field(min_length=1), numbered("GPU")]
_Sets = Annotated[list[_OneSet], Field(min_length=1)]


def _form_of_gpus(value: object) -> str:
    nested = isinstance(value, list) and value and all(isinstance(item, list) for item in value)
    return "sets" if nested else "set"


Gpus = Annotated[
    _OneSet,
    InStudy(
        Annotated[
            Annotated[_OneSet, Tag("set")] | Annotated[_Sets, Tag("sets")],
            Discriminator(_form_of_gpus),
        ]
    ),
]
"""GPUs of a point; a study may list several such sets to sweep them."""
DataPath = Literal["direct", "bounce", "bounce-overlapped", "host"]
Api = Literal["sync", "batch", "async", "batch-stream"]


class GpuDirectParams(Params):
    """Parameters of one point of a GPUDirect workload."""

    path: Sweep[DataPath] = Field(
        default="direct",
        description="direct: cuFile, storage to GPU memory; bounce: read into pinned host memory, "
        "then copy to the GPU; bounce-overlapped: the next reads run while a copy "
        "does; host: host memory only; swept",
    )
    api: Sweep[Api] = Field(
        default="sync",
        description="cuFile calls of path = direct: sync, batch, or async on a CUDA stream; "
        "batch-stream only with engine = gdsio; swept",
    )
    access: Sweep[Access] = Field(
        default="random",
        description="random offsets, or sequential ones in each worker's own part of its file; "
        "swept",
    )
    block_size: Sweep[IoSize] = Field(
        default="1MiB",  # type: ignore[assignment]
        description='size of a transfer, or weights such as { "64KiB" = 70, "1MiB" = 30 }; a '
        "multiple of 4 KiB for direct, of 512 bytes for the other paths; swept",
    )
    read_percent: Sweep[Percent] = Field(
        default=100.0,
        description="share of reads (storage to GPU); the rest is written (GPU to storage); swept",
    )
    workers: Sweep[Count] = Field(
        default=1, description="threads, each with its own buffers; swept"
    )
    workers_per_file: Count = Field(default=1, description="workers that share a file")
    queue_depth: Sweep[Count | None] = Field(
        default=None,
        description="entries of a batch (at most 128), or transfers in flight per worker with api "
        "= async (default 1) and path = bounce-overlapped (default 2); others have "
        "one; swept",
    )
    gpu: Gpus = Field(
        default=[0],
        description="numbers of the GPUs: worker w uses the one at position w of the list, modulo "
        "its length; [[0], [1], [0, 1]] sweeps sets of GPUs; swept",
        examples=[[0, 1], [[0], [1], [0, 1]]],
    )
    register_buffers: Sweep[bool] = Field(
        default=True,
        description="register GPU buffers with cuFile once before the load; unregistered buffers "
        "cost a copy inside the GPU. The time is reported apart; swept",
    )
    offsets: Sweep[OffsetKind] = OFFSETS
    zipf_theta: Theta = ZIPF_THETA
    hot_space_percent: HotSpace = HOT_SPACE
    hot_access_percent: HotAccess = HOT_ACCESS
    region_start: Region = REGION_START
    region_size: Region | None = REGION_SIZE
    rate_iops: Sweep[Rate | None] = Field(
        default=None,
        description="open loop: transfers per second over all workers, started on time whether or "
        "not earlier ones have ended; swept",
    )
    arrival: ArrivalKind | None = Field(
        default=None, description="spacing of an open loop's transfers; constant by default"
    )
    cpus: Cpus | None = Field(
        default=None,
        description="worker w is pinned to the CPU at position w of this list, modulo its length; "
        "choose CPUs close to the drive and the GPU",
        examples=[[0, 1]],
    )
    total_bytes: Annotated[Size, Field(gt=0)] | None = Field(
        default=None,
        description="end the window after this many bytes over all workers instead of after "
        "runtime",
    )
    verify: Verified = Field(
        default="64MiB",  # type: ignore[assignment]
        description="this much of each file is read before the ramp by the run's own path, copied "
        "back from GPU memory and compared; written data is compared after the "
        "window. A difference fails the run; false is flagged not-compared",
    )
    drain_timeout: Annotated[Nanoseconds, Field(gt=0)] = Field(
        default="30s",  # type: ignore[assignment]
        description="how long to wait for transfers in flight when the load ends",
    )
    cufile_library: str | None = Field(
        default=None,
        description="path of libcufile.so; by default the wheel nvidia-cufile, then the loader's "
        "path, then CUDA_HOME",
    )
    cuda_library: str | None = Field(
        default=None, description="path of libcuda.so, if the loader does not find it"
    )
