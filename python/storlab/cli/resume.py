"""``storlab resume``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from storlab.cli.common import JsonOption


def resume(
    directory: Annotated[Path, typer.Argument(metavar="DIR", help="The result directory.")],
    retry_failed: Annotated[
        bool, typer.Option("--retry-failed", help="Measure failed runs again, too.")
    ] = False,
    clean: Annotated[
        bool, typer.Option("--clean", help="Remove data files even when interrupted.")
    ] = False,
    no_report: Annotated[bool, typer.Option("--no-report", help="Write no brief.")] = False,
    quiet: Annotated[bool, typer.Option("--quiet", help="One line per run, no live view.")] = False,
    as_json: JsonOption = False,
) -> None:
    """Go on with an interrupted campaign at its first missing run.

    The guard checks again that the devices are the ones the campaign began on.

    Example: storlab resume results/demo-20261120t113000z
    """
    from storlab.cli.campaign import conclude, reporter_for
    from storlab.lab.results.store import ResultStore
    from storlab.lab.run.session import resume_study
    from storlab.process.execution import StopRequest

    store = ResultStore.open(directory)
    store.check()
    with StopRequest().installed() as stop:
        summary = resume_study(
            store,
            retry_failed=retry_failed,
            reporter=lambda: reporter_for(quiet, as_json),
            stop=stop,
            clean=clean,
        )
    conclude(store, summary, as_json=as_json, report=not no_report)
