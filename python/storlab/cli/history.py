"""Implementation of the ``storlab history`` command."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from storlab.base.collector import without_collector
from storlab.base.errors import ExitCode
from storlab.cli import completion, terminal
from storlab.cli.common import JsonOption, emit_json, report_error

if TYPE_CHECKING:
    from storlab.cli.documents import HistoryChange, HistoryDocument, HistoryPoint
    from storlab.history.series import PointHistory, Shift
    from storlab.history.site import Site


class BriefsIn(StrEnum):
    """Whether a history site links to existing briefs or contains copies of them."""

    LINK = "link"
    COPY = "copy"


MOST_LISTED = 10  # most points with a change that are listed in the terminal


def history(
    directories: Annotated[
        list[Path],
        typer.Argument(
            metavar="DIR...",
            help="Result directories, or folders that hold some directly.",
            autocompletion=completion.result_folders,
        ),
    ],
    out: Annotated[
        Path,
        typer.Option(
            "--out", "-o", metavar="SITE", help="Folder of the site. Missing folders are made."
        ),
    ],
    briefs: Annotated[
        BriefsIn,
        typer.Option(
            "--briefs",
            help="Link to the briefs where they are, or copy them into the site (2 MB each).",
        ),
    ] = BriefsIn.LINK,
    as_json: JsonOption = False,
) -> None:
    """Build a static site of many results: each point over time, with its changes.

    Each point has a page with its results over time, change points, and facts that changed at the
    same time: firmware, kernel, storlab, settings. The site needs no network and no server.

    To add new results, run the command again with the same SITE; earlier results are not read
    again. For a web server use --briefs copy, since it cannot serve briefs outside of SITE.

    If a directory cannot be read, an error names it, the site shows the others, and the exit code
    is 8.

    Example: storlab history results/* --out history
    """
    from storlab.base.files import output_error
    from storlab.cli.campaign import reporter_for

    # Garbage collection would take a tenth of this import's time and find nothing to free.
    with without_collector():
        from storlab.history.site import write_site

    try:
        with reporter_for(quiet=False, as_json=as_json) as progress:
            progress.step("writing the site")
            site = write_site(directories, out, copy_briefs=briefs is BriefsIn.COPY)
    except OSError as error:
        raise output_error(out, error) from error
    if as_json:
        emit_json(_document(site))
    else:
        for problem in site.problems:
            report_error(problem.error, as_json=False)
        _print(site)
    if site.problems:
        raise typer.Exit(ExitCode.RESULT)


def _document(site: Site) -> HistoryDocument:
    from storlab.cli.documents import HistoryDocument
    from storlab.contracts.document import Error

    return HistoryDocument(
        site=site.path / "index.html",
        directories=site.directories,
        read=site.read,
        problems=[Error.of(problem.error) for problem in site.problems],
        points=[
            _point(point, view.href)
            for point, view in zip(site.history.points, site.views, strict=True)
        ],
    )


def _point(point: PointHistory, page: str) -> HistoryPoint:
    from storlab.cli.documents import HistoryPoint

    headline = point.headline
    return HistoryPoint(
        page=page,
        kind=point.work.kind,
        workload=point.work.workload,
        engine=point.work.engine,
        target=point.target,
        where=point.where,
        results=len(point.results),
        runs=point.runs,
        metric="" if headline is None else headline.column.key,
        unit="" if headline is None else headline.column.unit,
        last=None if headline is None else headline.intervals[-1].estimate,
        changes=[_change(point, shift) for shift in point.shifts],
    )


def _change(point: PointHistory, shift: Shift) -> HistoryChange:
    from storlab.cli.documents import HistoryCandidate, HistoryChange

    result = point.results[shift.index]
    return HistoryChange(
        metric=shift.column.key,
        boundary=shift.boundary or None,
        unit=shift.column.unit,
        since=result.time.isoformat(),
        directory=Path(result.campaign.directory),
        before=shift.before,
        after=shift.after,
        ratio=shift.interval,
        verdict=shift.verdict,
        chance=shift.chance,
        candidates=[
            HistoryCandidate(
                field=change.difference.field,
                before=change.difference.there,
                after=change.difference.here,
                offset=change.offset,
                elsewhere=change.elsewhere,
            )
            for change in shift.candidates
        ],
    )


def _print(site: Site) -> None:
    from storlab.history.html import most_results
    from storlab.words.history import unchanged_text
    from storlab.words.text import plural

    changed = [view for view in site.views if view.changes]
    for view in changed[:MOST_LISTED]:
        row = view.changes[0].rows[0]
        verdict = f" ({row.verdict})" if row.verdict else ""
        why = f"; {view.candidate}" if view.candidate else ""
        terminal.out.print(
            f"{view.newest}: {view.target}, {view.where}: {row.title} {row.text}{verdict}{why}",
            soft_wrap=True,
        )
    if len(changed) > MOST_LISTED:
        terminal.out.print(f"and {plural(len(changed) - MOST_LISTED, 'more point')} that changed")
    if not changed:
        most = most_results(site.views)
        terminal.out.print(unchanged_text(most, "no change was found"), soft_wrap=True)
    count = plural(site.directories, "result")
    terminal.out.print(
        f"wrote {site.path / 'index.html'}: {plural(len(site.views), 'point')} in {count}, "
        f"{len(site.read):,} read now",
        soft_wrap=True,
    )
