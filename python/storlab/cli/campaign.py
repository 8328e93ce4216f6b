"""Functions shared by ``run``, ``try`` and ``resume``: progress, live page and final output."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from storlab.base.clock import utc_stamp
from storlab.base.errors import ExitCode, ResultError, with_fixes
from storlab.base.files import shell_word, storage_advice
from storlab.cli import conclusion, terminal
from storlab.cli.common import emit_json, report_error

if TYPE_CHECKING:
    from storlab.analysis.compare import Comparison
    from storlab.cli.documents import RunDocument
    from storlab.contracts.reporter import Reporter
    from storlab.lab.run.campaign import Summary
    from storlab.lab.study.file import LoadedStudy
    from storlab.live.page import LivePage
    from storlab.model.decision import Verdict
    from storlab.model.point import Plan, Point
    from storlab.model.result import RunRecord
    from storlab.results.store import ResultStore


def reporter_for(quiet: bool, as_json: bool, points: Iterable[Point] = ()) -> Reporter:
    """Return a progress reporter for stderr: a live view on a terminal, else one line per run.

    Args:
        quiet: Whether to print one line per run even on a terminal.
        as_json: Whether the command prints JSON; there is no live view then, either.
        points: Points of the campaign; runs are named by the parameters that distinguish them.
    """
    from storlab.analysis.run_names import RunNames
    from storlab.lab.run.progress import make_reporter

    return make_reporter(terminal.log, quiet or as_json, RunNames(points, repeats=0))


def reporter_of(plan: Plan, quiet: bool, as_json: bool, page: LivePage | None = None) -> Reporter:
    """Return a progress reporter for the runs of a plan, which also updates ``page`` if given."""
    from storlab.analysis.run_names import RunNames
    from storlab.lab.run.progress import make_reporter

    reporter = make_reporter(terminal.log, quiet or as_json, RunNames.of(plan))
    return reporter if page is None else page.beside(reporter)


@contextmanager
def live_page(
    wanted: bool,
    port: int,
    plan: Plan,
    directory: Path,
    earlier: Sequence[RunRecord] = (),
) -> Iterator[LivePage | None]:
    """Serve the live page in the browser while the context is open; yield the page.

    The page is served if ``wanted`` is true or a port is given. Otherwise None is yielded.
    """
    if not wanted and not port:
        yield None
        return
    from storlab.analysis.run_names import RunNames
    from storlab.live.page import LivePage

    def announce(url: str) -> None:
        terminal.log.print(f"live: {url}", soft_wrap=True)

    names = RunNames.of(plan)
    with LivePage(plan, directory, names, announce, port=port, earlier=earlier) as page:
        yield page


def new_directory(study_name: str) -> Path:
    """Return a path for a new result directory: ``results/<study>-<time>``."""
    slug = re.sub(r"[^a-z0-9]+", "-", study_name.lower()).strip("-")[:60] or "study"
    return Path("results") / f"{slug}-{utc_stamp()}"


def execute(
    loaded: LoadedStudy,
    plan: Plan,
    directory: Path,
    *,
    plan_hash: str | None = None,
    clean: bool,
    report: bool,
    live: bool,
    live_port: int,
    quiet: bool,
    as_json: bool,
    tables: Callable[[Comparison], None] | None = None,
) -> None:
    """Run a study into a new result directory, with progress, and print the outcome.

    Args:
        loaded: Study with its text.
        plan: Plan of the study.
        directory: Result directory, missing or empty.
        plan_hash: Hash of the plan that the user reviewed, as consent to overwrite devices.
        clean: Whether to remove data even if interrupted.
        report: Whether to write the brief.
        live: Whether to serve the live page.
        live_port: Port of the live page; another than 0 implies ``live``.
        quiet: Whether to print one line per run instead of the live view.
        as_json: Whether to print JSON instead of text.
        tables: Function that prints tables before the answer; not used with JSON.

    Raises:
        typer.Exit: As :func:`conclude`.
        StorlabError: The study cannot be run, see ``storlab.lab.run.session.run_study``.
    """
    from storlab.lab.preflight.questions import question_checks
    from storlab.lab.run.session import run_study
    from storlab.process.execution import StopRequest, ended_as_by_ctrl_c

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
                warnings=question_checks(loaded.study, plan),
            )
        conclude(
            store,
            summary,
            as_json=as_json,
            report=report,
            page=page,
            quiet=quiet,
            tables=tables,
        )


def conclude(
    store: ResultStore,
    summary: Summary,
    *,
    as_json: bool,
    report: bool,
    page: LivePage | None = None,
    quiet: bool = False,
    tables: Callable[[Comparison], None] | None = None,
) -> None:
    """Finish ``run`` or ``resume``: write the brief, print the outcome, update the live page.

    Args:
        store: Results of the campaign.
        summary: Result of this session.
        as_json: Whether to print JSON instead of text.
        report: Whether to write the brief.
        page: Live page to update.
        quiet: Whether to print no progress of the brief.
        tables: Function that prints tables before the answer; not used with JSON.

    Raises:
        typer.Exit: With code 6 if a run failed, 7 if interrupted, 10 if verification found wrong
            data (and no run failed), or 8 if only the brief could not be written.
    """
    from storlab.analysis.compare import compare
    from storlab.analysis.dataset import load_dataset

    data = load_dataset([store])
    records = data.records
    code = _exit_code(records, summary)
    comparison: Comparison | None = None
    verdicts: list[Verdict] = []
    brief, problem = None, None
    try:
        if code is not ExitCode.INTERRUPTED:
            comparison = compare(data)
            verdicts = conclusion.answers(comparison)
            if report and summary.missing == 0:
                with reporter_for(quiet, as_json) as progress:
                    progress.step("writing the brief")
                    brief = _brief(comparison)
    except KeyboardInterrupt:
        code, verdicts = ExitCode.INTERRUPTED, []
    except OSError as error:
        problem = unwritten_brief(store, error)
        code = ExitCode.RESULT if code is ExitCode.OK else code
    if page is not None:
        ended = _counted(records, summary) + (
            "; interrupted" if code is ExitCode.INTERRUPTED else ""
        )
        page.over(ended, conclusion.lines(verdicts), brief)
    if as_json:
        emit_json(_document(store, records, summary, brief, problem, code, verdicts))
    else:
        _print_runs(records, summary)
        if tables is not None and comparison is not None and code is not ExitCode.INTERRUPTED:
            tables(comparison)
        knees = conclusion.knees(comparison) if verdicts and comparison is not None else []
        _print_end(store, records, summary, brief, code, [*conclusion.lines(verdicts), *knees])
        if problem is not None:
            report_error(problem, as_json=False)
    if code is not ExitCode.OK:
        raise typer.Exit(int(code))


def _brief(comparison: Comparison) -> Path | None:
    if all(record.status != "finished" for record in comparison.dataset.records):
        return None
    from storlab.brief import write_brief

    return write_brief(comparison.dataset.stores[0], whole=comparison)


def unwritten_brief(store: ResultStore, error: OSError) -> ResultError:
    """Make the error for a brief that cannot be written, which says that all runs are stored."""
    return ResultError(
        str(error.filename or store.directory),
        f"the brief cannot be written: {error.strerror or error}",
        f"the runs are stored; {storage_advice(error)}, then "
        f"`storlab report {shell_word(store.directory)}` (--out writes it elsewhere)",
    )


def _exit_code(records: Sequence[RunRecord], summary: Summary) -> ExitCode:
    if summary.interrupted:
        return ExitCode.INTERRUPTED
    if any(record.status == "failed" for record in records):
        return ExitCode.RUN_FAILED
    return ExitCode.DISAGREE if _with_wrong_data(records) else ExitCode.OK


def _with_wrong_data(records: Sequence[RunRecord]) -> list[RunRecord]:
    """Return the runs whose verification read data that differs from what had been written."""
    return [r for r in records if any(flag.kind == "verify-failed" for flag in r.flags)]


def _document(
    store: ResultStore,
    records: Sequence[RunRecord],
    summary: Summary,
    brief: Path | None,
    problem: ResultError | None,
    code: ExitCode,
    verdicts: Sequence[Verdict],
) -> RunDocument:
    from storlab.cli.documents import FailedRun, RunCounts, RunDocument, RunFlag
    from storlab.contracts.document import Error

    failed = [record for record in records if record.status == "failed"]
    return RunDocument(
        directory=store.directory,
        plan_hash=store.plan.plan_hash,
        exit_code=code,
        interrupted=code is ExitCode.INTERRUPTED,
        runs=RunCounts(
            planned=summary.planned,
            finished=sum(record.status == "finished" for record in records),
            failed=len(failed),
            missing=summary.missing,
            this_session=len(summary.records),
        ),
        failures=[
            FailedRun(run_id=record.run_id, target=record.target, failure=record.failure)
            for record in failed
        ],
        flags=[
            RunFlag(run_id=record.run_id, kind=flag.kind, message=flag.message)
            for record in records
            for flag in record.flags
        ],
        removed_data_files=summary.removed,
        verdicts=conclusion.as_json(verdicts),
        brief=brief,
        brief_error=None if problem is None else Error.of(problem),
    )


def _counted(records: Sequence[RunRecord], summary: Summary) -> str:
    failed = sum(record.status == "failed" for record in records)
    return (
        f"{len(records) - failed} of {summary.planned} runs finished, {failed} failed, "
        f"{summary.missing} missing"
    )


def _failed_line(record: RunRecord) -> tuple[str, str]:
    """Return a line of text about a failed run, and how to fix the failure."""
    message, fix = ("failed", "")
    if record.failure is not None:
        message, fix = record.failure.message, record.failure.fix
    return f"failed: {record.run_id} on {record.target}: {message}", fix


def _print_runs(records: Sequence[RunRecord], summary: Summary) -> None:
    """Print what happened to the runs: failures, wrong data, flags, and how many finished."""
    failed = [record for record in records if record.status == "failed"]
    for line in with_fixes([_failed_line(record) for record in failed]):
        terminal.log.print(line, soft_wrap=True)
    for record in _with_wrong_data(records):
        terminal.log.print(f"wrong data: {record.run_id} on {record.target}", soft_wrap=True)
    kinds = Counter(kind for record in records for kind in {flag.kind for flag in record.flags})
    for kind, count in sorted(kinds.items()):
        terminal.log.print(f"flag: {kind} on {count:,} of {len(records):,} runs", soft_wrap=True)
    terminal.out.print(_counted(records, summary), soft_wrap=True)


def _print_end(
    store: ResultStore,
    records: Sequence[RunRecord],
    summary: Summary,
    brief: Path | None,
    code: ExitCode,
    sentences: Sequence[str],
) -> None:
    """Print the answer, where results and brief are, and how to continue or repeat runs."""
    conclusion.print_lines(sentences)
    terminal.out.print(f"results: {store.directory}", soft_wrap=True)
    if brief is not None:
        terminal.out.print(f"brief: {brief}", soft_wrap=True)
    if summary.interrupted:
        terminal.out.print("interrupted; finished runs are stored. Continue with:", soft_wrap=True)
        terminal.out.print(f"  storlab resume {shell_word(store.directory)}", soft_wrap=True)
    elif code is ExitCode.INTERRUPTED:
        terminal.out.print(
            "interrupted; all runs are stored. Write the brief with:", soft_wrap=True
        )
        terminal.out.print(f"  storlab report {shell_word(store.directory)}", soft_wrap=True)
    elif any(record.status == "failed" for record in records):
        terminal.out.print("measure the failed runs again with:", soft_wrap=True)
        terminal.out.print(
            f"  storlab resume --retry-failed {shell_word(store.directory)}", soft_wrap=True
        )
