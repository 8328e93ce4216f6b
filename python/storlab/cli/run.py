"""Implementation of the ``storlab run`` command."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from storlab.cli.common import (
    CleanOption,
    JsonOption,
    LiveOption,
    LivePortOption,
    NoReportOption,
    PlanHashOption,
    QuietOption,
    StudyArgument,
)


def run(
    study: StudyArgument,
    out: Annotated[
        Path | None,
        typer.Option(
            "--out",
            help="Result directory; results/<study>-<time> by default. Missing folders are made.",
        ),
    ] = None,
    plan_hash: PlanHashOption = None,
    clean: CleanOption = False,
    no_report: NoReportOption = False,
    live: LiveOption = False,
    live_port: LivePortOption = 0,
    quiet: QuietOption = False,
    as_json: JsonOption = False,
) -> None:
    """Run a study: check, guard, prepare, measure, store, and write the brief.

    Ctrl-C ends the current run. Finished runs are kept, and `storlab resume` continues. To
    overwrite a block device, give the hash that `storlab plan` prints as --plan-hash, or write the
    device's serial number into the target: serial = "...".

    Example: storlab run studies/demo.toml --out results/demo
    """
    from storlab.cli.campaign import execute, new_directory
    from storlab.lab.plan.client_devices import plan_with_devices
    from storlab.lab.plan.plan import make_plan
    from storlab.lab.study.file import load_study

    loaded = load_study(study)
    plan = plan_with_devices(loaded.study, make_plan(loaded), Path.cwd())
    execute(
        loaded,
        plan,
        out or new_directory(plan.study_name),
        plan_hash=plan_hash,
        clean=clean,
        report=not no_report,
        live=live,
        live_port=live_port,
        quiet=quiet,
        as_json=as_json,
    )
