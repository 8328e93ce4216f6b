"""Job of a block I/O run, as JSON for ``crates/families/block/src/spec.rs``."""

from __future__ import annotations

from pathlib import Path
from typing import ClassVar, Literal, Self

from pydantic import Field

from storlab.model.job import Arrival, Member, RereadJob, WeightedSize
from storlab.model.types import Table
from storlab.workloads.block.params import Backend
from storlab.workloads.common.random_choice import Offsets


class Mix(Table):
    """Percentages of reads, writes and trims.

    The kind of each operation is drawn at random, so the actual shares vary.
    """

    read: float = Field(ge=0, le=100)
    write: float = Field(ge=0, le=100)
    trim: float = Field(default=0, ge=0, le=100)


class Sync(Table):
    """Flush interval: a flush after every ``every_writes`` writes of a job, counted separately."""

    kind: Literal["none", "fsync", "fdatasync"] = "none"
    every_writes: int = 0
    final: bool = False


class Payload(Table):
    """Content of written data: incompressible and unique, except for the requested shares."""

    compress_percent: float = Field(default=0, ge=0, le=100)  # share of each 4 KiB that is zeros
    dedupe_percent: float = Field(default=0, ge=0, le=100)  # share of duplicate 4 KiB chunks


class Verify(Table):
    """Verify mode; the file ``state`` keeps issued and acknowledged generations of each block."""

    state: str
    block: int  # verification granule, bytes
    check_reads: bool = True


class BlockJob(RereadJob):
    """Job of one block I/O run, for any engine; all sizes in bytes, all times in ns."""

    kind: ClassVar[str] = "block"

    backend: Backend = "auto"
    layout: Literal["jbod", "stripe", "per_job"] = "jbod"
    stripe_chunk: int | None = None
    direct: bool = True
    jobs: int = Field(ge=1)
    queue_depth: int = Field(ge=1)
    batch: int = Field(default=1, ge=1)  # largest number of I/Os submitted by one system call
    cpus: list[int] | None = None  # job j is pinned to cpus[j % len]
    mix: Mix
    block_sizes: list[WeightedSize] = Field(min_length=1)
    offsets: Offsets
    arrival: Arrival = Arrival()
    sync: Sync = Sync()
    payload: Payload = Payload()
    verify: Verify | None = None
    window_ns: int | None = None  # exactly one of window_ns and window_bytes
    window_bytes: int | None = None  # sum over all jobs

    @property
    def state(self) -> str | None:
        """State file of verify mode; None without verify mode."""
        return None if self.verify is None else self.verify.state

    def with_state(self, path: Path) -> Self:
        """Return the job with another state file; raise ValueError without verify mode."""
        if self.verify is None:
            raise ValueError("the job is not of verify mode")
        return self.model_copy(
            update={"verify": self.verify.model_copy(update={"state": str(path)})}
        )

    def stored(self) -> bytes:
        """Return the job as JSON for later rereads.

        Devices are given by name, because descriptors held for them end with this process.
        """
        members = [
            m.model_copy(update={"path": m.name}) if m.kind == "block_device" else m
            for m in self.members
        ]
        kept = self.model_copy(update={"members": members})
        return (kept.model_dump_json(indent=2) + "\n").encode()

    def touches(self) -> list[Member]:
        """Return the members that the job may change: all if it writes or trims, otherwise none."""
        writes = bool(self.mix.write or self.mix.trim or self.verify is not None)
        return self.members if writes else []
