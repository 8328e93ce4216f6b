"""Interfaces of importers, which read results of other tools as runs."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

from storlab.model.result import Metric, RunOutcome
from storlab.model.types import Provenance

UNKNOWN_START = "1970-01-01T00:00:00.000+00:00"
"""Start of an imported run whose file does not record it."""
UNKNOWN_STORE = "http://imported/imported"
"""Endpoint and bucket of an imported run whose file does not record them."""


def assumed_utc(local: datetime) -> tuple[str, list[str]]:
    """Return a local time without zone in ISO 8601 as if it was UTC, and a note on that."""
    zoned = local.replace(tzinfo=UTC).isoformat(timespec="milliseconds")
    return zoned, ["the file has no time zone; UTC is assumed"]


@dataclass(frozen=True, slots=True)
class ImportedRun:
    """Run that was read from another tool's file; ``fields`` are the workload's parameters."""

    kind: str  # kind of the workload
    fields: dict[str, Any]
    label: str | None  # label of the workload, if the file has one
    target: str  # name of the target, if the file has one
    locations: list[str]  # paths of the target, if the file has them
    direct: bool | None  # whether the page cache was bypassed; None if not stated in the file
    engine: str  # name of the tool
    outcome: RunOutcome
    metrics: list[Metric]  # stated metrics that cannot be derived from samples
    started_at: str  # UTC, ISO 8601
    ramp_ns: int
    runtime_ns: int
    provenance: Provenance = "measured"
    clients: int | None = None  # number of clients of a cluster
    facts: dict[str, Any] = field(default_factory=dict)  # facts about the target, as in a study
    runtime_stated: bool = False  # whether runtime_ns is an option of the job, not only its window
    s3: str | None = None  # endpoint and bucket of a store, as in a study
    params: dict[str, Any] = field(default_factory=dict)  # further parameters of the point
    # Format of the file, if the tool writes the same run in several; see `exchange.same_runs`.
    form: str = ""
    zone_assumed: bool = False  # whether a file with a ``form`` has no time zone: UTC is assumed


@runtime_checkable
class FileImporter(Protocol):
    """Interface of importers of one tool's results from the text of a file.

    Subclasses inherit defaults of ``suffix`` and ``cleaned``.
    """

    name: str
    hint: str  # description of the expected file for messages: "the output of `fio ...`"

    def matches(self, text: str) -> bool:
        """Return whether a file's text is in the format of this importer."""
        ...

    def read(self, text: str, file: str) -> list[ImportedRun]:
        """Return the runs of a file; raise ResultError that names the file and the wrong field."""
        ...

    def suffix(self, text: str) -> str:  # noqa: ARG002 (same for every text by default)
        """Return the suffix, such as .json, for the copy of the file in the result directory."""
        return ".txt"

    def cleaned(self, text: str) -> str:
        """Return the text without secrets, for the copy of the file in the result directory.

        By default, the text is returned unchanged.
        """
        return text


@runtime_checkable
class DirectoryImporter(Protocol):
    """Interface of importers of a tool that writes a directory of files for each run."""

    name: str
    # Whether the importer gives different targets different names. If not, run directories in
    # different folders count as different targets, as files do.
    names_targets: bool

    def directories(self, place: Path) -> list[Path]:
        """Return the directories of runs at a path: the path itself, or directories below it."""
        ...

    def files(self, directory: Path) -> dict[str, bytes]:
        """Read the files of a run that storlab parses or keeps; raise OSError on failure."""
        ...

    def read(self, directory: Path, files: dict[str, bytes]) -> list[ImportedRun]:
        """Return the runs of a directory; raise ResultError if a file is invalid."""
        ...
