"""The engine's order for preprocessing. ``crates/families/preprocess`` reads the same JSON.

All sizes in bytes, all times in ns. What lies where in ``output`` stands in docs/preprocess.md.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal

from pydantic import Field

from storlab.model.job import Job
from storlab.model.types import Table

STAGES = ("ingest", "vocabulary", "encode")
"""In order. Each is a kind of operation, and a kind of span."""


@dataclass(frozen=True, slots=True)
class EngineCosts:
    """What an engine of preprocessing takes, by its attribute ``costs``; by default the native one.

    CPU time and start are assumed, to estimate the time of a run before it ran.
    """

    base_bytes: int = 0  # of memory, before there is any work; 0: nothing worth counting
    worker_bytes: int = 0  # that each worker adds
    cpu_ns_per_byte: float = 5.0  # of raw data
    start_ns: int = 0  # before the window: Python and its libraries


class Clicks(Table):
    """A generated data set: ``day_0`` to ``day_<files - 1>``, equal wherever it is made."""

    rows: int = Field(ge=1)  # over all files; the first ones have one more where it does not divide
    files: int = Field(default=1, ge=1)
    seed: int = 1


class PreprocessJob(Job):
    """Raw click logs to Parquet, to vocabularies, to split binary; or the making of click logs.

    Input files are cut into parts of ``part_bytes``: a part owns the lines that start in its range.
    A part is what a worker takes, and what a run that was killed does not do again. There is no
    ramp: the window is the whole of all stages.
    """

    kind: ClassVar[str] = "preprocess"

    task: Literal["run", "generate", "remove"] = "run"
    inputs: list[str] = Field(default_factory=list)  # absolute, in order; of run
    directory: str  # absolute; made where it is missing. run: outputs; generate: the data set
    clicks: Clicks | None = None  # of generate
    workers: int = Field(default=1, ge=1)
    part_bytes: int = Field(default=64 << 20, ge=4096)
    row_group_rows: int = Field(default=262_144, ge=1)
    compression: Literal["none", "snappy", "lz4", "zstd"] = "snappy"
    threshold: int = Field(default=15, ge=0)  # categories seen less often than this get id 0
    modulo: int | None = Field(default=None, ge=1, le=1 << 32)  # of category values, before counts
    numerical: Literal["float16", "float32"] = "float16"
    malformed: Literal["refuse", "skip"] = "refuse"
    malformed_samples: int = Field(default=20, ge=0)  # most that a result holds
    memory_bytes: int = Field(default=4 << 30, ge=1)
    cold: bool = True  # each stage finds its inputs out of the page cache
    resume: bool = False  # go on with what an earlier process left in ``directory``
    cpus: list[int] | None = None


class ScaledJob(PreprocessJob):
    """A run on the workers of a cluster, which see the same files in the same places."""

    scheduler: str | None = None  # address of the one that hands out the work; None: one's own
