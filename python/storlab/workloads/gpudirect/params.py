"""Parameters of ``kind = "gpudirect"``."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BeforeValidator, Discriminator, Field, Tag, WithJsonSchema

from storlab.base.units import parse_size
from storlab.model.params import InStudy, Nanoseconds, Params, Sweep
from storlab.model.types import SIZE_PATTERN, Size
from storlab.workloads.common.drawn import (
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


def _read_verify(value: object) -> int:
    """Validate the size to compare of each file: bytes, or 0 for ``false``."""
    if value is True:
        raise ValueError('say how much of each file is compared, such as "64MiB", or false')
    return 0 if value is False else parse_size(value)  # type: ignore[arg-type]


Verified = Annotated[
    int,
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
        "then copied to the GPU; bounce-overlapped: the next reads go on while a copy runs; host: "
        "host memory only; swept",
    )
    api: Sweep[Api] = Field(
        default="sync",
        description="of cuFile, for path = direct: sync, batch, or async on a CUDA stream; "
        "batch-stream (batches on a stream) is for engine = gdsio, and for no other; swept",
    )
    access: Sweep[Access] = Field(default="random", description="random or sequential; swept")
    block_size: Sweep[IoSize] = Field(
        default="1MiB",  # type: ignore[assignment]
        description='size of a transfer, or weights such as { "64KiB" = 70, "1MiB" = 30 }; swept',
    )
    read_percent: Sweep[Percent] = Field(
        default=100.0,
        description="share of reads (storage to GPU); the rest is written (GPU to storage); swept",
    )
    workers: Sweep[Count] = Field(default=1, description="threads, each with its own buffer; swept")
    workers_per_file: Count = Field(default=1, description="how many workers share a file")
    queue_depth: Sweep[Count | None] = Field(
        default=None,
        description="entries of a batch (at most 128), or transfers in flight of each worker with "
        "api = async (1 by default) and path = bounce-overlapped (2); swept",
    )
    gpu: Gpus = Field(
        default=[0],
        description="numbers of the GPUs: worker w uses the one at w modulo the list's length; a "
        "list of such lists is swept",
        examples=[[0, 1], [[0], [1], [0, 1]]],
    )
    register_buffers: Sweep[bool] = Field(
        default=True,
        description="register GPU buffers with cuFile before the load, as it advises for buffers "
        "that are used again; the time it takes is reported apart; swept",
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
        description="pin worker w to the CPU at w modulo the length of this list",
        examples=[[0, 1]],
    )
    total_bytes: Annotated[Size, Field(gt=0)] | None = Field(
        default=None, description="end the window after so many bytes over all workers"
    )
    verify: Verified = Field(
        default="64MiB",  # type: ignore[assignment]
        description="so much of each file is read before the window of its first run, and again "
        "when it has changed, by the same path, copied back from GPU memory and compared with what "
        "storage holds; false: nothing is",
    )
    drain_timeout: Annotated[Nanoseconds, Field(gt=0)] = Field(
        default="30s",  # type: ignore[assignment]
        description="how long to wait for transfers in flight when the load ends",
    )
    cufile_library: str | None = Field(
        default=None,
        description="path of libcufile.so, where it is not the wheel nvidia-cufile, not in the "
        "loader's path and not below CUDA_HOME",
    )
    cuda_library: str | None = Field(
        default=None, description="path of libcuda.so, where the loader does not find it"
    )
