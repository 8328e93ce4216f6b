"""Files of the user that a study reads: their state in the plan, and detection of changes.

A file is identified by size and modification time, not by a digest, because raw data may have
terabytes. A replaced file is detected unless its modification time was set deliberately.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from pathlib import Path

from storlab.base.errors import GuardError
from storlab.contracts.registry import FAMILIES
from storlab.model.point import Point
from storlab.model.study import StudyBase, Target
from storlab.stores.sidecar import made_by_storlab

Known = dict[str, dict[str, int]]
"""Size in bytes and modification time in nanoseconds of files, by path."""


def files_read(study: StudyBase, points: Iterable[Point], base: Path) -> Known:
    """Return the user's files that these points read: raw data, and existing files as targets."""
    own: dict[str, list[Point]] = {}
    for point in points:
        own.setdefault(point.target, []).append(point)
    paths: dict[Path, None] = {}
    for target in study.target:
        if target.name not in own or target.s3 is not None or target.is_null:
            continue
        for path in _files_of(study, target, own[target.name], base):
            paths.setdefault(path)
    return {str(path): _known(path) for path in paths}


def _files_of(
    study: StudyBase, target: Target, points: Iterable[Point], base: Path
) -> Iterable[Path]:
    if target.directory is None:
        for location in target.locations:
            path = Path(os.path.realpath(base / location))
            if path.is_file() and not made_by_storlab(path):
                yield path
        return
    here = target.model_copy(update={"directory": str(base / target.directory)})
    for point in points:
        yield from FAMILIES[point.kind].estimate(point, study.study, here).raw_files


def files_now(paths: Iterable[str]) -> Known:
    """Return size and modification time of those of the given files that exist."""
    return {path: _known(Path(path)) for path in paths if Path(path).is_file()}


def _known(path: Path) -> dict[str, int]:
    stat = path.stat()
    return {"size": stat.st_size, "mtime_ns": stat.st_mtime_ns}


def check_files_read(planned: Mapping[str, Mapping[str, int]], now: Known) -> None:
    """Check that the files which a study reads are still as they were when it was planned.

    Raises:
        GuardError: A file was changed, removed or added; the error names the file.
    """
    for path in sorted({*planned, *now}):
        before, after = planned.get(path), now.get(path)
        if before == after:
            continue
        fix = "restore the planned file and its modification time (cp -p), or begin a new"
        if before is None:
            what, fix = "did not exist when this study was planned", "remove it, or begin a new"
        elif after is None:
            what = "no longer exists, but this study was planned with it"
        else:
            what = f"has changed since this study was planned: from {before['size']:,} bytes to "
            what += f"{after['size']:,}"
            if before["size"] == after["size"]:
                what = "has changed since this study was planned: it has another modification time"
        raise GuardError(path, what, f"{fix} campaign with `storlab run`")
