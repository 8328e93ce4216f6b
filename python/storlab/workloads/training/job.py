"""The engine's order for training reads. ``crates/families/training`` reads the same JSON.

All sizes in bytes, all times in ns.
"""

from __future__ import annotations

from typing import ClassVar, Literal

from pydantic import Field

from storlab.model.job import Job
from storlab.model.place import DataPlace
from storlab.model.types import Table


class Records(Table):
    """The files of a data set, named as DLIO names them: ``<prefix>_<i>_of_<files>.<format>``.

    ``npz``: a stored zip with arrays ``x`` (the records, unsigned bytes) and ``y`` (labels);
    ``tfrecord``: length, masked CRC-32C, payload, CRC; ``jpeg``: plain bytes of the nominal size.
    Sizes are drawn from a normal distribution for each file, from the seed and its number alone.
    """

    format: Literal["npz", "tfrecord", "jpeg"]
    files: int = Field(ge=1)
    samples_per_file: int = Field(default=1, ge=1)
    record_bytes: int = Field(ge=1)
    record_stdev_bytes: int = Field(default=0, ge=0)
    resize_bytes: int = Field(default=0, ge=0)  # what a sample is cut to after reading; 0: not
    folder: str = "train"  # below the place
    prefix: str = "img"
    seed: int = 1


class TrainingJob(Job):
    """N emulated accelerators that consume batches at their cadence, or the data set's generation.

    Every accelerator has ``reader_threads`` readers; one reader loads a whole batch at a time;
    batches are delivered in order; each reader is ``prefetch / reader_threads``, rounded up,
    batches ahead. The window is the whole of all epochs: there is no ramp.
    """

    kind: ClassVar[str] = "training"

    task: Literal["run", "generate"] = "run"
    place: DataPlace
    records: Records
    accelerators: int = Field(default=1, ge=1)
    first_accelerator: int = Field(default=0, ge=0)  # its number among those of all clients
    all_accelerators: int = Field(default=0, ge=0)  # of all clients; 0: those of this order
    first_file: int = Field(default=0, ge=0)  # to be made by this one of several clients ...
    file_step: int = Field(default=1, ge=1)  # ... and so far lies the next of its files
    batch: int = Field(default=1, ge=1)
    computation_ns: int = Field(default=0, ge=0)
    reader_threads: int = Field(default=4, ge=1)  # of each accelerator
    prefetch: int = Field(default=2, ge=1)  # batches
    epochs: int = Field(default=1, ge=1)
    max_steps: int | None = None  # of an epoch, for each accelerator
    shuffle: Literal["none", "same", "epoch"] = "epoch"  # same: one order for all epochs
    reshard: bool = True  # accelerators read other files in each epoch
    barrier: bool = True  # accelerators wait for each other after every step
    check: Literal["bytes", "header", "crc"] = "header"  # what a reader does with what it read
    drop_caches: bool = False  # of the data set's files, before each epoch
    read_bytes: int = 1 << 20  # of one I/O
    queue_depth: int = 16  # I/Os in flight of one reader
    cpus: list[int] | None = None

    def secrets(self) -> dict[str, str]:
        """The store's credentials, where the data set lies in a bucket."""
        return self.place.secrets()
