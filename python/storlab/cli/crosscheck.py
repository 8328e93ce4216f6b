"""Implementation of the ``storlab crosscheck`` command."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from storlab.base.clock import utc_stamp
from storlab.base.errors import ExitCode
from storlab.base.units import format_quantity
from storlab.cli import completion, terminal
from storlab.cli.common import (
    JsonOption,
    OutOption,
    PlanHashOption,
    QuietOption,
    StudyArgument,
    emit_json,
)

if TYPE_CHECKING:
    from rich.table import Table

    from storlab.analysis.agreement import Agreement, PointAgreement
    from storlab.lab.run.campaign import Summary


def crosscheck(
    study: StudyArgument,
    repeats: Annotated[
        int, typer.Option("--repeats", min=2, help="Runs of each point with each engine.")
    ] = 5,
    point: Annotated[
        list[str] | None,
        typer.Option(
            "--point",
            help="Check only these points: terms such as jobs=4,block_size=256KiB,target=disk, "
            "or an id "
            "of `storlab plan --json`. May be given several times.",
        ),
    ] = None,
    reference: Annotated[
        str | None,
        typer.Option(
            "--reference",
            help="Engine to compare with; by default fio for block and warp for object workloads.",
            autocompletion=completion.among("storlab.contracts.registry:ENGINES"),
        ),
    ] = None,
    out: OutOption = None,
    plan_hash: PlanHashOption = None,
    quiet: QuietOption = False,
    as_json: JsonOption = False,
) -> None:
    """Run the same points by the native and a reference engine, and test whether they agree.

    Compares throughput, operation rate, mean and tail latency, each with the interval of its ratio.
    CPU time per operation is printed, too. Exit code 10 if a difference exceeds noise and margin,
    12 if there are too few repeats to decide; the number of repeats needed is printed then.
    --plan-hash takes the hash that `storlab plan` prints for the study.

    Example: storlab crosscheck studies/demo.toml --repeats 5 --point target="disk file",jobs=4
    """
    from storlab.analysis.agreement import agreement
    from storlab.cli.campaign import reporter_of
    from storlab.lab.plan.client_devices import plan_with_devices
    from storlab.lab.plan.crosscheck import crosscheck_plan, reference_of
    from storlab.lab.plan.plan import make_plan
    from storlab.lab.run.session import run_study
    from storlab.lab.study.file import load_study
    from storlab.process.execution import StopRequest

    loaded = load_study(study)
    base = plan_with_devices(loaded.study, make_plan(loaded), Path.cwd())
    reference = reference or reference_of(base, point or ())
    plan = crosscheck_plan(base, reference, repeats, point or ())
    if plan_hash == base.plan_hash:
        plan_hash = plan.plan_hash  # both plans overwrite the same devices, so the consent is valid
    directory = out or Path("results") / f"crosscheck-{study.stem}-{utc_stamp()}"
    with StopRequest().installed() as stop:
        store, summary = run_study(
            loaded,
            plan,
            directory,
            plan_hash=plan_hash,
            reporter=lambda: reporter_of(plan, quiet, as_json),
            stop=stop,
        )
    agreed = agreement(store, reference)
    if as_json:
        from storlab.cli.documents import CrosscheckDocument

        emit_json(
            CrosscheckDocument(
                **agreed.as_dict(),
                directory=store.directory,
                planned=summary.planned,
                missing=summary.missing,
                interrupted=summary.interrupted,
                failed=len(summary.failed),
            )
        )
    else:
        _print(agreed)
        terminal.out.print(f"results: {store.directory}", soft_wrap=True)
    raise typer.Exit(_exit_code(agreed, summary))


def _exit_code(agreed: Agreement, summary: Summary) -> int:
    if summary.interrupted:
        return int(ExitCode.INTERRUPTED)
    if summary.failed:
        return int(ExitCode.RUN_FAILED)
    return int(_CODES[agreed.verdict])


_CODES = {
    "agree": ExitCode.OK,
    "differ": ExitCode.DISAGREE,
    "inconclusive": ExitCode.INCONCLUSIVE,
}


def _print(agreed: Agreement) -> None:
    for point in agreed.points:
        terminal.out.print()
        terminal.out.print(_title(point), style="bold", soft_wrap=True)
        terminal.out.print(_table(point, agreed.reference))
        for note in point.notes:
            terminal.out.print(f"  note: {note}", soft_wrap=True)
        for run_id in point.failed:
            terminal.out.print(f"  failed: {run_id}", style="red", soft_wrap=True)
    terminal.out.print()
    counts = agreed.counts()
    terminal.out.print(
        f"{_headline(agreed)}: of {counts['judged']} metrics {counts['agree']} agree "
        f"({counts['equivalent']} shown to be equivalent), {counts['differ']} differ, "
        f"{counts['inconclusive']} are inconclusive",
        style="bold",
        soft_wrap=True,
    )
    if advice := _advice(agreed):
        terminal.out.print(advice, soft_wrap=True)


def _headline(agreed: Agreement) -> str:
    if agreed.verdict == "agree":
        return f"native and {agreed.reference} agree"
    if agreed.verdict == "differ":
        return f"native and {agreed.reference} DO NOT AGREE"
    unknown = sum(point.verdict == "inconclusive" for point in agreed.points)
    why = "TOO FEW RUNS" if agreed.too_few else "TOO NOISY"
    return (
        f"{why} TO TELL whether native and {agreed.reference} agree, at {unknown} of "
        f"{len(agreed.points)} points"
    )


def _advice(agreed: Agreement) -> str:
    """Say how an inconclusive crosscheck could be decided; empty if it is decided."""
    from storlab.analysis.repeats import MOST

    if agreed.verdict != "inconclusive":
        return ""
    if agreed.too_few:
        return "each point needs at least two finished runs of each engine"
    if agreed.needed is None:
        return f"{MOST:,} repeats would not decide it: make runs longer, so that they spread less"
    more = max(1, agreed.needed - agreed.repeats)
    return (
        f"about {more:,} more repeats of each engine would decide it, if they spread as these did: "
        f"--repeats {agreed.repeats + more}"
    )


def _title(point: PointAgreement) -> str:
    return f"{point.target}: {point.where} - {point.verdict}"


def _table(point: PointAgreement, reference: str) -> Table:
    from storlab.analysis import digits

    table = terminal.table(pad_edge=False)
    for column in ("metric", "native", reference, "native/" + reference, "95 % interval"):
        table.add_column(column, justify="left" if column == "metric" else "right")
    table.add_column("margin", justify="right")
    table.add_column("verdict")
    for metric in point.metrics:
        margin = "" if metric.margin is None else f"{100 * metric.margin:.0f} %"
        table.add_row(
            metric.name if metric.operation == "all" else f"{metric.operation} {metric.name}",
            format_quantity(metric.native, metric.unit),
            format_quantity(metric.reference, metric.unit),
            digits.times(metric.ratio, ""),
            digits.ends_text(metric.ratio) if metric.ratio.is_known else "one repeat only",
            margin,
            metric.verdict,
            style="bold red" if metric.verdict == "differ" else None,
        )
    return table
