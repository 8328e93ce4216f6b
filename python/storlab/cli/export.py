"""Implementation of the ``storlab export`` command."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from storlab.base.errors import UsageError
from storlab.cli import completion, terminal
from storlab.cli.common import JsonOption, ResultsArgument, emit_json, write_output
from storlab.exchange.exporters import EXPORTERS, default_output, get_format


def export(
    directory: ResultsArgument,
    form: Annotated[
        str,
        typer.Option(
            "--format",
            "-f",
            help=f"One of {', '.join(EXPORTERS)}.",
            autocompletion=completion.among("storlab.exchange.exporters:EXPORTERS"),
        ),
    ] = "csv",
    output: Annotated[
        Path | None,
        typer.Option(
            "--output",
            "-o",
            help="File to write; - is stdout. Default: a file in DIR. Missing folders are made.",
        ),
    ] = None,
    samples: Annotated[
        bool, typer.Option("--samples", help="Export the intervals instead of the metrics.")
    ] = False,
    as_json: JsonOption = False,
) -> None:
    """Write the results for other programs: a tidy table, or fio-compatible JSON.

    csv and parquet have one row per run and metric, with the run's parameters as columns. A group
    has rows of its own, whose workload is "workload: group". With --samples they have one row per
    interval; only parquet includes histograms. fio-json has one job per run, and `storlab import`
    reads the same numbers from it.

    Example: storlab export results/demo-20261120t101500z --format parquet --output demo.parquet
    """
    from storlab.results.store import ResultStore

    if as_json and output == Path("-"):
        what = "results and JSON would both be written to stdout"
        raise UsageError("--json", what, "omit --json, or name a file with --output")
    store = ResultStore.open(directory)
    chosen = get_format(form)
    other = next((f for f in EXPORTERS.values() if output and f.suffix == output.suffix), chosen)
    if other.suffix != chosen.suffix:
        what = f"{output} is named like {other.name}, but the format is {form}"
        raise UsageError(
            "--output", what, f"use --format {other.name}, or a name that ends in {chosen.suffix}"
        )
    content = chosen.content(store, samples)
    if output == Path("-"):
        sys.stdout.buffer.write(content)
        sys.stdout.buffer.flush()
        return
    path = output or default_output(store, chosen, samples)
    if output is None and path.is_symlink():
        path.unlink()  # never write through a link in a result directory
    write_output(path, content)
    runs = len(store.records())
    if as_json:
        from storlab.cli.documents import ExportDocument

        emit_json(ExportDocument(output=path, format=form, samples=samples, runs=runs))
    else:
        terminal.out.print(f"wrote {path}: {runs} runs", soft_wrap=True)
