"""Read files and run directories of other tools, and record the outcome of each."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Literal

from storlab.base import zstd
from storlab.base.errors import ResultError
from storlab.base.files import open_input, read_input
from storlab.contracts.exchange import DirectoryImporter, ImportedRun
from storlab.contracts.registry import directory_importers, file_importers
from storlab.exchange.decoding import Decoded, compression_of, decoded, unpacked
from storlab.exchange.input_files import InputFile, Inputs, InputTree
from storlab.exchange.reading import ReadDocument, read_text
from storlab.exchange.targets import Parts
from storlab.exchange.unread_formats import recognised

Outcome = Literal["imported", "skipped", "refused", "duplicate"]

_READABLE = "give a file or directory of results that exists and that you may read"
_ONCE = "give each result once, because the same file twice is not a repeat"
_HEAD_BYTES = 65_536


@dataclass(frozen=True, slots=True)
class FileOutcome:
    """Outcome of one file or run directory of an import.

    Attributes:
        file: Path as given by the user, or below a given directory or archive.
        outcome: ``skipped`` files are not results of another tool, ``refused`` ones cannot be
            imported, and a ``duplicate`` has the content of another file.
        runs: Number of imported runs.
        reason: Reason why the file, or a part of it, was not imported.
        fix: Advice for importing it.
    """

    file: str
    outcome: Outcome
    runs: int = 0
    reason: str = ""
    fix: str = ""


@dataclass(slots=True)
class ImportedFile:
    """File or run directory of another tool, with its runs."""

    shown: str  # path as given by the user, or below a given directory or archive
    name: str  # path below the given directory
    sha256: str  # of the file, or of all kept files of a directory
    runs: list[ImportedRun]
    raw: Callable[[int], dict[str, bytes]]  # reads the files to keep of a run, by its index
    folder: Parts | None  # folder that separates targets; None if the importer names them


@dataclass(slots=True)
class Sources:
    """Imported files, the outcome of each file that was read, and the errors of refused ones."""

    files: list[ImportedFile] = field(default_factory=list)
    outcomes: dict[str, FileOutcome] = field(default_factory=dict)  # by path
    errors: list[ResultError] = field(default_factory=list)

    def accept(self, file: ImportedFile, problems: Sequence[ResultError] = ()) -> None:
        """Add an imported file, with the errors of parts of it that cannot be imported."""
        self.files.append(file)
        reasons = dict.fromkeys(_reason(file.shown, problem) for problem in problems)
        reason = "; ".join(reasons)
        fix = problems[0].fix if problems else ""
        self.outcomes[file.shown] = FileOutcome(file.shown, "imported", len(file.runs), reason, fix)

    def refuse(self, shown: str, error: ResultError) -> None:
        """Add a file that cannot be imported."""
        self.errors.append(error)
        self.outcomes[shown] = FileOutcome(shown, "refused", 0, _reason(shown, error), error.fix)

    def skip(self, shown: str, outcome: Outcome, reason: str, fix: str = "") -> None:
        """Add a file that is not imported because it is a duplicate or not a result."""
        self.outcomes[shown] = FileOutcome(shown, outcome, 0, reason, fix)


def _reason(shown: str, error: ResultError) -> str:
    """Return the text of an error without the name of the file."""
    where = error.where.removeprefix(shown).removeprefix(": ")
    return f"{where}: {error.what}" if where else error.what


class SourceReader:
    """Reader of the files to import, which reads files and documents with equal content once."""

    def __init__(self) -> None:
        self.sources = Sources()
        self._files: dict[str, InputFile] = {}  # by SHA-256 of the unpacked content
        self._documents: dict[str, str] = {}  # file by SHA-256 of a document or run directory
        self._parts: set[Path] = set()  # files that were read as parts of a run directory

    def read(self, inputs: Inputs) -> Sources:
        """Read all files and run directories.

        Raises:
            ResultError: Two files that were given by their own paths have the same content.
        """
        for tree in inputs.results:
            fix = f"give it to `storlab compare`: {tree.shown}"
            self.sources.skip(tree.shown, "skipped", "is a result directory of storlab", fix)
        for error in inputs.refused:
            self.sources.refuse(error.where, error)
        run_directories: set[Path] = set()
        for tree in inputs.trees:
            self._read_directories(tree, inputs.results, run_directories)
        for file in inputs.files:
            if file.path not in self._parts:
                self._read_file(file, is_part=not run_directories.isdisjoint(file.path.parents))
        return self.sources

    def _read_directories(
        self, tree: InputTree, results: Sequence[InputTree], taken: set[Path]
    ) -> None:
        """Read the run directories of a tree that are not in ``taken``, and add them to it."""
        own = {result.path for result in results}
        for importer in directory_importers():
            for directory in importer.directories(tree.path):
                if directory in taken or own & {directory, *directory.parents}:
                    continue
                taken.add(directory)
                below = directory.relative_to(tree.path).as_posix()
                shown, name = (
                    whole if below == "." else f"{whole}/{below}"
                    for whole in (tree.shown, tree.name)
                )
                try:
                    content = _directory_content(directory, importer)
                    self._parts |= {directory / part for part in content}
                    imported = _imported_directory(directory, shown, name, importer, content)
                except ResultError as error:
                    where = error.where.replace(str(tree.path), tree.shown)
                    self.sources.refuse(shown, ResultError(where, error.what, error.fix))
                    continue
                same = self._documents.setdefault(imported.sha256, shown)
                if same == shown:
                    self.sources.accept(imported)
                else:
                    self.sources.skip(shown, "duplicate", f"has the same content as {same}", _ONCE)

    def _read_file(self, file: InputFile, *, is_part: bool) -> None:
        """Read a file; ignore its errors if it is part of a run directory."""
        try:
            content = _content(file)
            plain = unpacked(content)
        except ResultError as error:
            self._not_read(file, error, is_part=is_part)
            return
        except ValueError as error:
            self._not_read(file, ResultError(file.shown, str(error), _fix()), is_part=is_part)
            return
        other = self._files.setdefault(hashlib.sha256(plain).hexdigest(), file)
        if other is not file and self._skip_copy(file, other):
            return
        text = decoded(plain)
        if text is None:
            self._not_read(file, ResultError(file.shown, "is not text", _fix()), is_part=is_part)
            return
        self._read_decoded(file, content, text, is_part=is_part)

    def _skip_copy(self, file: InputFile, other: InputFile) -> bool:
        """Return whether a file was left out because it has the content of another one.

        Raises:
            ResultError: The user gave both by their own paths.
        """
        known = self.sources.outcomes.get(other.shown)
        if known is None:  # it belongs to a run directory
            return False
        what = "is given twice" if other.path == file.path else f"has the content of {other.shown}"
        if file.explicit and other.explicit:
            raise ResultError(file.shown, what, _ONCE)
        if known.outcome == "imported":
            self.sources.skip(file.shown, "duplicate", what, _ONCE)
        else:
            self.sources.outcomes[file.shown] = replace(known, file=file.shown)
        return True

    def _read_decoded(
        self, file: InputFile, content: bytes, text: Decoded, *, is_part: bool
    ) -> None:
        reading = read_text(text.text, file.shown)
        if not reading.documents:
            error = reading.problems[0] if reading.problems else _unknown(file, text.text)
            self._not_read(file, error, is_part=is_part, text=text.text)
            return
        documents = [read for read in reading.documents if self._is_new(read, file)]
        left_out = len(reading.documents) - len(documents)
        if not documents:
            what = "has the same results as other files"
            self.sources.skip(file.shown, "duplicate", what, _ONCE)
            return
        notes = list(text.notes)
        if left_out:
            notes.append(f"{left_out} results of the file were left out as duplicates")
        runs = [run for read in documents for run in read.runs]
        for run in runs:
            run.outcome.notes[:0] = notes
        imported = ImportedFile(
            shown=file.shown,
            name=file.name,
            sha256=hashlib.sha256(content).hexdigest(),
            runs=runs,
            raw=_RawFiles(file, content, text.text, documents).of_run,
            folder=_folder(file.shown),
        )
        self.sources.accept(imported, reading.problems)

    def _is_new(self, read: ReadDocument, file: InputFile) -> bool:
        value = read.document.value
        text = read.document.text if value is None else json.dumps(value, sort_keys=True)
        digest = hashlib.sha256(text.encode(errors="surrogatepass")).hexdigest()
        if digest in self._documents:
            return False
        self._documents[digest] = file.shown
        return True

    def _not_read(
        self, file: InputFile, error: ResultError, *, is_part: bool, text: str | None = None
    ) -> None:
        """Record a file that was not imported as skipped or refused.

        Only files that are not results, and were not given by their own paths, are skipped. Files
        of run directories are not recorded.
        """
        if is_part:
            return
        known = recognised(text) if text is not None else None
        no_result = isinstance(error, _NoResultError) and (known is None or not known.is_result)
        if no_result and not file.explicit:
            fix = error.fix if known is not None else ""
            self.sources.skip(file.shown, "skipped", error.what, fix)
        else:
            self.sources.refuse(file.shown, error)


class _NoResultError(ResultError):
    """Error: a file is not a result that one of the importers can read."""


def _directory_content(directory: Path, importer: DirectoryImporter) -> dict[str, bytes]:
    try:
        return importer.files(directory)
    except OSError as error:
        what = f"cannot be read: {error.strerror}"
        raise ResultError(str(error.filename or directory), what, _READABLE) from error


def _imported_directory(
    directory: Path,
    shown: str,
    name: str,
    importer: DirectoryImporter,
    content: Mapping[str, bytes],
) -> ImportedFile:
    digest = hashlib.sha256(b"".join(part.encode() + content[part] for part in sorted(content)))
    return ImportedFile(
        shown=shown,
        name=name,
        sha256=digest.hexdigest(),
        runs=importer.read(directory, dict(content)),
        raw=lambda _: _directory_content(directory, importer),
        folder=None if importer.names_targets else _folder(shown),
    )


def _content(file: InputFile) -> bytes:
    """Read a file; one found in a directory or archive must begin like text or compressed data.

    Raises:
        ResultError: The file cannot be read, or begins like neither.
    """
    try:
        handle = open_input(file.path)
        try:
            head = os.read(handle, _HEAD_BYTES)
        finally:
            os.close(handle)
        if not file.explicit and not compression_of(head) and decoded(head) is None:
            raise _NoResultError(file.shown, "is not text", _fix())
        return read_input(file.path)
    except OSError as error:
        raise ResultError(file.shown, f"cannot be read: {error.strerror}", _READABLE) from error


def _unknown(file: InputFile, text: str) -> ResultError:
    """Return the error for a text that no importer matches; it names the format if recognised."""
    known = recognised(text)
    if known is not None:
        what = f"is {known.what}: storlab does not import it"
        return _NoResultError(file.shown, what, known.fix.replace("FILE", file.shown))
    return _NoResultError(file.shown, "has a format that storlab cannot read", _fix())


def _folder(shown: str) -> Parts:
    """Return the parts of the path of the folder that a file or run directory is in."""
    return Path(os.path.normpath(Path(shown).absolute())).parent.parts


class _RawFiles:
    """Copies of an imported file for the result directory; its content is read again for them."""

    def __init__(
        self, file: InputFile, content: bytes, text: str, documents: Sequence[ReadDocument]
    ) -> None:
        self._file = file
        self._sha256 = hashlib.sha256(content).hexdigest()
        first = documents[0]
        self._suffix = first.importer.suffix(first.document.text)
        self._compression = compression_of(content)
        clean = first.importer.cleaned(text)
        self._clean: bytes | None = None  # the file without secrets, if it has any
        if clean != text:
            self._clean = clean.encode()
            if self._compression:
                self._clean, self._compression = zstd.packed(self._clean), ".zst"
        # The file itself is stored once, with its first run; each run has a copy of its document.
        self._texts: list[tuple[str, str]] = []
        if len(documents) > 1 or first.document.key:
            self._texts = [
                (f"imported{read.importer.suffix(read.document.text)}", clean)
                for read in documents
                for clean in [read.importer.cleaned(read.document.text)] * len(read.runs)
            ]

    def of_run(self, index: int) -> dict[str, bytes]:
        """Return the copies to store with the run of this index, by file name.

        Raises:
            ResultError: The file was changed after it had been read for import.
        """
        if not self._texts:
            return {f"imported{self._suffix}{self._compression}": self._given()}
        name, text = self._texts[index]
        files = {name: text.encode()}
        if index == 0:
            files[f"given{self._suffix}{self._compression}"] = self._given()
        return files

    def _given(self) -> bytes:
        if self._clean is not None:
            return self._clean
        content = _content(self._file)
        if hashlib.sha256(content).hexdigest() != self._sha256:
            what = "was changed while it was imported"
            fix = "import it again when no program writes to it"
            raise ResultError(self._file.shown, what, fix)
        return content


def _fix() -> str:
    """Return the fix for an error message, which lists the accepted files and directories."""
    files, directories = file_importers(), directory_importers()
    given = (
        [f"a result file of {' or '.join(importer.name for importer in files)}"] if files else []
    )
    given += [f"a directory of {' or '.join(e.name for e in directories)}"] if directories else []
    hints = [f"of {importer.name}: {importer.hint}" for importer in files]
    return "; ".join([f"give {', or '.join(given)}", *hints])
