"""Implementation of the ``storlab preprocess`` command."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich import box
from rich.table import Table

from storlab.base.errors import ExitCode, RunError
from storlab.base.units import MB, NS_PER_S, format_bytes_si, format_duration, format_number
from storlab.cli import terminal
from storlab.cli.common import JsonOption, emit_json, report_error

if TYPE_CHECKING:
    from storlab.contracts.details import StageTimes
    from storlab.model.result import RunOutcome
    from storlab.workloads.preprocess.details import MalformedLines, PreprocessDetails
    from storlab.workloads.preprocess.standalone import PreprocessDocument, Preprocessing

_MOST_SAMPLES = 5  # printed samples; --json has all
_MOST_TEXT = 60  # printed characters of a sample
_SKIP = "give --malformed skip, or correct the files and name another --out"


Files = Annotated[
    list[Path], typer.Argument(metavar="FILE...", help="Raw click logs; their order is kept.")
]
Out = Annotated[
    Path,
    typer.Option("--out", metavar="DIR", help="Folder for the output. Missing folders are made."),
]
Engine = Annotated[
    str,
    typer.Option(
        "--engine",
        metavar="NAME",
        help="Engine to use: native, pandas, polars or dask.",
    ),
]
Scheduler = Annotated[
    str | None,
    typer.Option(
        "--scheduler",
        metavar="ADDRESS",
        help="Address of a Dask scheduler, for --engine dask. Default: processes of this machine.",
    ),
]
Workers = Annotated[
    int | None,
    typer.Option(
        "--workers",
        metavar="N",
        help="Parts to process at a time; by default as many as cores, memory and parts allow.",
    ),
]
Threshold = Annotated[
    int,
    typer.Option("--threshold", metavar="N", help="Categories in fewer rows than this get id 0."),
]
Modulo = Annotated[
    int | None,
    typer.Option("--modulo", metavar="N", help="Category values are taken modulo this number."),
]
Numerical = Annotated[
    str,
    typer.Option(
        "--numerical", metavar="TYPE", help="Type of numerical features: float16 or float32."
    ),
]
Malformed = Annotated[
    str,
    typer.Option(
        "--malformed", metavar="WHAT", help="What to do with malformed lines: refuse or skip."
    ),
]
Memory = Annotated[
    str, typer.Option("--memory", metavar="SIZE", help="Most memory that the stages may use.")
]
PartSize = Annotated[
    str,
    typer.Option(
        "--part-size", metavar="SIZE", help="Raw bytes that a worker processes at a time."
    ),
]
GroupRows = Annotated[
    int,
    typer.Option("--row-group-rows", metavar="N", help="Rows per row group of the Parquet files."),
]
Compression = Annotated[
    str,
    typer.Option(
        "--compression",
        metavar="NAME",
        help="Compression of the Parquet files: none, snappy, lz4 or zstd.",
    ),
]


def preprocess(
    files: Files,
    out: Out,
    engine: Engine = "native",
    scheduler: Scheduler = None,
    workers: Workers = None,
    threshold: Threshold = 15,
    modulo: Modulo = None,
    numerical: Numerical = "float16",
    malformed: Malformed = "refuse",
    memory: Memory = "4GiB",
    part_size: PartSize = "64MiB",
    row_group_rows: GroupRows = 262_144,
    compression: Compression = "snappy",
    as_json: JsonOption = False,
) -> None:
    """Prepare your own click logs for DLRM training: Parquet, vocabularies, binary files.

    Runs the pipeline of preprocessing studies on your own files, with equal stages and output, but
    without comparisons. The output is kept, and the files are only read. If a run was interrupted
    or killed, give the same command again: it continues after the last finished part.

    Example: storlab preprocess day_0 day_1 day_2 --out prepared
    """
    from storlab.cli.campaign import reporter_for
    from storlab.process.execution import Interrupted, StopRequest
    from storlab.workloads.preprocess.standalone import carry_out, plan_preprocessing

    options: dict[str, Any] = {
        "implementation": engine,
        "scheduler": scheduler,
        "workers": workers,
        "threshold": threshold,
        "modulo": modulo,
        "numerical": numerical,
        "malformed": malformed,
        "memory": memory,
        "part_size": part_size,
        "row_group_rows": row_group_rows,
        "compression": compression,
    }
    planned = plan_preprocessing(files, out, options)
    try:
        with StopRequest().installed() as stop, reporter_for(False, as_json) as reporter:
            for text in planned.warnings:
                reporter.note(f"warning: {text}")
            outcome = carry_out(planned, reporter, stop)
    except Interrupted:
        _interrupted(planned, as_json)
        raise typer.Exit(int(ExitCode.INTERRUPTED)) from None
    error = _error(planned, outcome)
    if as_json:
        emit_json(_document(planned, outcome, error))
    else:
        _print(planned, outcome, error)
    if error is not None:
        raise typer.Exit(int(error.exit_code))


def _interrupted(planned: Preprocessing, as_json: bool) -> None:
    if as_json:
        emit_json(_document(planned))
    terminal.log.print(
        "interrupted; finished parts are kept, and the same command goes on after them"
    )


def _error(planned: Preprocessing, outcome: RunOutcome) -> RunError | None:
    failure = outcome.failure
    if failure is None:
        return None
    malformed = _details(outcome).malformed
    refused = planned.job.malformed == "refuse" and malformed is not None and malformed.count
    return RunError(str(planned.directory), failure.message, _SKIP if refused else failure.fix)


def _details(outcome: RunOutcome) -> PreprocessDetails:
    from storlab.workloads.preprocess.details import PreprocessDetails

    return PreprocessDetails.of(outcome)


def _document(
    planned: Preprocessing, outcome: RunOutcome | None = None, error: RunError | None = None
) -> PreprocessDocument:
    """Return the JSON document of a run; a run without an outcome was interrupted."""
    from storlab.contracts.document import Error
    from storlab.workloads.preprocess.standalone import PreprocessDocument, reported_flags

    finished = outcome is not None and error is None
    code = ExitCode.INTERRUPTED if outcome is None else ExitCode.OK
    return PreprocessDocument(
        error=None if error is None else Error.of(error),
        directory=planned.directory,
        feature_spec=planned.directory / "binary" / "feature_spec.yaml" if finished else None,
        interrupted=outcome is None,
        exit_code=code if error is None else error.exit_code,
        engine=None if outcome is None else outcome.engine,
        order=planned.job,
        warnings=planned.warnings,
        flags=reported_flags(planned, outcome) if outcome is not None and error is None else [],
        notes=[] if outcome is None else outcome.notes,
        **({} if outcome is None else outcome.details),
    )


def _print(planned: Preprocessing, outcome: RunOutcome, error: RunError | None) -> None:
    from storlab.workloads.preprocess.standalone import reported_flags

    stages = _details(outcome).stages
    if stages:
        terminal.out.print(_table(outcome, stages))
    _print_samples(_details(outcome).malformed)
    if error is not None:
        report_error(error, as_json=False)
        return
    for flag in reported_flags(planned, outcome):
        terminal.out.print(f"{flag.kind}: {flag.message}", soft_wrap=True)
    output = _details(outcome).output
    if output is not None:
        size = format_bytes_si(output.bytes)
        terminal.out.print(f"rows: {output.rows:,}, in binary {size}, digest {output.rows_digest}")
        terminal.out.print(f"vocabularies: digest {output.dictionary_digest}")
    feature_spec = planned.directory / "binary" / "feature_spec.yaml"
    terminal.out.print(f"feature specification: {feature_spec}", soft_wrap=True)


def _table(outcome: RunOutcome, stages: Sequence[StageTimes]) -> Table:
    from storlab.workloads.preprocess.job import STAGES

    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    table.add_column("stage")
    for column in ("time", "rows/s", "MB/s in", "CPU s", "peak memory", "parts"):
        table.add_column(column, justify="right")
    for stage in stages:
        table.add_row(stage.name, *_figures(stage))
    if len(stages) == len(STAGES):
        table.add_row("all", *_figures(_sum(outcome, stages)), style="bold")
    return table


def _sum(outcome: RunOutcome, stages: Sequence[StageTimes]) -> StageTimes:
    """Combine the stages into a row for the whole run, whose input is the raw data."""
    return stages[0].model_copy(
        update={
            "start_ns": outcome.window_start_ns,
            "end_ns": outcome.window_end_ns,
            "cpu_ns": sum(stage.cpu_ns for stage in stages),
            "peak_memory_bytes": max(stage.peak_memory_bytes for stage in stages),
            "resumed_parts": sum(stage.resumed_parts for stage in stages),
            "parts": None,
        }
    )


def _figures(stage: StageTimes) -> list[str]:
    """Return the numbers of a stage as text; rates only if this process did the whole stage."""
    time_ns = stage.end_ns - stage.start_ns
    seconds, whole = max(time_ns, 1) / NS_PER_S, not stage.resumed_parts
    moved = stage.input_bytes  # some engines report no input bytes for failed runs
    parts = "" if stage.parts is None else f"{stage.parts:,}"
    before = "" if whole or not parts else f", {stage.resumed_parts:,} before"
    return [
        format_duration(time_ns),
        format_number(stage.rows / seconds) if whole else "",
        format_number(moved / seconds / MB) if whole and moved else "",
        format_number(stage.cpu_ns / NS_PER_S),
        format_bytes_si(stage.peak_memory_bytes),
        f"{parts}{before}",
    ]


def _print_samples(malformed: MalformedLines | None) -> None:
    if malformed is None:
        return
    for sample in malformed.samples[:_MOST_SAMPLES]:
        where = f"{sample.file}, line {sample.line:,}"
        field = "" if sample.field is None else f", field {sample.field}"
        terminal.out.print(
            f"{where}: {sample.reason}{field}: {sample.text[:_MOST_TEXT]}", soft_wrap=True
        )
    if malformed.count > _MOST_SAMPLES:
        terminal.out.print(f"and {malformed.count - _MOST_SAMPLES:,} malformed lines more")
