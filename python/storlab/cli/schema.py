"""Implementation of the ``storlab schema`` command."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from storlab.cli import terminal
from storlab.cli.common import write_output


def schema(
    output: Annotated[
        Path | None,
        typer.Option(
            "--output",
            "-o",
            metavar="FILE",
            help="Write the schema to this file instead of stdout. Missing folders are made.",
        ),
    ] = None,
) -> None:
    """Print the JSON Schema of study files.

    It documents every field. Editors use it to complete and check study files. For Even Better
    TOML (Taplo), put the line "#:schema ./study.schema.json" at the top of the study.

    Example: storlab schema --output study.schema.json
    """
    from storlab.lab.study.json_schema import study_schema

    text = json.dumps(study_schema(), indent=2, ensure_ascii=False) + "\n"
    if output is None:
        typer.echo(text, nl=False)
        return
    write_output(output, text.encode())
    terminal.log.print(f"wrote {output}", soft_wrap=True)
