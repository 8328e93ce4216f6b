"""The engine's order for block I/O. ``crates/families/block/src/spec.rs`` reads the same JSON."""

from __future__ import annotations

from pathlib import Path
from typing import ClassVar, Literal, Self

from pydantic import Field

from storlab.model.job import Arrival, Member, RereadJob, WeightedSize
from storlab.model.types import Table
from storlab.workloads.block.params import Backend
from storlab.workloads.common.drawn import Offsets


class Mix(Table):
    """Percent of operations by kind. The kind is drawn per operation, so achieved shares vary."""

    read: float = Field(ge=0, le=100)
    write: float = Field(ge=0, le=100)
    trim: float = Field(default=0, ge=0, le=100)


class Sync(Table):
    """Flush cadence: after every ``every_writes`` writes of a job. Flushes are counted apart."""

    kind: Literal["none", "fsync", "fdatasync"] = "none"
    every_writes: int = 0
    final: bool = False


class Payload(Table):
    """What is written: incompressible and unique, unless a share is asked to be otherwise."""

    compress_percent: float = Field(default=0, ge=0, le=100)  # share of each 4 KiB that is zeros
    dedupe_percent: float = Field(default=0, ge=0, le=100)  # share of 4 KiB chunks that repeat


class Verify(Table):
    """Verify mode. ``state``: file that keeps each block's issued and acknowledged generation."""

    state: str
    block: int  # verification granule, bytes
    check_reads: bool = True


class BlockJob(RereadJob):
    """One run of block I/O, engine-independent. All sizes in bytes, all times in ns."""

    kind: ClassVar[str] = "block"

    backend: Backend = "auto"
    layout: Literal["jbod", "stripe", "per_job"] = "jbod"
    stripe_chunk: int | None = None
    direct: bool = True
    jobs: int = Field(ge=1)
    queue_depth: int = Field(ge=1)
    batch: int = Field(default=1, ge=1)  # most I/Os handed over by one system call
    cpus: list[int] | None = None  # job j is pinned to cpus[j % len]
    mix: Mix
    block_sizes: list[WeightedSize] = Field(min_length=1)
    offsets: Offsets
    arrival: Arrival = Arrival()
    sync: Sync = Sync()
    payload: Payload = Payload()
    verify: Verify | None = None
    window_ns: int | None = None  # exactly one of window_ns and window_bytes
    window_bytes: int | None = None  # over all jobs

    @property
    def state(self) -> str | None:
        """Of verify mode."""
        return None if self.verify is None else self.verify.state

    def with_state(self, path: Path) -> Self:
        """Its state in that file. Raises ValueError for a job that is not of verify mode."""
        if self.verify is None:
            raise ValueError("the job is not of verify mode")
        return self.model_copy(
            update={"verify": self.verify.model_copy(update={"state": str(path)})}
        )

    def stored(self) -> bytes:
        """Devices by their names, since the held file is gone with its process."""
        members = [
            m.model_copy(update={"path": m.name}) if m.kind == "block_device" else m
            for m in self.members
        ]
        kept = self.model_copy(update={"members": members})
        return (kept.model_dump_json(indent=2) + "\n").encode()

    def touches(self) -> list[Member]:
        """All members, when it writes or trims."""
        writes = bool(self.mix.write or self.mix.trim or self.verify is not None)
        return self.members if writes else []
