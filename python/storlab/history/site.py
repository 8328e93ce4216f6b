"""The site: pages, style, script and index, written where they differ from what is there."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from storlab.base.collector import without_collector
from storlab.base.errors import UsageError
from storlab.history import html, index
from storlab.history.page import POINTS, Briefs, PointView, directory_rows, point_view
from storlab.history.read import Problem, Reading, read_all
from storlab.history.series import History, history_of

FIRST = "index.html"


@dataclass(frozen=True, slots=True)
class Site:
    """What was written, and of what."""

    path: Path
    history: History
    views: list[PointView]
    read: list[str]  # directories that were read this time
    problems: list[Problem]

    @property
    def directories(self) -> int:
        """How many the site shows."""
        return len(self.history.campaigns)


def write_site(directories: Sequence[Path], site: Path) -> Site:
    """Make the site, or bring it up to date: it shows these directories, and no others.

    Raises UsageError for a folder that holds something else, the first directory's error where
    none can be read, and OSError where the site cannot be written.
    """
    with without_collector():
        return _made(directories, site.absolute())


def _made(directories: Sequence[Path], site: Path) -> Site:
    known = index.load(site)
    reading = read_all(directories, known.directories)
    if not reading.kept:
        if reading.problems:
            raise reading.problems[0].error
        raise UsageError("DIR", "no result directory is given", "name those that run printed")
    history = history_of({name: kept.record for name, kept in reading.kept.items()})
    briefs = Briefs(site)
    views = [point_view(point, briefs) for point in history.points]
    pages = dict(_pages(history, views, reading, briefs))
    _write(site, pages, known.pages, index.dump(reading.kept, list(pages)))
    return Site(site, history, views, reading.read, reading.problems)


def _pages(
    history: History, views: Sequence[PointView], reading: Reading, briefs: Briefs
) -> Iterator[tuple[str, bytes]]:
    pages = html.Pages()
    yield "history.css", html.css()
    yield "history.js", html.script()
    for view in views:
        yield view.href, pages.point(view)
    yield FIRST, pages.index(views, directory_rows(history, briefs), reading.problems)


def _write(site: Path, pages: dict[str, bytes], before: frozenset[str], kept: bytes) -> None:
    """What there is to know last; before it, that this is a site, also if it is left half-way."""
    (site / POINTS).mkdir(parents=True, exist_ok=True)
    if not (site / index.NAME).exists():
        _replace(site / index.NAME, index.dump({}, list(pages)))
    for name, content in pages.items():
        _replace(site / name, content)
    for stale in sorted(before - set(pages)):
        path = site / stale
        if path.parent in (site, site / POINTS):
            path.unlink(missing_ok=True)
    _replace(site / index.NAME, kept)


def _replace(path: Path, content: bytes) -> None:
    """Readers see the old file or the new one. It can be made again, so it is not synced."""
    try:
        if path.read_bytes() == content:
            return
    except FileNotFoundError:
        pass
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        temporary.write_bytes(content)
        temporary.replace(path)
    except OSError:
        temporary.unlink(missing_ok=True)
        raise
