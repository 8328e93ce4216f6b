"""Job of a block I/O run, as JSON for ``crates/families/block/src/spec.rs``."""

from __future__ import annotations

from pathlib import Path
from typing import ClassVar, Literal, Self

from pydantic import Field

from storlab.model.job import Arrival, GroupedJob, Member, RereadJob, WeightedSize
from storlab.model.types import Table
from storlab.workloads.block.params import Backend
from storlab.workloads.common.random_choice import Offsets


class Mix(Table):
    """Percentages of reads, writes and trims.

    The kind of each operation is drawn at random, so measured percentages differ a little.
    """

    read: float = Field(ge=0, le=100)
    write: float = Field(ge=0, le=100)
    trim: float = Field(default=0, ge=0, le=100)


class Sync(Table):
    """Flushes of a job: after every ``every_writes`` writes (0: none); ``final``: at the end."""

    kind: Literal["none", "fsync", "fdatasync"] = "none"
    every_writes: int = 0
    final: bool = False


class Payload(Table):
    """Content of written data: which fractions are compressible or duplicates."""

    compress_percent: float = Field(default=0, ge=0, le=100)  # share of each 4 KiB that is zeros
    dedupe_percent: float = Field(default=0, ge=0, le=100)  # share of duplicate 4 KiB chunks


class Verify(Table):
    """Verify mode; the file ``state`` records the writes sent and confirmed for each block."""

    state: str
    block: int  # verification granule, bytes
    check_reads: bool = True


class BlockJob(RereadJob):
    """All that an engine needs to know for one run of block I/O; sizes in bytes, times in ns."""

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
        """Path of the state file of verify mode; None without verify mode."""
        return None if self.verify is None else self.verify.state

    def with_state(self, path: Path) -> Self:
        """Return a copy with another state file; raise ValueError without verify mode."""
        if self.verify is None:
            raise ValueError("the job has no state file: verify mode is off")
        return self.model_copy(
            update={"verify": self.verify.model_copy(update={"state": str(path)})}
        )

    def stored(self) -> bytes:
        """Return the job as JSON, from which a later process can verify the data.

        Devices are named by path, because file descriptors are valid in this process only.
        """
        members = [
            m.model_copy(update={"path": m.name}) if m.kind == "block_device" else m
            for m in self.members
        ]
        kept = self.model_copy(update={"members": members})
        return (kept.model_dump_json(indent=2) + "\n").encode()

    def touches(self) -> list[Member]:
        """Return the files and devices that the job may change: none if it only reads."""
        writes = bool(self.mix.write or self.mix.trim or self.verify is not None)
        return self.members if writes else []


class GroupedBlockJob(GroupedJob[BlockJob]):
    """Job of a run with groups of jobs, which have the same times and backend."""

    kind: ClassVar[str] = "block"

    @property
    def jobs(self) -> int:
        """Return the number of jobs of all groups."""
        return sum(group.job.jobs for group in self.groups)

    def stored(self) -> bytes:
        """Return the job as JSON; devices are named by path instead of by file descriptor."""
        groups = [
            group.model_copy(update={"job": BlockJob.model_validate_json(group.job.stored())})
            for group in self.groups
        ]
        kept = self.model_copy(update={"groups": groups})
        return (kept.model_dump_json(indent=2) + "\n").encode()

    def touches(self) -> list[Member]:
        """Return the files and devices that a group may change."""
        return [member for group in self.groups for member in group.job.touches()]

    def places(self) -> list[Member]:
        """Return each file or device with the smallest region that contains those of all groups."""
        parts: dict[str, Member] = {}
        for member in (member for group in self.groups for member in group.job.members):
            known = parts.setdefault(member.path, member)
            start = min(known.offset, member.offset)
            end = max(known.offset + known.size, member.offset + member.size)
            parts[member.path] = known.model_copy(update={"offset": start, "size": end - start})
        return list(parts.values())
