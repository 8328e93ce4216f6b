"""Implementation of the ``storlab report`` command."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer

from storlab.base.errors import UsageError
from storlab.base.files import directory_problem, output_error
from storlab.cli import completion, conclusion, terminal
from storlab.cli.common import (
    AcceptOption,
    BaselineOption,
    JsonOption,
    QuestionOption,
    emit_json,
)

DirectoriesArgument = Annotated[
    list[Path],
    typer.Argument(
        metavar="DIR...",
        help="A result directory, or several for one brief.",
        autocompletion=completion.results,
    ),
]

PublisherOption = Annotated[
    Path | None,
    typer.Option(
        "--brief",
        metavar="FILE",
        help="TOML file whose [brief] table (publisher, author and their texts) replaces "
        "the study's.",
    ),
]

RunsOption = Annotated[
    list[str] | None,
    typer.Option(
        "--run",
        metavar="ID",
        help="Also draw this run on one time axis: latency, throughput, device, power, "
        "temperature, flags. Repeat for more.",
        autocompletion=completion.runs,
    ),
]

PointOption = Annotated[
    list[str] | None,
    typer.Option(
        "--point",
        metavar="TERMS",
        help="Use only these points: terms such as jobs=4,block_size=256KiB, or an id of "
        "`storlab plan --json`. Repeat for more.",
    ),
]

HTML = (".html", ".htm")


def report(
    directories: DirectoriesArgument,
    out: Annotated[
        Path | None,
        typer.Option(
            "--out",
            "-o",
            metavar="FILE|DIR",
            help="HTML file to write; default: DIR/brief.html. For a brief of several DIRs, the "
            "folder to write it into. Missing folders are made.",
        ),
    ] = None,
    title: Annotated[
        str | None, typer.Option("--title", help="Title; default: the study's name.")
    ] = None,
    pdf: Annotated[bool, typer.Option("--pdf/--no-pdf", help="Also make the PDF.")] = True,
    publisher: PublisherOption = None,
    runs: RunsOption = None,
    questions: QuestionOption = None,
    baseline: BaselineOption = None,
    accept: AcceptOption = None,
    points: PointOption = None,
    as_json: JsonOption = False,
) -> None:
    """Write the brief: one offline HTML file, its figures as SVG files, and a PDF.

    A brief can be made at any time, even of an interrupted campaign; it names what is missing.

    Several directories, also imported ones, become one brief. All their targets are compared at
    points that they have in common. Differences in time, engine, window and machine are listed.

    --question, --baseline, --accept-unequal-boundaries and --point replace settings of the study
    without measuring again; the brief lists them.

    Example: storlab report results/demo-20261120t113000z --title "Disk against memory"
    """
    from storlab.analysis.compare import compare
    from storlab.brief import write_brief
    from storlab.brief.settings import Settings, load_with
    from storlab.cli.campaign import reporter_for, unwritten_brief
    from storlab.lab.study.file import load_publisher
    from storlab.results.store import ResultStore
    from storlab.words.caveats import changed_settings

    store, *others = (ResultStore.open(directory) for directory in directories)
    if others:
        out = _file_of(out, [result.directory for result in (store, *others)])
    elif out is not None:
        _refuse_other_files(out)
    published_by = None if publisher is None else (load_publisher(publisher), publisher.parent)
    settings = Settings(questions or (), baseline, accept, points or ())
    data, changes = load_with((store, *others), settings)
    try:
        with reporter_for(quiet=False, as_json=as_json) as progress:
            progress.step("writing the brief")
            comparison = compare(data)
            path = write_brief(
                store, others, title=title, out=out, pdf=pdf, published_by=published_by,
                runs=runs or (), whole=comparison, changes=changes,
            )  # fmt: skip
    except OSError as error:
        if out is None:
            raise unwritten_brief(store, error) from error
        raise output_error(out, error) from error
    verdicts = conclusion.answers(comparison)
    made = path.with_suffix(".pdf")
    pdf_path = made if pdf and made.exists() else None
    if as_json:
        from storlab.cli.documents import ReportDocument

        emit_json(
            ReportDocument(
                html=path,
                pdf=pdf_path,
                directory=store.directory,
                changed_settings=changes,
                verdicts=conclusion.as_json(verdicts),
            )
        )
        return
    conclusion.print_lines([*conclusion.lines(verdicts), *conclusion.knees(comparison)])
    if changes:
        terminal.out.print(changed_settings(changes), soft_wrap=True)
    terminal.out.print(f"wrote {path}", soft_wrap=True)
    if pdf_path is not None:
        terminal.out.print(f"wrote {pdf_path}", soft_wrap=True)


def _file_of(out: Path | None, directories: Sequence[Path]) -> Path:
    """Return the path of the HTML file for a brief of several directories.

    Raises:
        UsageError: ``out`` is missing, cannot be used, or is the brief of one of the directories.
    """
    if out is None:
        what = "is missing: a brief of several directories is stored in none of them"
        raise UsageError("--out", what, "add --out DIR with a new folder")
    if out.suffix.lower() not in HTML:
        if out.exists() and (problem := directory_problem(out)):
            raise UsageError("--out", f"{out} {problem}", "name a directory, or an HTML file")
        out = out / "brief.html"
    for directory in directories:
        if out.resolve() == directory.resolve() / "brief.html":
            what = f"{out} belongs to the brief of {directory.name} alone"
            raise UsageError("--out", what, "name another directory")
    _refuse_other_files(out)
    return out


def _refuse_other_files(out: Path) -> None:
    """Raise UsageError unless ``out`` names an HTML file that is new or may be overwritten."""
    from storlab.results.files import check_output

    if out.is_dir():
        raise UsageError("--out", f"{out} is a directory", f"name a file: {out / 'brief.html'}")
    if out.suffix.lower() not in HTML:
        what = f"{out} does not end in .html"
        raise UsageError("--out", what, f"name a file such as {out.with_suffix('.html')}")
    check_output(out, b"")
