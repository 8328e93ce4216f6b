"""Implementation of the ``storlab resume`` command."""

from __future__ import annotations

from typing import Annotated

import typer

from storlab.cli.common import (
    CleanOption,
    JsonOption,
    LiveOption,
    LivePortOption,
    NoReportOption,
    QuietOption,
    ResultsArgument,
)


def resume(
    directory: ResultsArgument,
    retry_failed: Annotated[
        bool, typer.Option("--retry-failed", help="Measure failed runs again, too.")
    ] = False,
    clean: CleanOption = False,
    no_report: NoReportOption = False,
    live: LiveOption = False,
    live_port: LivePortOption = 0,
    quiet: QuietOption = False,
    as_json: JsonOption = False,
) -> None:
    """Continue an interrupted campaign at its first missing run.

    Before that, the guard checks that the devices are still those that the campaign started with.

    Example: storlab resume results/demo-20261120t113000z
    """
    from storlab.cli.campaign import conclude, live_page, reporter_of
    from storlab.lab.run.session import resume_study
    from storlab.process.execution import StopRequest, ended_as_by_ctrl_c
    from storlab.results.store import ResultStore

    store = ResultStore.open(directory)
    store.check()
    earlier = store.records() if live else []
    if retry_failed:
        earlier = [record for record in earlier if record.status != "failed"]
    with (
        ended_as_by_ctrl_c(),
        live_page(live, live_port, store.plan, store.directory, earlier) as page,
    ):
        with StopRequest().installed() as stop:
            summary = resume_study(
                store,
                retry_failed=retry_failed,
                reporter=lambda: reporter_of(store.plan, quiet, as_json, page),
                stop=stop,
                clean=clean,
            )
        conclude(store, summary, as_json=as_json, report=not no_report, page=page, quiet=quiet)
