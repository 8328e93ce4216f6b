"""Write a history site: pages, style, script, index and copies of briefs.

A file is written only if its content has changed.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from storlab.base.collector import without_collector
from storlab.base.errors import UsageError
from storlab.base.files import make_folder, read_input, replace_file, replacing
from storlab.history import html, index
from storlab.history.page import BRIEFS, POINTS, Briefs, PointView, directory_rows, point_view
from storlab.history.read import Problem, Reading, read_all
from storlab.history.series import History, history_of
from storlab.results.files import unreadable

FIRST = "index.html"


@dataclass(frozen=True, slots=True)
class Site:
    """History site that was written: its content, and the directories that could not be read."""

    path: Path
    history: History
    views: list[PointView]
    read: list[str]  # new or changed directories
    problems: list[Problem]

    @property
    def directories(self) -> int:
        """Number of directories that the site shows."""
        return len(self.history.campaigns)


def write_site(directories: Sequence[Path], site: Path, *, copy_briefs: bool = False) -> Site:
    """Create or update a history site that shows the given result directories and no others.

    Args:
        directories: Result directories, or folders that contain them.
        site: Folder of the site.
        copy_briefs: Whether to copy each brief into the site, so that the site has no links to
            files outside.

    Raises:
        UsageError: The folder contains files that are not a history site's.
        StorlabError: No directory can be read; the error of the first one is raised.
        OSError: The site cannot be written.
    """
    with without_collector():
        return _made(directories, site.absolute(), copy_briefs)


def _made(directories: Sequence[Path], site: Path, copy_briefs: bool) -> Site:
    known = index.load(site)
    reading = read_all(directories, known.directories)
    if not reading.kept:
        if reading.problems:
            raise reading.problems[0].error
        fix = "give the directories that `storlab run` printed"
        raise UsageError("DIR", "no result directory is given", fix)
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
    # Write the index last, because it lists the files that exist.
    _replace(site / index.NAME, index.dump(reading.kept, files))
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
    """Write a history site's files.

    If there is no index yet, an empty one is written first, so that the folder is recognised as a
    site even if writing is interrupted.

    Args:
        site: Folder of the site.
        pages: Content by file name.
        copies: Briefs to copy, by file name in the site.
        empty: Empty index.
    """
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
    """Copy a brief into the site, unless its copy has the same size and modification time."""
    now = brief.stat()
    with suppress(FileNotFoundError):
        there = path.stat()
        if (there.st_mtime_ns, there.st_size) == (now.st_mtime_ns, now.st_size):
            return
    try:
        with replacing(path) as temporary:
            shutil.copyfile(brief, temporary)
            os.utime(temporary, ns=(now.st_atime_ns, now.st_mtime_ns))
    except OSError as error:
        if error.filename == str(brief):  # otherwise the site cannot be written
            raise unreadable(brief, error) from error
        raise


def _replace(path: Path, content: bytes) -> None:
    with suppress(FileNotFoundError):
        if read_input(path) == content:
            return
    replace_file(path, content, durable=False)
