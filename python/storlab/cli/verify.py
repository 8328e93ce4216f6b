"""``storlab verify``."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from storlab.base.errors import ExitCode, ResultError
from storlab.cli.common import JsonOption, console, emit_json

if TYPE_CHECKING:
    from storlab.lab.run.verification import Verifiable
    from storlab.model.result import VerifyReport

FIRST_EXAMPLES = 20


def verify(
    directory: Annotated[Path, typer.Argument(metavar="DIR", help="The result directory.")],
    run_id: Annotated[
        str | None, typer.Argument(metavar="[RUN]", help="One run; all that can be by default.")
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Read again what verify-mode runs wrote: lost, torn, stale and misplaced blocks.

    Works after a crash or power cut in the middle of a run, too. Of each target the last
    verify-mode run can be verified, until something else writes there. Exit code 10 for bad blocks.

    Example: storlab verify results/demo-20261120t113000z
    """
    from storlab.lab.results.store import ResultStore

    store = ResultStore.open(directory)
    runs = _chosen(directory, run_id)
    campaign = str(store.environment.get("guard", {}).get("campaign", ""))
    reports = {run.run_id: _verified(run, campaign) for run in runs}
    if as_json:
        emit_json(
            {
                "ok": all(report.ok for report in reports.values()),
                "runs": {run_id: _as_dict(report) for run_id, report in reports.items()},
            }
        )
    else:
        for name, report in reports.items():
            _print(name, report)
    if not all(report.ok for report in reports.values()):
        raise typer.Exit(int(ExitCode.DISAGREE))


def _chosen(directory: Path, run_id: str | None) -> list[Verifiable]:
    from storlab.lab.run.verification import verifiable_runs

    runs = verifiable_runs(directory)
    if run_id is not None:
        runs = [run for run in runs if run.run_id == run_id]
    if not runs:
        raise ResultError(
            run_id or str(directory),
            "has no blocks that can be verified: not verify mode, or a later run wrote there",
            "set verify = true in the workload and keep_data = true in the target",
        )
    return runs


def _verified(run: Verifiable, campaign: str) -> VerifyReport:
    from storlab.engines.native.engine import verify_pass
    from storlab.lab.run.verification import held_files

    gone = [m.name for m in run.job.members if not Path(m.path).exists()]
    if gone:
        raise ResultError(
            ", ".join(gone),
            "is gone, so nothing can be verified",
            "set keep_data = true in the target to keep data files",
        )
    try:
        with held_files(run.job, campaign):
            return verify_pass(run.job)
    except OSError as error:
        raise ResultError(
            str(error.filename or run.run_id),
            f"cannot be read: {error.strerror}",
            "check that the target is connected, and that this user may read it",
        ) from error


def _as_dict(report: VerifyReport) -> dict[str, Any]:
    return {"ok": report.ok, **report.dump()}


def _print(run_id: str, report: VerifyReport) -> None:
    found = ", ".join(f"{count:,} {kind}" for kind, count in report.bad_blocks.items() if count)
    console.print(
        f"{run_id}: {report.checked_blocks:,} blocks checked, {found or 'all as written'}",
        soft_wrap=True,
    )
    for bad in report.examples[:FIRST_EXAMPLES]:
        console.print(
            f"  {bad.kind} at {bad.offset} of {bad.path}: expected {bad.expected}, "
            f"found {bad.found}",
            soft_wrap=True,
        )
    if len(report.examples) > FIRST_EXAMPLES:
        console.print(f"  ... and {len(report.examples) - FIRST_EXAMPLES:,} more (--json)")
