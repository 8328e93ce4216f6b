"""Read result files and directories of other tools by the importer that matches them."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field
from pathlib import Path

from storlab.base import zstd
from storlab.base.errors import ResultError
from storlab.base.files import read_input
from storlab.contracts.exchange import DirectoryImporter, FileImporter, ImportedRun
from storlab.contracts.registry import IMPORTERS


@dataclass(frozen=True, slots=True)
class ImportedFile:
    """Result file of another tool, with its runs and the content that the results keep."""

    path: Path
    name: str  # file name of the copy in raw/
    content: bytes  # as in the file, except for removed secrets
    sha256: str  # of the file, or of all kept files of a directory
    runs: list[ImportedRun]
    others: dict[str, bytes] = field(default_factory=dict)  # further files to store in raw/


def _of_files() -> list[FileImporter]:
    return [importer for importer in IMPORTERS.values() if isinstance(importer, FileImporter)]


_READABLE = "give a file or directory of results that exists and that you may read"


def _of_directories() -> list[DirectoryImporter]:
    return [importer for importer in IMPORTERS.values() if isinstance(importer, DirectoryImporter)]


def read_path(path: Path) -> list[ImportedFile]:
    """Read a result file of another tool, or all runs in a directory of its results.

    Raises:
        ResultError: The path cannot be read or its format is unknown.
    """
    if not path.is_dir():
        return [read_file(path)]
    importers = _of_directories()
    for importer in importers:
        imported = [
            _imported_directory(directory, importer) for directory in importer.directories(path)
        ]
        if imported:
            return imported
    known = " or ".join(
        f"{importer.main}, which {importer.name} writes for each run" for importer in importers
    )
    raise ResultError(str(path), f"is a directory without {known}", _fix())


def _imported_directory(directory: Path, importer: DirectoryImporter) -> ImportedFile:
    try:
        files = importer.files(directory)
    except OSError as error:
        what = f"cannot be read: {error.strerror}"
        raise ResultError(str(error.filename or directory), what, _READABLE) from error
    digest = hashlib.sha256(b"".join(name.encode() + files[name] for name in sorted(files)))
    return ImportedFile(
        path=directory,
        name=importer.main,
        content=files[importer.main],
        sha256=digest.hexdigest(),
        runs=importer.read(directory, files),
        others={name: data for name, data in files.items() if name != importer.main},
    )


def read_file(path: Path) -> ImportedFile:
    """Read a result file of another tool, which may be compressed with zstd.

    Raises:
        ResultError: The file cannot be read or its format is unknown.
    """
    try:
        content = read_input(path)
    except OSError as error:
        raise ResultError(str(path), f"cannot be read: {error.strerror}", _READABLE) from error
    try:
        text = zstd.unpacked(content).decode("utf-8")
    except UnicodeDecodeError as error:
        raise ResultError(str(path), "is not text", _fix()) from error
    except ValueError as error:
        raise ResultError(str(path), str(error), _fix()) from error
    for importer in _of_files():
        if importer.matches(text):
            return _imported(path, content, text, importer)
    raise ResultError(str(path), "has a format that storlab cannot read", _fix())


def _imported(path: Path, content: bytes, text: str, importer: FileImporter) -> ImportedFile:
    compressed = content.startswith(zstd.MAGIC)
    clean = importer.cleaned(text)
    kept = content
    if clean != text:
        kept = zstd.packed(clean.encode()) if compressed else clean.encode()
    return ImportedFile(
        path=path,
        name=f"imported{importer.suffix(text)}{'.zst' if compressed else ''}",
        content=kept,
        sha256=hashlib.sha256(content).hexdigest(),
        runs=importer.read(text, str(path)),
    )


def _fix() -> str:
    """Return the fix for an error message, which lists the accepted files and directories."""
    files, directories = _of_files(), _of_directories()
    given = (
        [f"a result file of {' or '.join(importer.name for importer in files)}"] if files else []
    )
    given += [f"a directory of {' or '.join(e.name for e in directories)}"] if directories else []
    hints = [f"of {importer.name}: {importer.hint}" for importer in files]
    return "; ".join([f"give {', or '.join(given)}", *hints])
