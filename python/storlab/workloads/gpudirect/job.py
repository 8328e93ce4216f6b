"""The engine's order for transfers to GPU memory.

``crates/families/gpudirect/src/spec.rs`` reads the same JSON.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, ClassVar, Literal, Self

from pydantic import Field, SerializerFunctionWrapHandler, model_serializer

from storlab.model.job import Arrival, CheckedJob, Member, WeightedSize
from storlab.model.types import Table
from storlab.workloads.common.drawn import Offsets


class Mix(Table):
    """Percent of operations by kind. The kind is drawn per operation, so achieved shares vary."""

    read: float = Field(ge=0, le=100)
    write: float = Field(ge=0, le=100)


class Libraries(Table):
    """Shared libraries by path or name, tried in this order."""

    cufile: list[str] = Field(default_factory=list)
    cuda: list[str] = Field(default_factory=list)


class GpuDirectJob(CheckedJob):
    """One run, engine-independent. All sizes in bytes, all times in ns."""

    kind: ClassVar[str] = "gpudirect"

    do: Literal["load", "probe"] = "load"
    members: list[Member] = Field(default_factory=list)
    path: Literal["direct", "bounce", "bounce-overlapped", "host"] = "direct"
    api: Literal["sync", "batch", "async", "batch-stream"] = "sync"  # the last: gdsio alone
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
    verify_bytes: int = 0  # of each file before the window; 0: none
    checked: str | None = None  # file that remembers which were compared; None: nothing does
    libraries: Libraries = Libraries()
    direct: bool = True  # O_DIRECT
    window_ns: int | None = None  # exactly one of window_ns and window_bytes
    window_bytes: int | None = None  # over all workers

    @model_serializer(mode="wrap")
    def _as_read(self, dump: SerializerFunctionWrapHandler) -> dict[str, Any]:
        """With the engine's name ``register``, which classes have of their own."""
        order: dict[str, Any] = dump(self)
        order["register"] = order.pop("register_buffers")
        return order

    @property
    def in_batches(self) -> bool:
        """Whether transfers are handed over as batches."""
        return self.api in ("batch", "batch-stream")

    @property
    def longest(self) -> int:
        """The longest transfer, in bytes."""
        return max(size.bytes for size in self.block_sizes)

    def remembering(self, path: Path) -> Self:
        """What it compares is kept there, and what is there need not be compared."""
        return self.model_copy(update={"checked": str(path)})

    def places(self) -> list[Member]:
        """Return all members of a load."""
        return self.members if self.do == "load" else []

    def touches(self) -> list[Member]:
        """All members, when it writes."""
        return self.members if self.mix.write else []
