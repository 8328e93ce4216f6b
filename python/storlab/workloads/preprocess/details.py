"""What engines tell of a run of preprocessing."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pydantic import Field

from storlab.contracts.details import Details, Told


class MalformedLine(Told):
    """A sample."""

    file: str
    line: int
    reason: str
    text: str
    field: int | None = None  # from 1; None: of the line as a whole


class MalformedLines(Told):
    """Lines that are no rows."""

    count: int = 0
    by_reason: Mapping[str, int] = Field(default_factory=dict)
    samples: tuple[MalformedLine, ...] = ()  # the first ones


class ClusterWorker(Told):
    """A process of a cluster, and what it used for the run as it measured that."""

    address: str
    host: str = ""
    remote: bool = False  # on another machine than storlab
    units: int = 0
    user_ns: int = 0
    system_ns: int = 0
    lost: bool = False


class ClusterTold(Told):
    """Who did the work, where an engine has it done by a cluster."""

    scheduler: str | None = None  # None: of processes of this machine
    worker_limit_bytes: int = 0
    worker_peak_bytes: int = 0  # of the one that took most
    lost_workers: int = 0
    workers: tuple[ClusterWorker, ...] = ()


class OutputDigests(Told):
    """What identifies what came out."""

    rows: int
    rows_digest: str  # of the rows in order
    dictionary_digest: str  # of all vocabularies
    columns: Mapping[str, str] = Field(default_factory=dict)  # a digest of each column's values
    bytes: int = 0  # of the split binary files

    @property
    def identity(self) -> tuple[Any, ...]:
        """Equal for equal outputs."""
        return (self.rows, self.rows_digest, self.dictionary_digest, *sorted(self.columns.items()))


class PreprocessDetails(Details):
    """Of a whole run; of one that failed only what was known by then."""

    rows: int = 0
    lines: int = 0
    input_bytes: int = 0
    output_bytes: int | None = None
    peak_memory_bytes: int = 0
    resumed_parts: int = 0
    malformed: MalformedLines | None = None
    output: OutputDigests | None = None  # None: nothing read it again
    cluster: ClusterTold | None = None

    @property
    def resumed(self) -> frozenset[str]:
        """Names of the stages of which an earlier process did a part."""
        return frozenset(stage.name for stage in self.stages if stage.resumed_parts)
