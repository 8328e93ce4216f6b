"""Job of a GPUDirect run, as JSON for ``crates/families/gpudirect/src/spec.rs``."""

from __future__ import annotations

from pathlib import Path
from typing import Any, ClassVar, Literal, Self

from pydantic import Field, SerializerFunctionWrapHandler, model_serializer

from storlab.model.job import Arrival, CheckedJob, Member, WeightedSize
from storlab.model.types import Table
from storlab.workloads.common.random_choice import Offsets


class Mix(Table):
    """Percentages of reads and writes, according to which each operation's kind is drawn."""

    read: float = Field(ge=0, le=100)
    write: float = Field(ge=0, le=100)


class Libraries(Table):
    """Paths or names of shared libraries; the first that can be loaded is used."""

    cufile: list[str] = Field(default_factory=list)
    cuda: list[str] = Field(default_factory=list)


class GpuDirectJob(CheckedJob):
    """All that an engine needs to know for one GPUDirect run; sizes in bytes, times in ns."""

    kind: ClassVar[str] = "gpudirect"

    do: Literal["load", "probe"] = "load"
    members: list[Member] = Field(default_factory=list)
    path: Literal["direct", "bounce", "bounce-overlapped", "host"] = "direct"
    api: Literal["sync", "batch", "async", "batch-stream"] = "sync"  # batch-stream: only gdsio
    mix: Mix = Mix(read=100, write=0)
    offsets: Offsets = Offsets(kind="uniform")
    block_sizes: list[WeightedSize] = Field(default=[WeightedSize(bytes=1 << 20)], min_length=1)
    workers: int = Field(default=1, ge=1)
    workers_per_file: int = Field(default=1, ge=1)
    queue_depth: int = Field(default=1, ge=1)
    gpus: list[int] = Field(default=[0], min_length=1)
    register_buffers: bool = True
    arrival: Arrival = Arrival()
    cpus: list[int] | None = None  # worker w is pinned to cpus[w % len]
    verify_bytes: int = 0  # bytes of each file to compare before the window; 0: none
    checked: str | None = None  # file with a record of compared files; None: no record
    libraries: Libraries = Libraries()
    direct: bool = True  # whether files are opened with O_DIRECT
    window_ns: int | None = None  # exactly one of window_ns and window_bytes
    window_bytes: int | None = None  # sum over all workers

    @model_serializer(mode="wrap")
    def _as_read(self, dump: SerializerFunctionWrapHandler) -> dict[str, Any]:
        """Rename ``register_buffers`` to ``register``, which no field of a model can be called."""
        order: dict[str, Any] = dump(self)
        order["register"] = order.pop("register_buffers")
        return order

    @property
    def in_batches(self) -> bool:
        """Whether transfers are submitted as batches."""
        return self.api in ("batch", "batch-stream")

    @property
    def longest(self) -> int:
        """Length of the longest transfer in bytes."""
        return max(size.bytes for size in self.block_sizes)

    def remembering(self, path: Path) -> Self:
        """Return a copy with the path of a list of compared files, which are not compared again."""
        return self.model_copy(update={"checked": str(path)})

    def places(self) -> list[Member]:
        """Return the files and devices that the job uses; none if it only probes libraries."""
        return self.members if self.do == "load" else []

    def touches(self) -> list[Member]:
        """Return the files and devices that the job may change: none if it only reads."""
        return self.members if self.mix.write else []
