"""Implementation of the ``storlab import`` command."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from storlab.base.clock import utc_stamp
from storlab.base.files import shell_word
from storlab.base.units import format_latency, format_number
from storlab.cli import terminal
from storlab.cli.common import JsonOption, OutOption, emit_json

if TYPE_CHECKING:
    from storlab.model.result import RunRecord


def import_(
    files: Annotated[
        list[Path],
        typer.Argument(
            metavar="FILE...",
            help="Results of other tools: files, directories, globs in quotes, or archives "
            "(.zip, .tar.gz, .tar.zst); files may be compressed.",
        ),
    ],
    out: OutOption = None,
    target: Annotated[
        list[str] | None,
        typer.Option(
            "--target",
            metavar="NAME[=GLOB]",
            help="Name of the target that was measured: of all files, or of those that match GLOB; "
            "may be given several times.",
        ),
    ] = None,
    name: Annotated[str | None, typer.Option("--name", help="Title of the study.")] = None,
    as_json: JsonOption = False,
) -> None:
    """Import results of other tools into a result directory, to compare and report them.

    Runs of the same target with the same options become repeats of one point. Files from different
    folders measured different targets, unless the folders are numbered runs or --target names them.
    Files that are no results are skipped, and those that cannot be imported are listed with the
    reason.

    Example: storlab import old/*.json --target "1x SSD" --out results/old-ssd
    """
    from storlab.exchange.import_report import limited, report_lines
    from storlab.exchange.importer import import_files

    directory = out or Path("results") / f"import-{utc_stamp()}"
    store = import_files(files, directory, target, name)
    records = store.records()
    about = store.environment["imported"]
    if as_json:
        from storlab.cli.documents import ImportDocument, ImportedTarget, ImportOutcome

        document = ImportDocument(
            directory=store.directory,
            runs=records,
            targets=[ImportedTarget.model_validate(target) for target in about["targets"]],
            files=[ImportOutcome.model_validate(outcome) for outcome in about["outcomes"]],
        )
        emit_json(document)
        return
    lines = [*limited(map(_line, records), "runs"), *report_lines(about, records)]
    for line in lines:
        terminal.out.print(line, soft_wrap=True, highlight=False, markup=False)
    terminal.out.print(f"{len(records)} runs in {store.directory}", soft_wrap=True)
    terminal.out.print(f"next: storlab compare {shell_word(directory)}", soft_wrap=True)


def _line(record: RunRecord) -> str:
    if record.failure is not None:
        return f"{record.run_id}  {record.target}  FAILED: {record.failure.text}"
    parts = _rates(record)
    for kind in record.totals:
        p99 = record.metric("latency_p99_ns", kind)
        if p99 is not None:
            parts.append(f"{kind} p99 {format_latency(p99)}")
    return f"{record.run_id}  {record.target}  {', '.join(parts)}"


def _rates(record: RunRecord) -> list[str]:
    """Return a run's throughput as text, with its operation rate or its family's own quantities."""
    from storlab.contracts.registry import FAMILIES

    page = FAMILIES[record.kind].page
    parts = [f"{format_number(record.metric('throughput_mb_s') or 0)} MB/s"]
    if not page.metrics.run_line:
        per_second = record.metric(page.operations.rate.name) or 0
        return [*parts, f"{format_number(per_second)} {page.operations.rate_short}"]
    others = [key for key in page.metrics.run_line if key != "throughput_mb_s.all"]
    for quantity in (q for q in page.metrics.quantities if q.key in others):
        value = record.metric(quantity.name, quantity.operation)
        if value is not None:
            rate = quantity.unit == "1/s"
            parts.append(
                f"{format_number(value)} {quantity.short}"
                if rate
                else f"{quantity.short} {format_number(value)} {quantity.unit}"
            )
    return parts
