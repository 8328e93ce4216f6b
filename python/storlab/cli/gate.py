"""Implementation of the ``storlab gate`` command."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import typer

from storlab.base.errors import ExitCode, UsageError
from storlab.cli import completion, terminal
from storlab.cli.common import JsonOption, emit_json, write_output

if TYPE_CHECKING:
    from collections.abc import Sequence

    from storlab.analysis.compare import Comparison
    from storlab.analysis.environments import Difference
    from storlab.analysis.gate import Gate, Verdict
    from storlab.model.gate import GateRule
    from storlab.results.store import ResultStore

CODES = {
    "held": ExitCode.OK,
    "broken": ExitCode.DISAGREE,
    "inconclusive": ExitCode.INCONCLUSIVE,
}
STYLES = {"held": "green", "broken": "bold red", "inconclusive": "yellow"}

BaselineOption = Annotated[
    str | None,
    typer.Option(
        "--baseline",
        metavar="DIR|NAME",
        help="Baseline for rules such as `0.95 x baseline`: a result directory, or a name "
        "stored with --save.",
        autocompletion=completion.baselines,
    ),
]
AcceptOption = Annotated[
    list[str] | None,
    typer.Option(
        "--accept",
        metavar="FIELD",
        help="Compare although this field of environment or settings differs from the "
        "baseline's, such as kernel or cpu; it is recorded. May be repeated.",
    ),
]


class _Saved(NamedTuple):
    """Outcome of --save: file of the baseline, or the reason why none was saved."""

    file: Path | None = None
    replaced: bool = False  # whether a baseline of this name existed
    unsaved: str | None = None


def gate(
    results: Annotated[
        Path,
        typer.Argument(
            metavar="RESULTS", help="A result directory.", autocompletion=completion.results
        ),
    ],
    baseline: BaselineOption = None,
    rules: Annotated[
        Path | None,
        typer.Option(
            "--rules", metavar="FILE", help="File whose [[gate]] tables replace the study's."
        ),
    ] = None,
    accept: AcceptOption = None,
    save: Annotated[
        str | None,
        typer.Option("--save", metavar="NAME", help="Make RESULTS the baseline of this name."),
    ] = None,
    junit: Annotated[
        Path | None,
        typer.Option(
            "--junit", metavar="FILE", help="Write JUnit XML for a CI. Missing folders are made."
        ),
    ] = None,
    markdown: Annotated[
        Path | None,
        typer.Option(
            "--markdown",
            metavar="FILE",
            help="Write Markdown for a pull request. Missing folders are made.",
        ),
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Check results against rules: bounds that are absolute or multiples of a baseline.

    A rule is held or broken if the whole confidence interval lies on one side of its bound.
    Otherwise it is inconclusive, and storlab prints how many more repeats would decide it. Exit
    code 0 if all rules are held, 10 if one is broken, 12 if none is broken and one is inconclusive.
    With --save and without --baseline, bounds that refer to a baseline are not checked.

    Example: storlab gate results/nightly-20261122 --baseline stable --markdown gate.md
    """
    from storlab.lab.study.file import load_rules
    from storlab.results.baselines import check_name, open_baseline, save_baseline, saved_before
    from storlab.results.store import ResultStore

    if save is not None:
        check_name(save)
    if accept and baseline is None:
        what = "there is no baseline whose differences could be accepted"
        raise UsageError("--accept", what, "add --baseline DIR, or omit --accept")
    store = ResultStore.open(results)
    replaced = save is not None and saved_before(store.directory, save) is not None
    held_to = load_rules(rules) if rules is not None else store.study.gate
    if save is not None and baseline is None:
        held_to = _without_baseline(held_to)
    if save is not None and baseline is None and not any(rule.bounds for rule in held_to):
        _print(None, [], results, None, _Saved(save_baseline(store, save), replaced), as_json)
        return
    other = None if baseline is None else open_baseline(baseline, results)
    accepted = [] if other is None else _compared(store, other, accept or [])
    if not held_to:
        what = "is missing, and the study has no [[gate]] tables"
        raise UsageError("--rules", what, "write [[gate]] tables to a file, and add --rules FILE")
    judged = _judged(held_to, store, other)
    title = store.study.study.name
    _write(title, judged, accepted, junit, markdown)
    # Do not save results that break a rule. save_baseline would refuse failed runs with an error,
    # but a broken rule is the plainer reason.
    broken = judged.verdict == "broken"
    saved = _Saved()
    if save is not None and broken:
        saved = _Saved(unsaved=_unsaved(save, results))
    elif save is not None:
        saved = _Saved(save_baseline(store, save), replaced)
    _print(judged, accepted, results, other, saved, as_json)
    raise typer.Exit(CODES[judged.verdict])


def _unsaved(name: str, results: Path) -> str:
    """Say that results are not saved as a baseline because they break a rule, and what to do."""
    from storlab.results.files import again

    return (
        f"baseline {name}, since these results break a rule; if runs failed, {again(results)}; "
        "otherwise correct what is slower and measure again"
    )


def _compared(here: ResultStore, there: ResultStore, accept: Sequence[str]) -> list[Difference]:
    """Return the differences in environment and settings between results and baseline.

    Raises:
        UsageError: --accept does not name one of the differences, or both are the same directory.
    """
    from storlab.analysis.environments import differences, unaccepted
    from storlab.exchange.gate_report import difference_text

    if here.directory.samefile(there.directory):
        what = f"{there.directory} is also the result directory to check"
        raise UsageError("--baseline", what, "name the directory of earlier results")

    changed = differences(here, there)
    if left := unaccepted(changed, accept):
        first, *rest = left
        more = f"; and {len(rest)} more: {', '.join(d.field for d in rest)}" if rest else ""
        options = " ".join(f"--accept {shlex.quote(difference.field)}" for difference in left)
        raise UsageError(
            "--baseline",
            f"it was measured under other conditions: {difference_text(first)}{more}",
            f"measure both under equal conditions, or add {options}",
        )
    return changed


def _without_baseline(rules: Sequence[GateRule]) -> list[GateRule]:
    """Remove bounds that refer to a baseline from rules, and print a note if there were any."""
    from storlab.analysis.gate import without_baseline

    left = [without_baseline(rule) for rule in rules]
    if left != list(rules):
        terminal.log.print("not checked: bounds that refer to a baseline (add --baseline DIR)")
    return left


def _judged(rules: Sequence[GateRule], store: ResultStore, other: ResultStore | None) -> Gate:
    from storlab.analysis.gate import judge

    return judge(rules, _comparison(store), None if other is None else _comparison(other))


def _comparison(store: ResultStore) -> Comparison:
    from storlab.analysis.compare import compare
    from storlab.analysis.dataset import load_dataset

    return compare(load_dataset([store]), alone=True)


def _write(
    title: str,
    judged: Gate,
    accepted: Sequence[Difference],
    junit: Path | None,
    markdown: Path | None,
) -> None:
    from storlab.exchange.gate_report import to_junit, to_markdown

    if junit is not None:
        write_output(junit, to_junit(title, judged, accepted))
    if markdown is not None:
        write_output(markdown, to_markdown(title, judged, accepted).encode())


def _print(
    judged: Gate | None,
    accepted: Sequence[Difference],
    results: Path,
    other: ResultStore | None,
    saved: _Saved,
    as_json: bool,
) -> None:
    if not as_json:
        if judged is not None:
            _print_verdicts(judged, accepted)
        if saved.file is not None:
            former = ", in place of the former baseline of this name" if saved.replaced else ""
            terminal.out.print(f"saved: {saved.file}{former}", soft_wrap=True)
        if saved.unsaved is not None:
            terminal.out.print(f"not saved: {saved.unsaved}", soft_wrap=True)
        return
    from storlab.cli.documents import AcceptedDifference, GateDocument

    rules: list[Any] = [] if judged is None else [rule.as_dict() for rule in judged.rules]
    emit_json(
        GateDocument(
            directory=results,
            baseline=None if other is None else other.directory,
            verdict=None if judged is None else judged.verdict,
            confidence=None if judged is None else judged.confidence,
            accepted=[AcceptedDifference.model_validate(difference) for difference in accepted],
            rules=rules,
            checks=[] if judged is None else judged.checks,
            saved=saved.file,
            replaced=saved.replaced,
            unsaved=saved.unsaved,
        )
    )


def _print_verdicts(judged: Gate, accepted: Sequence[Difference]) -> None:
    from storlab.exchange.gate_report import difference_text, line, rule_line, summary

    for rule in judged.rules:
        _print_verdict(rule.verdict, rule_line(rule))
        for check in rule.checks:
            _print_verdict(check.verdict, line(check), indent="  ")
    for difference in accepted:
        terminal.out.print(f"accepted: {difference_text(difference)}", soft_wrap=True)
    terminal.out.print(summary(judged), soft_wrap=True)


def _print_verdict(verdict: Verdict, line: str, indent: str = "") -> None:
    word, _, rest = line.partition(":")
    text = terminal.Text(f"{indent}{word}", style=STYLES[verdict])
    terminal.out.print(text.append(f":{rest}", style="default"), soft_wrap=True)
