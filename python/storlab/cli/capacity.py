"""Implementation of the ``storlab capacity`` command."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from storlab.base.clock import utc_stamp
from storlab.base.errors import ExitCode
from storlab.base.files import shell_word
from storlab.cli import completion, terminal
from storlab.cli.common import JsonOption, QuietOption, StudyArgument, emit_json

if TYPE_CHECKING:
    from rich.table import Table

    from storlab.analysis.capacity import Capacity, CaseResult, Rule, Tried, Try
    from storlab.contracts.reporter import Reporter
    from storlab.lab.run.capacity import SearchSession
    from storlab.results.store import ResultStore


TargetOption = Annotated[
    str | None,
    typer.Option(
        "--target", metavar="NAME", help="Only this target.", autocompletion=completion.targets
    ),
]


def capacity(
    study: StudyArgument,
    threshold: Annotated[
        float,
        typer.Option(
            "--threshold",
            min=1,
            max=100,
            help="Lowest acceptable accelerator utilisation in percent.",
        ),
    ] = 90.0,
    target: TargetOption = None,
    most: Annotated[
        int | None, typer.Option("--max", min=1, help="Largest number of accelerators to try.")
    ] = None,
    repeats: Annotated[
        int,
        typer.Option(
            "--repeats",
            min=2,
            help="Runs of each number of accelerators; up to three times as many if needed.",
        ),
    ] = 3,
    out: Annotated[
        Path | None,
        typer.Option(
            "--out",
            metavar="DIR",
            help="Result directory to make or to continue. Missing folders are made.",
        ),
    ] = None,
    quiet: QuietOption = False,
    as_json: JsonOption = False,
) -> None:
    """Search for the most accelerators that each target keeps at a given utilisation.

    Doubles the accelerators of each training workload until a target cannot keep them busy, then
    bisects. A target keeps a number of accelerators busy if the 95 % interval of their mean
    utilisation lies at or above the threshold. If the interval includes the threshold, up to twice
    as many further runs are made. The study's own list of accelerators is not used. To continue an
    interrupted search, give the same --out again. `storlab init --from training study.toml` writes
    a study to begin with.

    Example: storlab capacity study.toml --threshold 90 --out results/capacity
    """
    from storlab.analysis.capacity import Rule, evaluate_searches
    from storlab.cli.campaign import reporter_for
    from storlab.lab.run.capacity import capacity_cases, search, write_capacity
    from storlab.lab.study.file import load_study
    from storlab.process.execution import StopRequest

    loaded = load_study(study)
    rule = Rule(threshold, repeats)
    cases = capacity_cases(loaded, target, most)
    directory = out or Path("results") / f"capacity-{study.stem}-{utc_stamp()}"

    def look(store: ResultStore | None) -> Capacity:
        result = evaluate_searches(cases, store.records() if store else [], rule)
        if store is not None:
            write_capacity(store, result.as_dict())
        return result

    def next_tries(store: ResultStore | None) -> list[Try]:
        return look(store).tries

    def reporter() -> Reporter:
        return reporter_for(quiet, as_json, [point for case in cases for point in case.two])

    with StopRequest().installed() as stop:
        session = search(loaded, directory, next_tries, reporter=reporter, stop=stop)
    result = look(session.store)
    code = _exit_code(session)
    if as_json:
        from storlab.cli.documents import CapacityDocument

        emit_json(
            CapacityDocument(
                **result.as_dict(), directory=session.store.directory, exit_code=int(code)
            )
        )
    else:
        _print(result, session, study)
    if code is not ExitCode.OK:
        raise typer.Exit(int(code))


def _exit_code(session: SearchSession) -> ExitCode:
    if session.interrupted:
        return ExitCode.INTERRUPTED
    return ExitCode.RUN_FAILED if session.failed else ExitCode.OK


def _print(result: Capacity, session: SearchSession, study: Path) -> None:
    names = _different_parameters(result.cases)
    for case in result.cases:
        terminal.out.print()
        terminal.out.print(_title(case, names), style="bold", soft_wrap=True)
        terminal.out.print(_table(case, result.rule))
        terminal.out.print(_answer(case, result.rule), style="bold", soft_wrap=True)
        common = _common_flags(case)
        if common:
            terminal.out.print(f"  flagged throughout: {', '.join(common)}", soft_wrap=True)
        for note in case.notes():
            terminal.out.print(f"  note: {note}", soft_wrap=True)
    terminal.out.print()
    terminal.out.print(f"results: {session.store.directory}", soft_wrap=True)
    if session.interrupted:
        terminal.out.print("interrupted; finished runs are stored. Continue with:", soft_wrap=True)
        terminal.out.print(
            f"  storlab capacity {shell_word(study)} --out {shell_word(session.store.directory)}",
            soft_wrap=True,
        )


def _different_parameters(cases: list[CaseResult]) -> list[str]:
    """Return the names of the parameters whose values differ between the searches."""
    searched = {case.case.search.parameter for case in cases}
    params = [case.case.point.params for case in cases]
    names = list(dict.fromkeys(n for values in params for n in values))
    return [
        n for n in names if n not in searched and len({str(values.get(n)) for values in params}) > 1
    ]


def _title(case: CaseResult, names: list[str]) -> str:
    point = case.case.point
    parts = [f"{name} = {point.params[name]}" for name in names if name in point.params]
    if point.clients is not None:
        parts.append(f"{point.clients} client{'s' * (point.clients > 1)}")
    return ", ".join([f"{point.target}: {point.workload}", *parts])


def _common_flags(case: CaseResult) -> list[str]:
    """Return the flags that every tried number of accelerators has; they are printed only once."""
    if len(case.tried) < 2:
        return []
    return sorted(set.intersection(*(set(tried.flags) for tried in case.tried)))


def _answer(case: CaseResult, rule: Rule) -> str:
    largest = case.largest
    number = 0 if largest is None else largest.number
    at_least = "at least " if not case.first_not_kept else ""
    so_far = "" if case.next is None else "so far, "
    search = case.case.search
    noun = search.noun if number == 1 else search.parameter
    return f"{so_far}{at_least}{number:,} {noun} at {rule.threshold_percent:g} % or more"


def _table(case: CaseResult, rule: Rule) -> Table:
    from storlab.words.outcomes import UNDECIDED

    verdicts = {**_VERDICTS, "within noise": UNDECIDED}
    table = terminal.table(pad_edge=False)
    for column in (case.case.search.parameter, "utilisation", "95 % interval", "runs"):
        table.add_column(column, justify="right")
    table.add_column(f"at {rule.threshold_percent:g} % or more")
    table.add_column("flags")
    common = _common_flags(case)
    for tried in case.tried:
        table.add_row(
            f"{tried.number:,}",
            "" if tried.interval is None else f"{tried.interval.estimate:.1f} %",
            _interval(tried),
            f"{len(tried.run_ids)}",
            verdicts[tried.verdict],
            ", ".join(flag for flag in tried.flags if flag not in common),
        )
    return table


_VERDICTS = {"kept": "yes", "not-kept": "no", "failed": "failed", None: "more runs needed"}


def _interval(tried: Tried) -> str:
    interval = tried.interval
    if interval is None or interval.low is None or interval.high is None:
        return ""
    return f"{interval.low:.1f} to {interval.high:.1f} %"
