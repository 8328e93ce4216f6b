"""What imported runs measured: files name it by less than tells one place from another."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from storlab.contracts.exchange import ImportedRun

_Place = tuple[tuple[str, ...], bool]  # locations, and whether past the page cache


def told_apart(runs: Sequence[ImportedRun]) -> list[ImportedRun]:
    """The runs; a target's name that stands for several places becomes a name for each of them.

    Of paths that is as much of their end as tells them apart: ``a/x`` and ``b/x``, where both were
    called ``x``.
    """
    places: dict[str, list[_Place]] = {}
    for run in runs:
        known = places.setdefault(run.target, [])
        if _place(run) not in known:
            known.append(_place(run))
    names = {
        (target, place): name
        for target, known in places.items()
        for place, name in zip(known, _names(target, known), strict=True)
    }
    return [replace(run, target=names[run.target, _place(run)]) for run in runs]


def _place(run: ImportedRun) -> _Place:
    return tuple(run.locations), run.direct


def _names(target: str, places: Sequence[_Place]) -> list[str]:
    times = Counter(locations for locations, _ in places)
    by_path = dict(zip(times, _by_path(target, list(times)), strict=True))
    return [
        by_path[locations] + ("" if times[locations] == 1 else ", direct" if direct else ", cached")
        for locations, direct in places
    ]


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
    """By so many of the last parts of its first path; beside a name that is none of them."""
    if not paths:
        return target
    name = _end(paths, depth)
    return name if target == _end(paths, 1) else f"{target} ({name})"


def _end(paths: tuple[str, ...], depth: int) -> str:
    more = "" if len(paths) == 1 else f" and {len(paths) - 1} more"
    return f"{Path(*Path(paths[0]).parts[-depth:])}{more}"
