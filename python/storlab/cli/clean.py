"""Implementation of the ``storlab clean`` command."""

from __future__ import annotations

from typing import TYPE_CHECKING

import typer

from storlab.base.errors import ExitCode
from storlab.base.files import shell_word
from storlab.cli import terminal
from storlab.cli.common import JsonOption, ResultsArgument, emit_json, report_error

if TYPE_CHECKING:
    from storlab.lab.run.clean import Cleaned
    from storlab.results.store import ResultStore


def clean(
    directory: ResultsArgument,
    as_json: JsonOption = False,
) -> None:
    """Remove what a campaign left on its targets: objects in S3 stores, and laid-out data files.

    For a campaign that was interrupted or kept its data. Removes only what storlab made: objects
    below the campaign's own prefix, a bucket that it made and that is empty, and data files with
    the campaign's sidecar. Results are kept. Credentials are read again, as for a run.

    Example: storlab clean results/demo-20261120t113000z
    """
    from storlab.cli.campaign import reporter_for
    from storlab.lab.run.clean import clean_campaign
    from storlab.process.execution import Interrupted, StopRequest
    from storlab.results.store import ResultStore

    store = ResultStore.open(directory)
    try:
        with StopRequest().installed() as stop:
            cleaned = clean_campaign(store, stop, lambda: reporter_for(True, as_json))
    except Interrupted:
        terminal.log.print("interrupted; run the same command again to continue")
        raise typer.Exit(int(ExitCode.INTERRUPTED)) from None
    if as_json:
        from storlab.cli.documents import CleanDocument
        from storlab.contracts.document import Error

        problems = [Error.of(problem) for problem in cleaned.problems]
        emit_json(
            CleanDocument(directory=store.directory, removed=cleaned.removed, problems=problems)
        )
    else:
        _print(store, cleaned)
    if cleaned.problems:
        raise typer.Exit(int(cleaned.problems[0].exit_code))


def _print(store: ResultStore, cleaned: Cleaned) -> None:
    for name in cleaned.removed:
        terminal.out.print(f"removed {name}", soft_wrap=True)
    if not cleaned.removed and not cleaned.problems:
        terminal.out.print("there was nothing to remove")
    for problem in cleaned.problems:
        report_error(problem, as_json=False)
    if store.missing() and not cleaned.problems:
        terminal.out.print(
            f"runs are missing: `storlab resume {shell_word(store.directory)}` makes the data "
            "again",
            soft_wrap=True,
        )
