"""Run a study from a notebook or a program."""

from __future__ import annotations

from pathlib import Path

from rich.console import Console

from storlab.analysis.run_names import RunNames
from storlab.api.notebook import NotebookReporter
from storlab.api.results import Results
from storlab.base.clock import utc_stamp
from storlab.contracts.reporter import Reporter
from storlab.lab.plan.client_devices import plan_with_devices
from storlab.lab.plan.plan import make_plan
from storlab.lab.preflight.questions import question_checks
from storlab.lab.run.progress import make_reporter
from storlab.lab.run.session import run_study
from storlab.lab.study.file import load_study
from storlab.process.execution import StopRequest


def run(
    study: str | Path,
    *,
    out: str | Path | None = None,
    progress: bool = True,
    clean: bool = False,
    plan_hash: str | None = None,
) -> Results:
    """Run a study as ``storlab run`` does, but without writing a brief.

    An interrupt (stop button, Ctrl-C) cancels the current run and keeps finished ones; ``storlab
    resume`` continues the campaign.

    Args:
        study: Path of the study file.
        out: Result directory; by default one in ``results/`` named by study and time.
        progress: Whether to show progress below the notebook cell or on the terminal.
        clean: Whether to remove prepared data even if runs are missing at the end (``--clean``).
        plan_hash: Hash of the plan that the user has reviewed, which permits overwriting devices
            (``--plan-hash``).

    Returns:
        The results of the study.

    Raises:
        StorlabError: Any error that ``run_study`` raises.
    """
    loaded = load_study(study)
    plan = plan_with_devices(loaded.study, make_plan(loaded), Path.cwd())
    directory = Path(out) if out else Path("results") / f"{Path(study).stem}-{utc_stamp()}"

    def reporter() -> Reporter:
        console, names = Console(quiet=not progress, stderr=True), RunNames.of(plan)
        if progress and console.is_jupyter:
            return NotebookReporter(names)
        return make_reporter(console, quiet=not console.is_terminal, names=names)

    with StopRequest().installed() as stop:
        store, _ = run_study(
            loaded, plan, directory, plan_hash=plan_hash, reporter=reporter, stop=stop, clean=clean,
            warnings=question_checks(loaded.study, plan),
        )  # fmt: skip
    return Results([store])
