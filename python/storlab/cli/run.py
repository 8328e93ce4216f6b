"""``storlab run``."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Annotated

import typer

from storlab.base.clock import utc_stamp
from storlab.cli.common import JsonOption, StudyArgument


def run(
    study: StudyArgument,
    out: Annotated[
        Path | None,
        typer.Option("--out", help="Result directory; results/<study>-<time> by default."),
    ] = None,
    plan_hash: Annotated[
        str | None,
        typer.Option(
            "--plan-hash", metavar="HASH", help="Of the reviewed plan: consents to overwriting."
        ),
    ] = None,
    clean: Annotated[
        bool, typer.Option("--clean", help="Remove data files even when interrupted.")
    ] = False,
    no_report: Annotated[bool, typer.Option("--no-report", help="Write no brief.")] = False,
    quiet: Annotated[bool, typer.Option("--quiet", help="One line per run, no live view.")] = False,
    as_json: JsonOption = False,
) -> None:
    """Carry out a study: check, guard, prepare, measure, store, and write the brief.

    Ctrl-C ends the current run and keeps what is finished; `storlab resume` goes on. A study that
    overwrites a block device needs the hash that `storlab plan` prints, or the typed serial.

    Example: storlab run studies/demo.toml --out results/demo
    """
    from storlab.cli.campaign import conclude, reporter_for
    from storlab.lab.plan.plan import make_plan
    from storlab.lab.run.session import run_study
    from storlab.lab.study.file import load_study
    from storlab.process.execution import StopRequest

    loaded = load_study(study)
    plan = make_plan(loaded)
    directory = out or Path("results") / f"{_slug(plan.study_name)}-{utc_stamp()}"
    with StopRequest().installed() as stop:
        store, summary = run_study(
            loaded,
            plan,
            directory,
            plan_hash=plan_hash,
            reporter=lambda: reporter_for(quiet, as_json),
            stop=stop,
            clean=clean,
        )
    conclude(store, summary, as_json=as_json, report=not no_report)


def _slug(name: str) -> str:
    return re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-")[:60] or "study"
