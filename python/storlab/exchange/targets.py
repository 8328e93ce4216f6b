"""Name the targets of imported runs by option, or by file, folder, paths and settings."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from pathlib import Path

from storlab.base.errors import UsageError
from storlab.base.units import format_size
from storlab.contracts.exchange import ImportedRun

Parts = tuple[str, ...]  # parts of a path
_Setting = tuple[bool | None, int | None]  # direct I/O (None if unknown), size in bytes

_PAGE_CACHE = {True: "direct", False: "cached", None: "page cache unknown"}
_RUN_FOLDER = re.compile(
    r"(?:(?:run|rep|repeat|repetition|iter|iteration|trial|attempt|round|pass)[-_. ]?)?\d{1,3}"
    r"|\d{4}-?\d\d-?\d\d(?:[T_ -]*\d\d[-:._]?\d\d(?:[-:._]?\d\d)?)?",
    re.IGNORECASE,
)
"""Name of a folder for one repeat: a number (run1, rep-2, 3), or the time of the run."""


@dataclass(frozen=True, slots=True)
class LocatedRun:
    """Imported run with the path of its file, as the user gave it.

    ``folder`` is None if the importer names targets itself, because its tool writes a directory
    for each run.
    """

    run: ImportedRun
    path: str
    folder: Parts | None


def named_targets(
    options: str | Sequence[str] | None, runs: Sequence[LocatedRun]
) -> list[ImportedRun]:
    """Return the runs with the target names that the options ``--target`` set.

    Args:
        options: ``NAME`` for all runs, or ``NAME=GLOB`` for those of matching files. A glob must
            match the whole path, its end, or a folder in it.
        runs: Imported runs; those without an option are named by ``separate_targets``.

    Raises:
        UsageError: A name or glob is empty, a glob matches no file, a file matches two globs, or
            two names apply to all runs.
    """
    given = [options] if isinstance(options, str) else list(options or ())
    for option in given:
        name, equals, pattern = option.partition("=")
        if not name.strip() or (equals and not pattern.strip()):
            missing = "no glob after =" if name.strip() else "no name"
            fix = 'write --target "1x SSD", or --target "1x SSD=drive1/*" for some of the files'
            raise UsageError(f"--target {option}".rstrip(), f"has {missing}", fix)
    globs = [tuple(option.split("=", 1)) for option in given if "=" in option]
    names = [option for option in given if "=" not in option]
    if len(names) > 1:
        what = f"{' and '.join(names)} both apply to all files"
        raise UsageError("--target", what, "name files with --target NAME=GLOB")
    chosen = _by_globs(globs, dict.fromkeys(run.path for run in runs))
    if names:
        return [replace(run.run, target=chosen.get(run.path, names[0])) for run in runs]
    others = iter(separate_targets([run for run in runs if run.path not in chosen]))
    return [
        replace(run.run, target=chosen[run.path]) if run.path in chosen else next(others)
        for run in runs
    ]


def _by_globs(
    globs: Sequence[tuple[str, ...]], paths: Sequence[str] | dict[str, None]
) -> dict[str, str]:
    """Return the target name of each path that matches a glob."""
    chosen: dict[str, str] = {}
    for name, pattern in globs:
        matching = [path for path in paths if _matches(path, pattern)]
        if not matching:
            what = f'"{pattern}" matches none of the imported files'
            fix = f"use a part of their paths, such as {next(iter(paths), 'drive1/*')}"
            raise UsageError(f"--target {name}={pattern}", what, fix)
        for path in matching:
            if chosen.setdefault(path, name) != name:
                what = f"{path} is also in the target {chosen[path]}"
                raise UsageError(
                    f"--target {name}={pattern}", what, "use globs that do not overlap"
                )
    return chosen


def _matches(path: str, pattern: str) -> bool:
    pattern = pattern.rstrip("/")
    return any(
        fnmatchcase(path, before + pattern + after) for before in ("", "*/") for after in ("", "/*")
    )


def separate_targets(runs: Sequence[LocatedRun]) -> list[ImportedRun]:
    """Return the runs with different target names for different targets.

    Targets are different if the paths, the use of the page cache or the size differ. They are also
    different if the files are from different folders, unless the folders are numbered runs. If
    several targets have the same name, parts of paths or settings are added: ``a/x`` and ``b/x`` if
    both were called ``x``. The new name depends on the other imported files, so a note is added to
    the run.
    """
    groups: dict[str, list[int]] = {}
    for index, located in enumerate(runs):
        groups.setdefault(located.run.target, []).append(index)
    named = [located.run for located in runs]
    for target, members in groups.items():
        names = _names(target, [runs[index] for index in members])
        for index, name in zip(members, names, strict=True):
            named[index] = _called(named[index], name)
    return named


def _called(run: ImportedRun, name: str) -> ImportedRun:
    if name == run.target:
        return run
    note = (
        f'this target is called "{name}", because several targets are called "{run.target}": to '
        "compare imports in a history or a gate, set the name with --target"
    )
    outcome = replace(run.outcome, notes=[*run.outcome.notes, note])
    return replace(run, target=name, outcome=outcome)


def repeat_folder(folder: Parts) -> Parts:
    """Return the parts of a folder's path that are not run numbers or times."""
    return tuple(part for part in folder if not _RUN_FOLDER.fullmatch(part))


def _names(target: str, runs: Sequence[LocatedRun]) -> list[str]:
    """Return a target name for each run; all runs have the same original target name."""
    places = [tuple(located.run.locations) for located in runs]
    folders = [() if run.folder is None else repeat_folder(run.folder) for run in runs]
    by_path = _by_path(target, list(dict.fromkeys(places)))
    folders_of: dict[Parts, dict[Parts, None]] = {}
    for place, folder in zip(places, folders, strict=True):
        folders_of.setdefault(place, {})[folder] = None
    suffixes = {place: _shortest_ends(list(of_place)) for place, of_place in folders_of.items()}
    settings = _settings(runs, places, folders)
    directs: dict[tuple[Parts, Parts], set[bool | None]] = {}
    sizes: dict[tuple[Parts, Parts], set[int | None]] = {}
    for key, (direct, size) in zip(zip(places, folders, strict=True), settings, strict=True):
        directs.setdefault(key, set()).add(direct)
        sizes.setdefault(key, set()).add(size)
    names = []
    for place, folder, (direct, size) in zip(places, folders, settings, strict=True):
        end = suffixes[place][folder]
        parts = [by_path[place] + (f" ({end})" if end else "")]
        if len(directs[place, folder]) > 1:
            parts.append(_PAGE_CACHE[direct])
        if len(sizes[place, folder]) > 1:
            parts.append("size not stated" if size is None else format_size(size))
        names.append(", ".join(parts))
    return names


def _settings(
    runs: Sequence[LocatedRun], places: Sequence[Parts], folders: Sequence[Parts]
) -> list[_Setting]:
    """Return for each run whether it used direct I/O, and the size of its target.

    If direct I/O is unknown, the setting of other runs with the same paths, folder and size is
    used, provided that they agree.
    """
    known: dict[tuple[Parts, Parts, int | None], set[bool]] = {}
    keys = []
    for located, place, folder in zip(runs, places, folders, strict=True):
        keys.append((place, folder, located.run.facts.get("size")))
        if located.run.direct is not None:
            known.setdefault(keys[-1], set()).add(located.run.direct)
    settings: list[_Setting] = []
    for located, key in zip(runs, keys, strict=True):
        direct, others = located.run.direct, known.get(key, set())
        settings.append(
            (next(iter(others)) if direct is None and len(others) == 1 else direct, key[2])
        )
    return settings


def _shortest_ends(folders: Sequence[Parts]) -> dict[Parts, str]:
    """Return the shortest end of each folder's path that is unique; "" for a single folder."""
    if len(folders) == 1:
        return {folders[0]: ""}
    for depth in range(1, max(map(len, folders)) + 1):
        ends = ["/".join(folder[-depth:]) for folder in folders]
        if len(set(ends)) == len(ends):
            return dict(zip(folders, ends, strict=True))
    return {folder: "/".join(folder) for folder in folders}


def _by_path(target: str, places: Sequence[Parts]) -> dict[Parts, str]:
    """Return a unique name for each list of paths; the target's name if there is one list."""
    if len(places) == 1:
        return {places[0]: target}
    deepest = max(len(Path(path).parts) for paths in places for path in paths[:1] or [""])
    for depth in range(1, deepest + 1):
        names = [_named(target, paths, depth) for paths in places]
        if len(set(names)) == len(names):
            return dict(zip(places, names, strict=True))
    return {paths: ", ".join(paths) or target for paths in places}


def _named(target: str, paths: Parts, depth: int) -> str:
    """Return a target name made of the last ``depth`` parts of its first path.

    The original name is put in front, unless it is the last part itself.
    """
    if not paths:
        return target
    name = _end(paths, depth)
    return name if target == _end(paths, 1) else f"{target} ({name})"


def _end(paths: Parts, depth: int) -> str:
    more = "" if len(paths) == 1 else f" and {len(paths) - 1} more"
    return f"{Path(*Path(paths[0]).parts[-depth:])}{more}"
