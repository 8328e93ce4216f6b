"""Job of a checkpoint run, as JSON for ``crates/families/checkpoint``.

All sizes are in bytes, all times in ns.
"""

from __future__ import annotations

from typing import ClassVar, Literal

from pydantic import Field

from storlab.base.units import NS_PER_S
from storlab.model.job import Job
from storlab.model.place import DataPlace
from storlab.model.types import Table


class CheckpointFile(Table):
    """File of a checkpoint: its name, size and the rank that writes it."""

    name: str  # path below the checkpoint's directory; may contain slashes
    rank: int = Field(ge=0)
    bytes: int = Field(ge=0)


class CheckpointJob(Job):
    """Job in which parallel ranks write one checkpoint after the other and then restore.

    Checkpoint ``i`` (from 1) is written under a temporary name. Its files and directories are
    flushed, it is renamed to ``checkpoint-<i, 6 digits>``, and the parent directory is flushed. The
    data comes from a pool of limited size, and is unique for each file and checkpoint. The measure
    window is the whole job, without a ramp.
    """

    kind: ClassVar[str] = "checkpoint"

    task: Literal["run", "clean"] = "run"  # clean: remove the place with all its checkpoints
    place: DataPlace  # the last component of its directory is created if it is missing
    files: list[CheckpointFile]  # empty: this client's ranks only wait for the others
    ranks: int = Field(ge=1)
    first_rank: int = Field(default=0, ge=0)  # number of the first rank among those of all clients
    format: Literal["raw", "safetensors"] = "raw"  # safetensors files: length, JSON header, data
    writes: int = Field(default=1, ge=0)
    restores: int = Field(default=1, ge=0)  # how often the newest checkpoint is restored
    interval_ns: int = NS_PER_S
    pause_ns: int = Field(default=0, ge=0)  # emulated training between two checkpoints
    sync: Literal["none", "fsync"] = "fsync"
    publish: Literal["rename", "in_place"] = "rename"
    keep_last: int | None = None  # number of the newest checkpoints that are not deleted
    io_bytes: int = 4 << 20
    queue_depth: int = 8  # I/Os in flight of each rank
    preallocate: bool = True  # allocate the whole file before writing its data
    verify: bool = True  # whether a restore compares every byte
    cold: Literal["direct", "drop", "as_is"] = "direct"  # how restores avoid the page cache
    part_size: int = 64 << 20  # for multipart uploads to a bucket
    cpus: list[int] | None = None

    def secrets(self) -> dict[str, str]:
        """Return the credentials of the S3 store; empty if checkpoints go to a directory."""
        return self.place.secrets()
