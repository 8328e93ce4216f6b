"""``storlab capacity``."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich import box
from rich.table import Table

from storlab.base.clock import utc_stamp
from storlab.base.errors import ExitCode
from storlab.cli.common import JsonOption, StudyArgument, console, emit_json

if TYPE_CHECKING:
    from storlab.analysis.capacity import Capacity, CaseResult, Rule, Tried
    from storlab.lab.results.store import ResultStore
    from storlab.lab.run.capacity import SearchSession, Try


def capacity(
    study: StudyArgument,
    threshold: Annotated[
        float,
        typer.Option("--threshold", min=1, max=100, help="Least accelerator utilisation, percent."),
    ] = 90.0,
    target: Annotated[
        str | None, typer.Option("--target", metavar="NAME", help="Only this target.")
    ] = None,
    most: Annotated[
        int | None, typer.Option("--max", min=1, help="Try no more accelerators than that.")
    ] = None,
    repeats: Annotated[
        int,
        typer.Option("--repeats", min=2, help="Runs of each number; up to three times as many."),
    ] = 3,
    out: Annotated[
        Path | None,
        typer.Option("--out", metavar="DIR", help="Result directory to make, or to go on in."),
    ] = None,
    quiet: Annotated[bool, typer.Option("--quiet", help="One line per run, no live view.")] = False,
    as_json: JsonOption = False,
) -> None:
    """Search for the most accelerators that each target keeps at or above a utilisation.

    Doubles the accelerators of each training workload until a target cannot keep them busy, then
    bisects. A number counts as kept when the 95 % interval of its mean utilisation lies at or above
    the threshold; one whose interval holds the threshold gets up to twice as many runs more. The
    list of accelerators in the study is not used. An interrupted search goes on with the same
    --out.

    Example: storlab capacity studies/unet3d.toml --threshold 90 --out results/capacity
    """
    from storlab.analysis.capacity import Rule, survey
    from storlab.cli.campaign import reporter_for
    from storlab.lab.run.capacity import capacity_cases, search, write_capacity
    from storlab.lab.study.file import load_study
    from storlab.process.execution import StopRequest

    loaded = load_study(study)
    rule = Rule(threshold, repeats)
    cases = capacity_cases(loaded, target, most)
    directory = out or Path("results") / f"capacity-{study.stem}-{utc_stamp()}"

    def look(store: ResultStore | None) -> Capacity:
        found = survey(cases, store.records() if store else [], rule)
        if store is not None:
            write_capacity(store, found.as_dict())
        return found

    def next_tries(store: ResultStore | None) -> list[Try]:
        return look(store).tries

    with StopRequest().installed() as stop:
        session = search(
            loaded, directory, next_tries, reporter=lambda: reporter_for(quiet, as_json), stop=stop
        )
    found = look(session.store)
    code = _exit_code(session)
    if as_json:
        emit_json({**found.as_dict(), "directory": session.store.directory, "exit_code": int(code)})
    else:
        _print(found, session, study)
    if code is not ExitCode.OK:
        raise typer.Exit(int(code))


def _exit_code(session: SearchSession) -> ExitCode:
    if session.interrupted:
        return ExitCode.INTERRUPTED
    return ExitCode.RUN_FAILED if session.failed else ExitCode.OK


def _print(found: Capacity, session: SearchSession, study: Path) -> None:
    told = _telling(found.cases)
    for case in found.cases:
        console.print()
        console.print(_title(case, told), style="bold", soft_wrap=True)
        console.print(_table(case, found.rule))
        console.print(_answer(case, found.rule), style="bold", soft_wrap=True)
        common = _common_flags(case)
        if common:
            console.print(f"  flagged throughout: {', '.join(common)}", soft_wrap=True)
        for note in case.notes():
            console.print(f"  note: {note}", soft_wrap=True)
    console.print()
    console.print(f"results: {session.store.directory}", soft_wrap=True)
    if session.interrupted:
        console.print("interrupted; finished runs are stored. Go on with:", soft_wrap=True)
        console.print(f"  storlab capacity {study} --out {session.store.directory}", soft_wrap=True)


def _telling(cases: list[CaseResult]) -> list[str]:
    """Parameters that tell the cases apart."""

    from storlab.lab.run.capacity import PARAMETER

    params = [case.case.point.params for case in cases]
    names = list(dict.fromkeys(n for each in params for n in each))
    return [n for n in names if n != PARAMETER and len({str(each.get(n)) for each in params}) > 1]


def _title(case: CaseResult, told: list[str]) -> str:
    point = case.case.point
    said = [f"{name} = {point.params[name]}" for name in told if name in point.params]
    return ", ".join([f"{point.target}: {point.workload}", *said])


def _common_flags(case: CaseResult) -> list[str]:
    """What says nothing about one number, since it is said of all."""
    if len(case.tried) < 2:
        return []
    return sorted(set.intersection(*(set(tried.flags) for tried in case.tried)))


def _answer(case: CaseResult, rule: Rule) -> str:
    largest = case.largest
    number = 0 if largest is None else largest.accelerators
    at_least = "at least " if not case.first_not_kept else ""
    so_far = "" if case.next is None else "so far, "
    plural = "" if number == 1 else "s"
    return (
        f"{so_far}{at_least}{number:,} accelerator{plural} at {rule.threshold_percent:g} % or more"
    )


def _table(case: CaseResult, rule: Rule) -> Table:
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    for column in ("accelerators", "utilisation", "95 % interval", "runs"):
        table.add_column(column, justify="right")
    table.add_column(f"at {rule.threshold_percent:g} % or more")
    table.add_column("flags")
    common = _common_flags(case)
    for tried in case.tried:
        table.add_row(
            f"{tried.accelerators:,}",
            "" if tried.interval is None else f"{tried.interval.estimate:.1f} %",
            _interval(tried),
            f"{len(tried.run_ids)}",
            _VERDICTS[tried.verdict],
            ", ".join(flag for flag in tried.flags if flag not in common),
        )
    return table


_VERDICTS: dict[Any, str] = {
    "kept": "yes",
    "not-kept": "no",
    "undecided": "undecided",
    "failed": "failed",
    None: "more runs needed",
}


def _interval(tried: Tried) -> str:
    interval = tried.interval
    if interval is None or interval.low is None or interval.high is None:
        return ""
    return f"{interval.low:.1f} to {interval.high:.1f} %"
