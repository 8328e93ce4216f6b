"""Job of a training run, as JSON for ``crates/families/training``.

All sizes are in bytes, all times in ns.
"""

from __future__ import annotations

from typing import ClassVar, Literal

from pydantic import Field

from storlab.model.job import Job
from storlab.model.place import DataPlace
from storlab.model.types import Table


class Records(Table):
    """Files of a data set, with names as in DLIO: ``<prefix>_<i>_of_<files>.<format>``.

    Formats: ``npz`` is an uncompressed zip with arrays ``x`` (samples, unsigned bytes) and ``y``
    (labels). ``tfrecord`` has length, masked CRC-32C, payload and CRC for each sample. ``jpeg`` has
    bytes without meaning. The size of a file is drawn from a normal distribution, and depends only
    on the seed and the number of the file.
    """

    format: Literal["npz", "tfrecord", "jpeg"]
    files: int = Field(ge=1)
    samples_per_file: int = Field(default=1, ge=1)
    record_bytes: int = Field(ge=1)
    record_stdev_bytes: int = Field(default=0, ge=0)
    # Size in bytes to which a sample is cut after reading; 0 for no cut.
    resize_bytes: int = Field(default=0, ge=0)
    folder: str = "train"  # below the directory or prefix of the data set
    prefix: str = "img"
    seed: int = 1


class TrainingJob(Job):
    """Job in which emulated accelerators consume batches of samples, or that creates the data set.

    Every accelerator has ``reader_threads`` readers. A reader loads a whole batch at a time, and up
    to ``prefetch / reader_threads`` batches (rounded up) ahead. Batches are consumed in order. The
    measure window covers all epochs, without a ramp.
    """

    kind: ClassVar[str] = "training"

    task: Literal["run", "generate"] = "run"
    place: DataPlace
    records: Records
    accelerators: int = Field(default=1, ge=1)
    # Number of this client's first accelerator, if those of all clients are numbered from 0.
    first_accelerator: int = Field(default=0, ge=0)
    all_accelerators: int = Field(default=0, ge=0)  # of all clients; 0: those of this job
    first_file: int = Field(default=0, ge=0)  # first file that this client creates
    file_step: int = Field(default=1, ge=1)  # distance to the next file that this client creates
    batch: int = Field(default=1, ge=1)
    computation_ns: int = Field(default=0, ge=0)
    reader_threads: int = Field(default=4, ge=1)  # readers of each accelerator
    prefetch: int = Field(default=2, ge=1)  # batches read ahead
    epochs: int = Field(default=1, ge=1)
    max_steps: int | None = None  # of each accelerator in an epoch
    shuffle: Literal["none", "same", "epoch"] = "epoch"  # same: one order for all epochs
    reshard: bool = True  # whether accelerators read other files in each epoch
    barrier: bool = True  # whether accelerators wait for each other after every step
    check: Literal["bytes", "header", "crc"] = "header"  # checks of the data by a reader
    drop_caches: bool = False  # drop the files from the page cache before each epoch
    read_bytes: int = 1 << 20  # size of one I/O
    queue_depth: int = 16  # of each reader
    cpus: list[int] | None = None

    def secrets(self) -> dict[str, str]:
        """Return the credentials of the S3 store; empty if the data set is in a directory."""
        return self.place.secrets()
