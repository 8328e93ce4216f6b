"""Code shared by the commands: options, printing of errors and JSON, writing of files."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from storlab.base.errors import StorlabError
from storlab.cli import completion

if TYPE_CHECKING:
    from storlab.contracts.document import Document

JsonOption = Annotated[
    bool, typer.Option("--json", help="Print JSON on stdout instead of text.", show_default=False)
]
OutOption = Annotated[
    Path | None,
    typer.Option(
        "--out", metavar="DIR", help="Result directory to make. Missing folders are made."
    ),
]
PlanHashOption = Annotated[
    str | None,
    typer.Option(
        "--plan-hash",
        metavar="HASH",
        help="Hash of the plan that you reviewed; gives your consent to overwrite its devices.",
    ),
]
CleanOption = Annotated[
    bool, typer.Option("--clean", help="Remove data files even when interrupted.")
]
NoReportOption = Annotated[bool, typer.Option("--no-report", help="Write no brief.")]
QuietOption = Annotated[
    bool, typer.Option("--quiet", help="Print one line per run instead of the live view.")
]
LiveOption = Annotated[
    bool, typer.Option("--live", help="Show the campaign in the browser, on this machine only.")
]
LivePortOption = Annotated[
    int,
    typer.Option(
        "--live-port",
        metavar="PORT",
        min=0,
        max=65535,
        help="Port of the live page; implies --live. 0 selects a free port.",
    ),
]
StudyArgument = Annotated[
    Path,
    typer.Argument(
        metavar="STUDY", help="The study file (TOML).", autocompletion=completion.studies
    ),
]
ResultsArgument = Annotated[
    Path,
    typer.Argument(metavar="DIR", help="A result directory.", autocompletion=completion.results),
]
QuestionOption = Annotated[
    list[str] | None,
    typer.Option(
        "--question",
        metavar="NAME",
        help="Answer this question instead of the study's, such as efficiency or cost. Repeat for "
        "more.",
    ),
]
BaselineOption = Annotated[
    str | None,
    typer.Option("--baseline", metavar="TARGET", help="Divide ratios by this target."),
]
AcceptOption = Annotated[
    bool | None,
    typer.Option(
        "--accept-unequal-boundaries/--refuse-unequal-boundaries",
        help="Also give ratios of power if the meters of both sides cover different equipment, or "
        "refuse them; default: as the study says.",
        show_default=False,
    ),
]


def emit_json(document: Document) -> None:
    """Print a JSON document on stdout."""
    typer.echo(document.model_dump_json(indent=2))


def report_error(error: StorlabError, as_json: bool) -> None:
    """Print where an error is, its cause and its fix: as text on stderr or as JSON on stdout."""
    if as_json:
        from storlab.contracts.document import Error, ErrorDocument

        emit_json(ErrorDocument(error=Error.of(error)))
        return
    from storlab.cli import terminal

    terminal.log.print("error:", style="bold red", end=" ")
    terminal.log.print(str(error), soft_wrap=True)


def write_output(path: Path, content: bytes) -> None:
    """Write a command's output to a path given by the user.

    Raises:
        UsageError: The path cannot be written, or overwriting it would destroy results, a study or
            data.
    """
    from storlab.base.files import write_output as write
    from storlab.results.files import check_output

    check_output(path, content)
    write(path, content)
