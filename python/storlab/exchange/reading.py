"""Find the results in the text of one file, and read each by the importer that matches it."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime

from storlab.base.errors import ResultError, StorlabError
from storlab.base.units import NS_PER_S
from storlab.contracts.exchange import FileImporter, ImportedRun
from storlab.contracts.registry import file_importers
from storlab.exchange.decoding import Decoded, without_prefixes
from storlab.exchange.documents import Document, inner_documents, line_notes, messages_in, split

_DEEPEST = 3  # levels of lists and objects around a result


@dataclass(frozen=True, slots=True)
class ReadDocument:
    """One document of a file, with the importer that read it and its runs."""

    document: Document
    importer: FileImporter
    runs: list[ImportedRun]


@dataclass(slots=True)
class Reading:
    """Results in a file, and the errors of those that cannot be imported."""

    documents: list[ReadDocument] = field(default_factory=list)
    problems: list[ResultError] = field(default_factory=list)


def read_text(text: str, shown: str) -> Reading:
    """Read all results in a text, which may have several documents and other lines.

    Args:
        text: Decoded text of a file.
        shown: Name of the file for messages.
    """
    reading = Reading()
    importers = file_importers()
    for stream in without_prefixes(text):
        found = split(stream.text)
        documents = [
            read for part in found.documents for read in _read(part, shown, importers, reading)
        ]
        if documents:
            fix = "give the complete output of the tool"
            reading.problems += [ResultError(shown, what, fix) for what in found.damaged]
            documents = _without_interim(documents)
            _add_notes(documents[0], [*stream.notes, *_rest_notes(found.rest, importers)])
        else:
            documents = _read_whole(stream, shown, importers, reading)
        reading.documents += documents
    return reading


def _read_whole(
    stream: Decoded, shown: str, importers: Sequence[FileImporter], reading: Reading
) -> list[ReadDocument]:
    """Read a text without JSON documents as a single result."""
    whole = Reading()
    document = Document(stream.text, notes=list(stream.notes))
    documents = _read(document, shown, importers, whole)
    if documents:
        return documents
    reading.problems = reading.problems or whole.problems
    return []


def _rest_notes(lines: list[str], importers: Sequence[FileImporter]) -> list[str]:
    """Return notes on the text between documents, which may be the same results in other form."""
    text = "\n".join(lines)
    for importer in importers:
        if lines and importer.matches(text):
            note = f"the text of {importer.name} beside the JSON is not imported"
            return [note, *line_notes(messages_in(lines))]
    return line_notes(lines)


def _read(
    document: Document,
    shown: str,
    importers: Sequence[FileImporter],
    reading: Reading,
    levels: int = _DEEPEST,
) -> list[ReadDocument]:
    """Read a document or, if no importer can, those inside its JSON; add errors to ``reading``."""
    problem: ResultError | None = None
    for importer in importers:
        if not importer.matches(document.text):
            continue
        try:
            runs = importer.read(document.text, shown)
        except StorlabError as error:
            problem = problem or ResultError(error.where, error.what, error.fix)
        except (ArithmeticError, LookupError, TypeError, ValueError, AttributeError) as error:
            # One damaged file must not end the import of thousands.
            problem = problem or ResultError(
                shown,
                f"is damaged, or storlab's importer of {importer.name} has a defect: {error!r}",
                "give the unchanged output of the tool; if it is, report a defect of storlab",
            )
        else:
            read = ReadDocument(document, importer, runs)
            _add_notes(read, document.notes)
            return [read]
    inside = Reading()
    found: list[ReadDocument] = []
    if levels and document.value is not None:
        for part in inner_documents(document.value):
            part.notes.insert(0, f"the result is in {part.key} of the file's JSON")
            part.notes[:0] = document.notes
            found += _read(part, f"{shown}: {part.key}", importers, inside, levels - 1)
    reading.problems += inside.problems
    if problem is not None and not found and not inside.problems:
        reading.problems.append(problem)
    return found


def _add_notes(read: ReadDocument, notes: Sequence[str]) -> None:
    for run in read.runs:
        run.outcome.notes[:0] = notes


def _without_interim(documents: Sequence[ReadDocument]) -> list[ReadDocument]:
    """Remove interim results, which a tool printed during its run; keep the last ones."""
    kept: list[ReadDocument] = []
    interim = 0
    for read, after in zip(documents, [*documents[1:], None], strict=True):
        if after is not None and _is_interim(read, after):
            interim += 1
            continue
        if interim:
            note = (
                f"the file has {interim + 1} documents of this run; the last one is imported, "
                "because the others were printed while it was under way"
            )
            _add_notes(read, [note])
            interim = 0
        kept.append(read)
    return kept


def _is_interim(read: ReadDocument, after: ReadDocument) -> bool:
    """Return whether the next document is a later result of the same run.

    That is the case if it has the same job and began before this one ended. Times may be rounded to
    seconds, and whether a start includes the ramp is unknown.
    """
    pairs = list(zip(read.runs, after.runs, strict=False))
    return len(read.runs) == len(after.runs) and all(_same_run(*pair) for pair in pairs)


def _same_run(run: ImportedRun, after: ImportedRun) -> bool:
    done = sum(total.operations for total in run.outcome.totals.values())
    if _job(run, exactly=bool(done)) != _job(after, exactly=bool(done)):
        return False
    window_ns = run.outcome.window_end_ns - run.outcome.window_start_ns
    tolerance_ns = min(NS_PER_S, window_ns // 2)
    try:
        begun, later = (datetime.fromisoformat(r.started_at) for r in (run, after))
        between_ns = round((later - begun).total_seconds() * NS_PER_S)
    except (ValueError, TypeError):
        return False
    return between_ns + NS_PER_S >= 0 and between_ns <= window_ns + run.ramp_ns - tolerance_ns


def _job(run: ImportedRun, *, exactly: bool) -> str:
    """Return a key that is equal for all results of one job.

    If ``exactly`` is false, because no I/O was done yet, fields and parameters are ignored.
    """
    job = [run.kind, run.engine, run.target, run.locations, run.label]
    more = [run.fields, run.params, run.clients] if exactly else []
    return json.dumps([*job, *more], sort_keys=True, default=str)
