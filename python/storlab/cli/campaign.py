"""What ``run`` and ``resume`` share: how a session of a campaign ends."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import typer

from storlab.base.errors import ExitCode, ResultError
from storlab.cli.common import console, emit_json, log, report_error

if TYPE_CHECKING:
    from storlab.contracts.reporter import Reporter
    from storlab.lab.results.store import ResultStore
    from storlab.lab.run.campaign import Summary
    from storlab.model.result import RunRecord


def reporter_for(quiet: bool, as_json: bool) -> Reporter:
    """Progress on stderr: live on a terminal, a line per run elsewhere."""

    from storlab.lab.run.progress import make_reporter

    return make_reporter(log, quiet or as_json)


def conclude(store: ResultStore, summary: Summary, *, as_json: bool, report: bool) -> None:
    """Write the brief, say how it went, and end with the campaign's exit code.

    Raises typer.Exit with 6 after a failed run, 7 after an interruption, 10 where verification
    found wrong data and no run failed, and 8 where all is well but for a brief that has no room.
    """
    code = _exit_code(store, summary)
    brief, problem = None, None
    try:
        if report and summary.missing == 0:
            brief = _brief(store)
    except KeyboardInterrupt:
        code = ExitCode.INTERRUPTED
    except OSError as error:
        problem = unwritten_brief(store, error)
        code = ExitCode.RESULT if code is ExitCode.OK else code
    if as_json:
        told = _as_dict(store, summary, brief, code)
        emit_json({**told, "brief_error": problem.as_dict() if problem else None})
    else:
        _print(store, summary, brief, code)
        if problem is not None:
            report_error(problem, as_json=False)
    if code is not ExitCode.OK:
        raise typer.Exit(int(code))


def _brief(store: ResultStore) -> str | None:
    if all(record.status != "finished" for record in store.records()):
        return None
    from storlab.brief import write_brief

    return str(write_brief(store))


def unwritten_brief(store: ResultStore, error: OSError) -> ResultError:
    """What to say of a brief for which there is no room: the runs are stored all the same."""
    return ResultError(
        str(error.filename or store.directory),
        f"the brief cannot be written: {error.strerror or error}",
        f"the runs are stored; make room, then `storlab report {store.directory}` (--out writes "
        "it elsewhere)",
    )


def _exit_code(store: ResultStore, summary: Summary) -> ExitCode:
    if summary.interrupted:
        return ExitCode.INTERRUPTED
    records = store.records()
    if any(record.status == "failed" for record in records):
        return ExitCode.RUN_FAILED
    return ExitCode.DISAGREE if _with_wrong_data(records) else ExitCode.OK


def _with_wrong_data(records: Sequence[RunRecord]) -> list[RunRecord]:
    """Runs in which verification found other data than had been written."""
    return [r for r in records if any(flag.kind == "verify-failed" for flag in r.flags)]


def _as_dict(
    store: ResultStore, summary: Summary, brief: str | None, code: ExitCode
) -> dict[str, Any]:
    records = store.records()
    return {
        "directory": str(store.directory),
        "plan_hash": store.plan.plan_hash,
        "exit_code": int(code),
        "interrupted": code is ExitCode.INTERRUPTED,
        "runs": {
            "planned": summary.planned,
            "finished": sum(record.status == "finished" for record in records),
            "failed": sum(record.status == "failed" for record in records),
            "missing": summary.missing,
            "this_session": len(summary.records),
        },
        "failures": [
            {"run_id": record.run_id, "target": record.target, "failure": record.failure}
            for record in records
            if record.status == "failed"
        ],
        "flags": [
            {"run_id": record.run_id, "kind": flag.kind, "message": flag.message}
            for record in records
            for flag in record.flags
        ],
        "removed_data_files": summary.removed,
        "brief": brief,
    }


def _print(store: ResultStore, summary: Summary, brief: str | None, code: ExitCode) -> None:
    records = store.records()
    failed = [record for record in records if record.status == "failed"]
    for record in failed:
        message = record.failure.message if record.failure else "failed"
        log.print(f"failed: {record.run_id} on {record.target}: {message}", soft_wrap=True)
    for record in _with_wrong_data(records):
        log.print(f"wrong data: {record.run_id} on {record.target}", soft_wrap=True)
    kinds = Counter(kind for record in records for kind in {flag.kind for flag in record.flags})
    for kind, count in sorted(kinds.items()):
        log.print(f"flag: {kind} on {count:,} of {len(records):,} runs", soft_wrap=True)
    console.print(
        f"{len(records) - len(failed)} of {summary.planned} runs finished, {len(failed)} failed, "
        f"{summary.missing} missing",
        soft_wrap=True,
    )
    console.print(f"results: {store.directory}", soft_wrap=True)
    if brief is not None:
        console.print(f"brief: {brief}", soft_wrap=True)
    if summary.interrupted:
        console.print("interrupted; finished runs are stored. Go on with:", soft_wrap=True)
        console.print(f"  storlab resume {store.directory}", soft_wrap=True)
    elif code is ExitCode.INTERRUPTED:
        console.print("interrupted; all runs are stored. Write the brief with:", soft_wrap=True)
        console.print(f"  storlab report {store.directory}", soft_wrap=True)
    elif failed:
        console.print("measure the failed runs again with:", soft_wrap=True)
        console.print(f"  storlab resume --retry-failed {store.directory}", soft_wrap=True)
