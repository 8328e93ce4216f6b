"""The site: pages, style, script, index and copies of briefs, written where they differ from what
is there.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from storlab.base.collector import without_collector
from storlab.base.errors import UsageError
from storlab.base.files import make_folder, read_input, temporary_beside
from storlab.history import html, index
from storlab.history.page import BRIEFS, POINTS, Briefs, PointView, directory_rows, point_view
from storlab.history.read import Problem, Reading, read_all
from storlab.history.series import History, history_of
from storlab.lab.results.files import unreadable

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


def write_site(directories: Sequence[Path], site: Path, *, copy_briefs: bool = False) -> Site:
    """Make the site, or bring it up to date: it shows these directories, and no others.

    ``copy_briefs``: the site has a copy of each brief, and leads nowhere else; else it links to
    the briefs where they are.

    Raises UsageError for a folder that holds something else, the first directory's error where
    none can be read, and OSError where the site cannot be written.
    """
    with without_collector():
        return _made(directories, site.absolute(), copy_briefs)


def _made(directories: Sequence[Path], site: Path, copy_briefs: bool) -> Site:
    known = index.load(site)
    reading = read_all(directories, known.directories)
    if not reading.kept:
        if reading.problems:
            raise reading.problems[0].error
        raise UsageError("DIR", "no result directory is given", "name those that run printed")
    history = history_of({name: kept.record for name, kept in reading.kept.items()})
    briefs = Briefs(site, copied=copy_briefs)
    views = [point_view(point, briefs) for point in history.points]
    pages = dict(_pages(history, views, reading, briefs))
    files = [*pages, *briefs.copies]
    _write(site, pages, briefs.copies, index.dump({}, files))
    for stale in sorted(known.pages - set(files)):
        path = site / stale
        if path.parent in (site, site / POINTS, site / BRIEFS):
            path.unlink(missing_ok=True)
    _replace(site / index.NAME, index.dump(reading.kept, files))  # what there is to know last
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


def _write(site: Path, pages: dict[str, bytes], copies: dict[str, Path], empty: bytes) -> None:
    """``empty`` is the index until the end: so this is a site, also if it is left half-way."""
    site.mkdir(parents=True, exist_ok=True)
    make_folder(site / POINTS)
    if not (site / index.NAME).exists():
        _replace(site / index.NAME, empty)
    if copies:
        make_folder(site / BRIEFS)
    for name, brief in copies.items():
        _copy(brief, site / name)
    for name, content in pages.items():
        _replace(site / name, content)


def _copy(brief: Path, path: Path) -> None:
    """One of the same size and time is the same."""
    now = brief.stat()
    with suppress(FileNotFoundError):
        there = path.stat()
        if (there.st_mtime_ns, there.st_size) == (now.st_mtime_ns, now.st_size):
            return
    try:
        with _in_place(path) as temporary:
            shutil.copyfile(brief, temporary)
            os.utime(temporary, ns=(now.st_atime_ns, now.st_mtime_ns))
    except OSError as error:
        if error.filename == str(brief):  # else it is the site that cannot be written
            raise unreadable(brief, error) from error
        raise


def _replace(path: Path, content: bytes) -> None:
    with suppress(FileNotFoundError):
        if read_input(path) == content:
            return
    with _in_place(path) as temporary:
        temporary.write_bytes(content)


@contextmanager
def _in_place(path: Path) -> Iterator[Path]:
    """Readers see the old file or the new one. It can be made again, so it is not synced."""
    temporary = temporary_beside(path)
    try:
        yield temporary
        temporary.replace(path)
    except OSError:
        temporary.unlink(missing_ok=True)
        raise
