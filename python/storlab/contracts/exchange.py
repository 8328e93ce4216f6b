"""Results of other tools, read as runs: what an importer promises."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

from storlab.model.result import Metric, RunOutcome
from storlab.model.types import Provenance


@dataclass(frozen=True, slots=True)
class ImportedRun:
    """One run as its file tells it. ``fields`` are those of its workload table in a study."""

    kind: str  # of the workload
    fields: dict[str, Any]
    label: str | None  # of the workload, where the file names one
    target: str  # name, as far as the file tells
    locations: list[str]  # paths of the target, as far as the file tells
    direct: bool | None  # past the page cache; None where the file does not tell
    engine: str  # a registered engine's name
    outcome: RunOutcome
    metrics: list[Metric]  # given ones that cannot be derived again
    started_at: str  # UTC, ISO 8601
    ramp_ns: int
    runtime_ns: int
    provenance: Provenance = "measured"
    clients: int | None = None  # of a cluster, where clients made the load
    facts: dict[str, Any] = field(default_factory=dict)  # of the target, as in a study
    s3: str | None = None  # of a store: endpoint and bucket, as in a study
    params: dict[str, Any] = field(default_factory=dict)  # of the point, beside the fields' own


@runtime_checkable
class FileImporter(Protocol):
    """How one tool's result file is recognised and read. It may be compressed with zstd."""

    name: str
    hint: str  # which file it wants, for who gave another: "the output of `fio ...`"

    def matches(self, text: str) -> bool:
        """True when the text looks like this format: what it starts with, not its name."""
        ...

    def read(self, text: str, file: str) -> list[ImportedRun]:
        """Its runs. Raises ResultError naming the file and the field that is wrong."""
        ...

    def suffix(self, text: str) -> str:
        """Of the name of the copy that a result keeps: .json, .csv."""
        ...

    def cleaned(self, text: str) -> str:
        """The text without secrets that the tool wrote down, for the copy in a result."""
        ...


@runtime_checkable
class DirectoryImporter(Protocol):
    """How one tool's results are found and read that are directories of files."""

    name: str
    main: str  # the file that each run leaves, by which its directory is known

    def directories(self, place: Path) -> list[Path]:
        """Those of runs, in a directory: itself, or below it."""
        ...

    def files(self, directory: Path) -> dict[str, bytes]:
        """The files of a run that are read and kept. Raises OSError."""
        ...

    def read(self, directory: Path, files: dict[str, bytes]) -> list[ImportedRun]:
        """Its runs. Raises ResultError."""
        ...
