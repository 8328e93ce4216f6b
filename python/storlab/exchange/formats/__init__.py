"""Results of other tools, read as runs. One file per format; registered here and nowhere else."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path
from typing import Any, Protocol

from storlab.base.errors import ResultError
from storlab.engines.warp.records import ZSTD_MAGIC, WarpFormatError, packed, unpacked
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
    direct: bool
    engine: str  # a registered engine's name
    outcome: RunOutcome
    metrics: list[Metric]  # given ones that cannot be derived again
    started_at: str  # UTC, ISO 8601
    ramp_ns: int
    runtime_ns: int
    provenance: Provenance = "measured"
    facts: dict[str, Any] = field(default_factory=dict)  # of the target, as in a study
    s3: str | None = None  # of an object workload: endpoint and bucket, as in a study
    params: dict[str, Any] = field(default_factory=dict)  # of the point, beside the fields' own


class ImportFormat(Protocol):
    """How one tool's result file is recognised and read."""

    name: str

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


@dataclass(frozen=True, slots=True)
class ImportedFile:
    """A file of another tool: what a result keeps of it, and its runs."""

    path: Path
    name: str  # of the copy in raw/
    content: bytes  # as the file is, unless it holds a secret
    sha256: str  # of the file; of a directory, of all its files that are kept
    runs: list[ImportedRun]
    others: dict[str, bytes] = field(default_factory=dict)  # further files for raw/


_FORMATS: dict[str, str] = {
    "fio": "storlab.engines.fio.importer:FioImport",
    "warp": "storlab.engines.warp.importer:WarpImport",
}


def format_names() -> list[str]:
    """The registered formats: those of files, and dlio, whose results are directories."""
    return [*_FORMATS, "dlio"]


def read_path(path: Path) -> list[ImportedFile]:
    """A file with its runs, or a directory of DLIO's results: each run in it as one.

    Raises ResultError for what cannot be read or is of no known format.
    """
    if not path.is_dir():
        return [read_file(path)]
    from storlab.engines.dlio import importer as dlio

    found = [_imported_directory(each) for each in dlio.run_directories(path)]
    if not found:
        what = f"is a directory without {dlio.SUMMARY}, which each run of DLIO leaves"
        raise ResultError(str(path), what, _fix())
    return found


def _imported_directory(directory: Path) -> ImportedFile:
    from storlab.engines.dlio import importer as dlio

    try:
        files = dlio.result_files(directory)
    except OSError as error:
        what = f"cannot be read: {error.strerror}"
        raise ResultError(str(error.filename or directory), what) from error
    digest = hashlib.sha256(b"".join(name.encode() + files[name] for name in sorted(files)))
    return ImportedFile(
        path=directory,
        name=dlio.SUMMARY,
        content=files[dlio.SUMMARY],
        sha256=digest.hexdigest(),
        runs=dlio.read_run(directory, files),
        others={name: data for name, data in files.items() if name != dlio.SUMMARY},
    )


def read_file(path: Path) -> ImportedFile:
    """A file with its runs. It may be compressed with zstd, as warp leaves its own.

    Raises ResultError for a file that cannot be read or is of no known format.
    """
    try:
        content = path.read_bytes()
    except OSError as error:
        raise ResultError(str(path), f"cannot be read: {error.strerror}") from error
    try:
        text = unpacked(content).decode("utf-8")
    except WarpFormatError as error:
        raise ResultError(f"{path}: {error.field}", error.what, _fix()) from error
    except UnicodeDecodeError as error:
        raise ResultError(str(path), "is not text", _fix()) from error
    for said in _FORMATS.values():
        module, _, attribute = said.partition(":")
        importer: ImportFormat = getattr(import_module(module), attribute)()
        if importer.matches(text):
            return _imported(path, content, text, importer)
    raise ResultError(str(path), "is of no format that storlab reads", _fix())


def _imported(path: Path, content: bytes, text: str, importer: ImportFormat) -> ImportedFile:
    compressed = content.startswith(ZSTD_MAGIC)
    clean = importer.cleaned(text)
    kept = content
    if clean != text:
        kept = packed(clean.encode()) if compressed else clean.encode()
    return ImportedFile(
        path=path,
        name=f"imported{importer.suffix(text)}{'.zst' if compressed else ''}",
        content=kept,
        sha256=hashlib.sha256(content).hexdigest(),
        runs=importer.read(text, str(path)),
    )


def _fix() -> str:
    return (
        f"give a result file of {' or '.join(_FORMATS)}, or a directory of dlio; of fio: the "
        "output of `fio --output-format=json+ --lat_percentiles=1 job.fio`; of warp: its benchmark "
        "data (.csv.zst, with --full, or .json.zst)"
    )
