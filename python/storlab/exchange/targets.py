"""Give imported targets unique names if files use the same name for different locations."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path

from storlab.base.units import format_size
from storlab.contracts.exchange import ImportedRun

# Where and how a run accessed its target: paths, direct I/O (None if unknown), size in bytes.
_Place = tuple[tuple[str, ...], bool | None, int | None]
_PAGE_CACHE = {True: "direct", False: "cached", None: "page cache unknown"}


def told_apart(runs: Sequence[ImportedRun]) -> list[ImportedRun]:
    """Return the runs with a different target name for each location.

    If several paths have the same name, each is named by as much of the end of its path as is
    needed to differ: ``a/x`` and ``b/x`` if both were called ``x``. The new name depends on the
    other imported files, so a note is added to the run.
    """
    places: dict[str, dict[_Place, None]] = {}
    for run in runs:
        places.setdefault(run.target, {})[_place(run)] = None
    names: dict[tuple[str, _Place], str] = {}
    for target, told in places.items():
        joined = {place: _joined(place, told) for place in told}
        apart = list(dict.fromkeys(joined.values()))
        by_place = dict(zip(apart, _names(target, apart), strict=True))
        names |= {(target, place): by_place[joined[place]] for place in told}
    return [_called(run, names[run.target, _place(run)]) for run in runs]


def _called(run: ImportedRun, name: str) -> ImportedRun:
    if name == run.target:
        return run
    note = (
        f'this target is called "{name}", because several targets are called "{run.target}": to '
        "compare imports in a history or a gate, set the name with --target"
    )
    outcome = replace(run.outcome, notes=[*run.outcome.notes, note])
    return replace(run, target=name, outcome=outcome)


def _place(run: ImportedRun) -> _Place:
    return tuple(run.locations), run.direct, run.facts.get("size")


def _joined(place: _Place, beside: Iterable[_Place]) -> _Place:
    """Fill in an unknown direct I/O setting from another run with the same paths and size.

    It stays unknown if such runs differ.
    """
    locations, direct, size = place
    known = {p[1] for p in beside if (p[0], p[2]) == (locations, size)} - {None}
    return (locations, known.pop(), size) if direct is None and len(known) == 1 else place


def _names(target: str, places: Sequence[_Place]) -> list[str]:
    lists = list(dict.fromkeys(locations for locations, _, _ in places))
    by_path = dict(zip(lists, _by_path(target, lists), strict=True))
    return [
        ", ".join([by_path[place[0]], *_differing(place, [p for p in places if p[0] == place[0]])])
        for place in places
    ]


def _differing(place: _Place, beside: Sequence[_Place]) -> Iterator[str]:
    """Yield the settings (direct I/O, size) in which a target differs from others at its paths."""
    _, direct, size = place
    if len({direct for _, direct, _ in beside}) > 1:
        yield _PAGE_CACHE[direct]
    if len({size for _, _, size in beside}) > 1:
        yield "size not stated" if size is None else format_size(size)


def _by_path(target: str, lists: Sequence[tuple[str, ...]]) -> list[str]:
    if len(lists) == 1:
        return [target]
    deepest = max(len(Path(path).parts) for paths in lists for path in paths[:1])
    for depth in range(1, deepest + 1):
        names = [_named(target, paths, depth) for paths in lists]
        if len(set(names)) == len(names):
            return names
    return [", ".join(paths) or target for paths in lists]


def _named(target: str, paths: tuple[str, ...], depth: int) -> str:
    """Return a target name made of the last ``depth`` parts of its first path.

    The original name is put in front, unless it is the last part itself.
    """
    if not paths:
        return target
    name = _end(paths, depth)
    return name if target == _end(paths, 1) else f"{target} ({name})"


def _end(paths: tuple[str, ...], depth: int) -> str:
    more = "" if len(paths) == 1 else f" and {len(paths) - 1} more"
    return f"{Path(*Path(paths[0]).parts[-depth:])}{more}"
