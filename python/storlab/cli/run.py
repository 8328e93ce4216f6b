"""Implementation of the ``storlab run`` command."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Annotated

import typer

from storlab.base.clock import utc_stamp
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
    from storlab.cli.campaign import conclude, live_page, reporter_of
    from storlab.lab.plan.client_devices import plan_with_devices
    from storlab.lab.plan.plan import make_plan
    from storlab.lab.run.session import run_study
    from storlab.lab.study.file import load_study
    from storlab.process.execution import StopRequest, ended_as_by_ctrl_c

    loaded = load_study(study)
    plan = plan_with_devices(loaded.study, make_plan(loaded), Path.cwd())
    directory = out or Path("results") / f"{_slug(plan.study_name)}-{utc_stamp()}"
    with ended_as_by_ctrl_c(), live_page(live, live_port, plan, directory) as page:
        with StopRequest().installed() as stop:
            store, summary = run_study(
                loaded,
                plan,
                directory,
                plan_hash=plan_hash,
                reporter=lambda: reporter_of(plan, quiet, as_json, page),
                stop=stop,
                clean=clean,
            )
        conclude(store, summary, as_json=as_json, report=not no_report, page=page)


def _slug(name: str) -> str:
    return re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-")[:60] or "study"
