"""Convert an import to lines of text: targets, repeats, notes, and outcomes of files."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from pathlib import PurePath
from typing import Any

from storlab.base.errors import with_fix
from storlab.model.result import RunRecord

IMPORTED_FROM = "imported from "
"""Beginning of the note that names the file of a run."""

_MOST_LINES = 40  # of notes, targets, repeats or reasons
_MOST_NAMES = 5  # files or folders named in one line


def limited(lines: Iterable[str], what: str) -> list[str]:
    """Return the first 40 lines, and a line such as "and 12 more notes" if there are others."""
    every = list(lines)
    more = len(every) - _MOST_LINES
    return every if more <= 0 else [*every[:_MOST_LINES], f"and {more:,} more {what}"]


def report_lines(about: Mapping[str, Any], records: Sequence[RunRecord]) -> list[str]:
    """Return the lines of a report: notes, targets, repeats of a point, outcomes of files.

    Args:
        about: Facts of the import in the environment of the result directory.
        records: Records of all its runs.
    """
    return [
        *limited(_note_lines(records), "notes"),
        *limited(map(_target_line, about["targets"]), "targets"),
        *limited(_repeat_lines(records), "points with repeats"),
        *_outcome_lines(about["outcomes"]),
    ]


def _note_lines(records: Sequence[RunRecord]) -> list[str]:
    counts = Counter(
        note
        for record in records
        for note in dict.fromkeys(record.notes)
        if not note.startswith(IMPORTED_FROM)
    )
    return [
        f"note: {note}" if count == len(records) else f"note of {_number(count, 'run')}: {note}"
        for note, count in counts.items()
    ]


def _target_line(target: Mapping[str, Any]) -> str:
    folders = target["folders"]
    line = f"target {target['name']}: {_number(target['runs'], 'run')} of " + (
        f"{_number(target['files'], 'file')} in {_names(folders)}"
    )
    if len(folders) > 1:
        line += " (one target; to separate them: --target NAME=GLOB)"
    return line


def _repeat_lines(records: Sequence[RunRecord]) -> list[str]:
    points: dict[str, list[RunRecord]] = {}
    for record in records:
        points.setdefault(record.point_id, []).append(record)
    return [
        f"repeats: {len(runs)} runs of {point} ({runs[0].target}): {_names(map(_file, runs))}"
        for point, runs in points.items()
        if len(runs) > 1
    ]


def _file(record: RunRecord) -> str:
    notes = (note for note in record.notes if note.startswith(IMPORTED_FROM))
    return next(notes, "").removeprefix(IMPORTED_FROM)


def _outcome_lines(outcomes: Sequence[Mapping[str, Any]]) -> list[str]:
    counts = Counter(outcome["outcome"] for outcome in outcomes)
    if set(counts) == {"imported"} and not any(outcome["reason"] for outcome in outcomes):
        return []
    lines = ["files: " + ", ".join(f"{number:,} {outcome}" for outcome, number in counts.items())]
    others = Counter[str]()
    by_reason: dict[tuple[str, str, str], list[str]] = {}
    for outcome in outcomes:
        kind, reason, fix = outcome["outcome"], outcome["reason"], outcome["fix"]
        if kind == "skipped" and not fix:
            others[PurePath(outcome["file"]).suffix or "without suffix"] += 1
        elif reason:
            kind = "imported in part" if kind == "imported" else kind
            by_reason.setdefault((kind, reason, fix), []).append(outcome["file"])
    lines += limited(
        (
            with_fix(f"  {kind}: {_names(files)}: {reason}", fix if kind != "duplicate" else "")
            for (kind, reason, fix), files in by_reason.items()
        ),
        "reasons (see --json)",
    )
    if others:
        suffixes = ", ".join(f"{number} {suffix}" for suffix, number in others.most_common())
        lines.append(
            f"  skipped: {_number(others.total(), 'file')} in no known format ({suffixes})"
        )
    return lines


def _number(count: int, noun: str) -> str:
    return f"{count:,} {noun}" + ("" if count == 1 else "s")


def _names(names: Iterable[str]) -> str:
    every = list(dict.fromkeys(names))
    more = len(every) - _MOST_NAMES
    return ", ".join(every[:_MOST_NAMES]) + (f" and {more:,} more" if more > 0 else "")
