"""Implementation of the ``storlab verify`` command."""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Annotated, Any

import typer

from storlab.base.errors import ExitCode, ResultError, UsageError
from storlab.base.files import shell_word
from storlab.base.nearest import suggest
from storlab.cli import completion, terminal
from storlab.cli.common import JsonOption, ResultsArgument, emit_json

if TYPE_CHECKING:
    from storlab.lab.site.clients import Clients
    from storlab.lab.site.verification import Verifiable, Written
    from storlab.model.cluster import Cluster
    from storlab.model.result import VerifyReport
    from storlab.results.store import ResultStore

FIRST_EXAMPLES = 20


def verify(
    directory: ResultsArgument,
    run_id: Annotated[
        str | None,
        typer.Argument(
            metavar="[RUN]",
            help="Verify only this run; by default all runs that can be verified.",
            autocompletion=completion.runs,
        ),
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Read back what verify-mode runs wrote: lost, torn, stale and misplaced blocks.

    This also works after a crash or power cut in the middle of a run. The last verify-mode run of
    each target can be verified until something else writes there. Exit code 10 for bad blocks. On a
    cluster only finished runs are verified, and each client reads data that another client wrote.

    Example: storlab verify results/demo-20261120t113000z
    """
    from storlab.results.store import ResultStore

    store = ResultStore.open(directory)
    campaign = str(store.environment.get("guard", {}).get("campaign", ""))
    if store.study.cluster is not None:
        reports = _verified_by_clients(store, store.study.cluster, run_id, campaign)
    else:
        runs = _chosen(store, run_id)
        reports = {run.run_id: _verified(run, campaign) for run in runs}
    if as_json:
        from storlab.cli.documents import VerifiedRun, VerifyDocument

        emit_json(
            VerifyDocument(
                ok=all(report.ok for report in reports.values()),
                runs={name: VerifiedRun.model_validate(report) for name, report in reports.items()},
            )
        )
    else:
        for name, report in reports.items():
            _print(name, report)
    if not all(report.ok for report in reports.values()):
        raise typer.Exit(int(ExitCode.DISAGREE))


def _chosen(store: ResultStore, run_id: str | None) -> list[Verifiable]:
    from storlab.lab.site.verification import verifiable_runs

    runs = verifiable_runs(store.directory)
    if run_id is not None:
        known = {run.run_id for run in store.plan.runs}
        if run_id not in known:
            raise UsageError(
                "RUN", f'"{run_id}" is not a run of DIR', suggest(run_id, sorted(known))
            )
        runs = [run for run in runs if run.run_id == run_id]
    if not runs:
        raise _nothing(run_id or str(store.directory))
    return runs


def _nothing(where: str) -> ResultError:
    return ResultError(
        where,
        "has no blocks that can be verified: verify mode was off, or a later run wrote there",
        "set verify = true in the workload and keep_data = true in the target, and run again",
    )


def _verified_by_clients(
    store: ResultStore, cluster: Cluster, run_id: str | None, campaign: str
) -> dict[str, VerifyReport]:
    """Verify data that clients of a cluster wrote, and return the reports by run id.

    Only shared file systems can be verified. Data on a client's own device was verified by that
    client during the run.

    Raises:
        ResultError: The campaign is still running, a client that wrote data no longer belongs to
            the cluster, or no data can be verified.
    """
    from storlab.lab.site.clients import Clients
    from storlab.lab.site.clients_site import claim_once
    from storlab.lab.site.verification import States

    if store.is_running():
        raise ResultError(
            str(store.directory),
            "is still running, and reading its data now would distort its measurement",
            "wait until it ends; "
            f"`storlab status {shell_word(store.directory)}` shows its progress",
        )
    base = Path(store.environment["guard"]["working_directory"])
    clients = Clients.of(cluster, base)
    places = clients.places(clients.most)
    states, reports = States(store.directory), {}
    for target in store.study.target:
        written = states.written(target, places)
        if not written or run_id not in (None, written[0].run_id):
            continue
        missing = set(states.known(target)) - {state.writer for state in written}
        if missing:
            raise ResultError(
                ", ".join(sorted(missing)),
                f"wrote data of target {target.name}, but is no longer a client of the cluster",
                "make it a host of the cluster again, as it was during the run",
            )
        claim = claim_once(store, base, campaign, target.name)
        arguments = {"campaign": campaign, "claim": claim}
        reports[written[0].run_id] = _read_again(clients, written, target.name, arguments)
    if reports:
        return reports
    own = [target.name for target in store.study.target if target.directory is None]
    if own:
        raise ResultError(
            ", ".join(own),
            "cannot be verified after the run, as each client has its own device or file. "
            "Each client verified its data during the run",
            "see `verify` in run.json for the result, or use a directory on a shared file system",
        )
    raise _nothing(run_id or str(store.directory))


def _read_again(
    clients: Clients, written: list[Written], target: str, arguments: dict[str, Any]
) -> VerifyReport:
    from storlab.lab.prepare.dataset import PrepareError
    from storlab.lab.site.clients import read_again
    from storlab.process.execution import StopRequest

    with TemporaryDirectory(prefix="storlab-verify-") as folder:
        place = Path(folder) / "task"
        try:
            return read_again(clients, written, target, arguments, place, StopRequest())
        except PrepareError as error:
            raise ResultError(target, error.failure.message, error.failure.fix) from error


def _verified(run: Verifiable, campaign: str) -> VerifyReport:
    from storlab.engines.native.engine import verify_pass
    from storlab.lab.site.verification import held_files

    gone = [m.name for m in run.job.members if not Path(m.path).exists()]
    if gone:
        raise ResultError(
            ", ".join(gone),
            "does not exist any more, so its data cannot be verified",
            "set keep_data = true in the target to keep data files, and run again",
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


def _print(run_id: str, report: VerifyReport) -> None:
    damage = ", ".join(f"{count:,} {kind}" for kind, count in report.bad_blocks.items() if count)
    terminal.out.print(
        f"{run_id}: {report.checked_blocks:,} blocks checked, {damage or 'all as written'}",
        soft_wrap=True,
    )
    for bad in report.examples[:FIRST_EXAMPLES]:
        terminal.out.print(
            f"  {bad.kind} at {bad.offset} of {bad.path}: expected {bad.expected}, "
            f"found {bad.found}",
            soft_wrap=True,
        )
    if len(report.examples) > FIRST_EXAMPLES:
        terminal.out.print(f"  ... and {len(report.examples) - FIRST_EXAMPLES:,} more (--json)")
