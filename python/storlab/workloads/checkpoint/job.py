"""The engine's order for checkpoints. ``crates/families/checkpoint`` reads the same JSON.

All sizes in bytes, all times in ns.
"""

from __future__ import annotations

from typing import ClassVar, Literal

from pydantic import Field

from storlab.base.units import NS_PER_S
from storlab.model.job import Job
from storlab.model.place import DataPlace
from storlab.model.types import Table


class CheckpointFile(Table):
    """One file of a checkpoint, and who writes it."""

    name: str  # below the checkpoint's directory; may have slashes
    rank: int = Field(ge=0)
    bytes: int = Field(ge=0)


class CheckpointJob(Job):
    """Checkpoints written one after the other by parallel ranks, then restored.

    Checkpoint ``i`` (from 1) is published as ``checkpoint-<i, 6 digits>`` below the place: written
    aside, every file flushed, directories flushed, renamed, parent flushed. The data comes from a
    bounded pool, unique for each file and checkpoint. The window is the whole job: no ramp.
    """

    kind: ClassVar[str] = "checkpoint"

    task: Literal["run", "clean"] = "run"  # clean: remove the place with all checkpoints in it
    place: DataPlace  # its directory's last component is made where it is missing
    files: list[CheckpointFile]  # none: a client whose ranks write nothing waits for the others
    ranks: int = Field(ge=1)
    first_rank: int = Field(default=0, ge=0)  # its number among those of all clients
    format: Literal["raw", "safetensors"] = "raw"  # safetensors: length, JSON header, data
    writes: int = Field(default=1, ge=0)
    restores: int = Field(default=1, ge=0)  # of the newest one
    interval_ns: int = NS_PER_S
    pause_ns: int = Field(default=0, ge=0)  # of emulated training between two writes
    sync: Literal["none", "fsync"] = "fsync"
    publish: Literal["rename", "in_place"] = "rename"
    keep_last: int | None = None  # older ones are deleted after publishing
    io_bytes: int = 4 << 20
    queue_depth: int = 8  # of each rank
    preallocate: bool = True  # a file gets its whole length before its bytes
    verify: bool = True  # a restore compares every byte
    cold: Literal["direct", "drop", "as_is"] = "direct"  # how a restore gets past the page cache
    part_size: int = 64 << 20  # of multipart uploads, where the place is a bucket
    cpus: list[int] | None = None

    def secrets(self) -> dict[str, str]:
        """The store's credentials, where checkpoints go to a bucket."""
        return self.place.secrets()
