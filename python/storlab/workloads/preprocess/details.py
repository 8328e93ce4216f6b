"""Records for the details of a preprocessing run that an engine reports besides its totals."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pydantic import Field

from storlab.contracts.details import Details, DetailsTable


class MalformedLine(DetailsTable):
    """Example of a line that could not be parsed: its place, reason and beginning."""

    file: str
    line: int
    reason: str
    text: str
    field: int | None = None  # counted from 1; None: the line as a whole


class MalformedLines(DetailsTable):
    """Number of lines that could not be parsed, by reason, with examples."""

    count: int = 0
    by_reason: Mapping[str, int] = Field(default_factory=dict)
    samples: tuple[MalformedLine, ...] = ()  # the first malformed lines


class ClusterWorker(DetailsTable):
    """Worker process of a cluster, with the CPU time and memory that it used for a run."""

    address: str
    host: str = ""
    remote: bool = False  # on another machine than storlab
    units: int = 0
    user_ns: int = 0
    system_ns: int = 0
    lost: bool = False


class ClusterTold(DetailsTable):
    """Cluster that an engine used, with its workers."""

    scheduler: str | None = None  # address; None: processes of this machine
    worker_limit_bytes: int = 0
    worker_peak_bytes: int = 0  # of the worker with the highest peak
    lost_workers: int = 0
    workers: tuple[ClusterWorker, ...] = ()


class OutputDigests(DetailsTable):
    """Digests of a run's output: rows, columns and vocabularies."""

    rows: int
    rows_digest: str  # digest of the rows in order
    dictionary_digest: str  # digest of all vocabularies
    columns: Mapping[str, str] = Field(default_factory=dict)  # digest of each column's values
    bytes: int = 0  # size of the split binary files

    @property
    def identity(self) -> tuple[Any, ...]:
        """Digests to compare: equal for equal outputs."""
        return (self.rows, self.rows_digest, self.dictionary_digest, *sorted(self.columns.items()))


class PreprocessDetails(Details):
    """Report about a preprocessing run: stages, output and workers; incomplete if it failed."""

    rows: int = 0
    lines: int = 0
    input_bytes: int = 0
    output_bytes: int | None = None
    peak_memory_bytes: int = 0
    resumed_parts: int = 0
    malformed: MalformedLines | None = None
    output: OutputDigests | None = None  # None: the output was not read back
    cluster: ClusterTold | None = None
