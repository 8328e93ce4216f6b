"""Job of a preprocessing run, as JSON for ``crates/families/preprocess``.

All sizes are in bytes, all times in ns. docs/preprocess.md describes the layout of the output.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal

from pydantic import Field

from storlab.model.job import Job
from storlab.model.types import Table

STAGES = ("ingest", "vocabulary", "encode")
"""Stages in order; each is a kind of operation, and of span for energy."""


@dataclass(frozen=True, slots=True)
class EngineCosts:
    """CPU time and memory that a preprocessing engine needs, declared as its attribute ``costs``.

    The defaults are those of the native engine. CPU time and start-up time are assumptions, to
    estimate the duration of a run.
    """

    base_bytes: int = 0  # memory without any work; 0: negligible
    worker_bytes: int = 0  # additional memory of each worker
    cpu_ns_per_byte: float = 5.0  # per byte of raw data
    start_ns: int = 0  # before the window: start of Python and its libraries


class Clicks(Table):
    """Generated click logs ``day_0`` to ``day_<files - 1>``, which are equal on every machine."""

    rows: int = Field(ge=1)  # over all files; if not divisible, the first files have one more
    files: int = Field(default=1, ge=1)
    seed: int = 1


class PreprocessJob(Job):
    """Job that converts click logs to Parquet, vocabularies and split binary, or generates logs.

    Input files are divided into parts of ``part_bytes``; a part has the lines that start in its
    range. A worker processes one part at a time. A resumed run does not repeat finished parts. The
    measure window covers all stages, without a ramp.
    """

    kind: ClassVar[str] = "preprocess"

    task: Literal["run", "generate", "remove"] = "run"
    inputs: list[str] = Field(default_factory=list)  # for run: absolute paths, in order
    directory: str  # absolute path, created if missing; run: outputs; generate: the data set
    clicks: Clicks | None = None  # for generate
    workers: int = Field(default=1, ge=1)
    part_bytes: int = Field(default=64 << 20, ge=4096)
    row_group_rows: int = Field(default=262_144, ge=1)
    compression: Literal["none", "snappy", "lz4", "zstd"] = "snappy"
    threshold: int = Field(default=15, ge=0)  # rarer categories get id 0
    # Category values are taken modulo this number before they are counted.
    modulo: int | None = Field(default=None, ge=1, le=1 << 32)
    numerical: Literal["float16", "float32"] = "float16"
    malformed: Literal["refuse", "skip"] = "refuse"
    malformed_samples: int = Field(default=20, ge=0)  # most examples of malformed lines
    memory_bytes: int = Field(default=4 << 30, ge=1)
    cold: bool = True  # each stage reads inputs that were dropped from the page cache
    resume: bool = False  # continue the work of an earlier process in ``directory``
    cpus: list[int] | None = None


class ScaledJob(PreprocessJob):
    """Job whose work is done by the workers of a cluster, which must see files at equal paths."""

    scheduler: str | None = None  # address of the scheduler; None: start one
