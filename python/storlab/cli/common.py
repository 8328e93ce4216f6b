"""Functions and options shared by the commands: errors, output files and ``--json``."""

from __future__ import annotations

import dataclasses
import json
import math
from collections.abc import Mapping
from enum import Enum
from pathlib import Path
from typing import Annotated, Any

import typer

from storlab.base.errors import StorlabError
from storlab.cli import completion

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
        help="Hash of the reviewed plan: consents to overwriting.",
    ),
]
CleanOption = Annotated[
    bool, typer.Option("--clean", help="Remove data files even when interrupted.")
]
NoReportOption = Annotated[bool, typer.Option("--no-report", help="Write no brief.")]
QuietOption = Annotated[bool, typer.Option("--quiet", help="One line per run, no live view.")]
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
        help="Port of the live page; asks for that page as --live does. 0 takes a free port.",
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


DOCUMENT_VERSION = 1
"""Version of the schemas for ``--json`` output, in docs/reference/json."""


def emit_json(schema: str, value: Mapping[str, Any]) -> None:
    """Print one JSON document on stdout, with the name and version of its schema.

    Models become objects; NaN and infinity become null.
    """
    document = as_document(schema, plain(value))
    typer.echo(json.dumps(document, indent=2, ensure_ascii=False, allow_nan=False))


def emit_large_json(schema: str, value: Mapping[str, Any]) -> None:
    """Print a large JSON document of plain values; json's own indentation is slow."""
    from pydantic_core import to_json

    typer.echo(to_json(as_document(schema, value), indent=2, inf_nan_mode="null").decode())


def as_document(schema: str, value: Mapping[str, Any]) -> dict[str, Any]:
    """Return the values with the name and version of the schema in front."""
    return {"schema": schema, "version": DOCUMENT_VERSION, **value}


def plain(value: Any) -> Any:
    """Convert models, dataclasses, paths and enums to dicts, lists, text and finite numbers."""
    result: Any = value
    # a pydantic model; importing pydantic for an isinstance check is slow
    if hasattr(value, "model_dump"):
        result = plain(value.model_dump(mode="json"))
    elif dataclasses.is_dataclass(value) and not isinstance(value, type):
        result = plain({f.name: getattr(value, f.name) for f in dataclasses.fields(value)})
    elif isinstance(value, Mapping):
        result = {str(key): plain(item) for key, item in value.items()}
    elif isinstance(value, (list, tuple, set, frozenset)):
        result = [plain(item) for item in value]
    elif isinstance(value, Enum):
        result = plain(value.value)
    elif isinstance(value, Path):
        result = str(value)
    elif isinstance(value, float) and not math.isfinite(value):
        result = None
    return result


def report_error(error: StorlabError, as_json: bool) -> None:
    """Print an error with location, cause and fix: as text on stderr, or as JSON on stdout."""
    if as_json:
        emit_json("error", {"error": error.as_dict()})
        return
    from storlab.cli import terminal

    terminal.log.print("error:", style="bold red", end=" ")
    terminal.log.print(str(error), soft_wrap=True)


def write_output(path: Path, content: bytes) -> None:
    """Write a command's output to a path given by the user, as ``base.files.write_output`` does.

    Raises:
        UsageError: The path cannot be written, or holds results, a study or data.
    """
    from storlab.base.files import write_output as write
    from storlab.results.files import check_output

    check_output(path, content)
    write(path, content)
