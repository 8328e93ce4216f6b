"""What the verbs share: where text goes, and how ``--json`` is written."""

from __future__ import annotations

import dataclasses
import json
import math
import os
import signal
import sys
from collections.abc import Mapping
from enum import Enum
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console

from storlab.base.errors import StorlabError

WIDTH_OF_FILES = 120  # columns where output goes to a file or a pipe


def _width(is_terminal: bool) -> int | None:
    return None if is_terminal or "COLUMNS" in os.environ else WIDTH_OF_FILES


CLOSED_PIPE = 128 + signal.SIGPIPE
"""Exit code where the reader of stdout has ended: a shell's word for what SIGPIPE ends."""


def leave_pipe() -> int:
    """Let what is still to be printed go nowhere, and return the exit code of that."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, sys.stdout.fileno())
    os.close(nowhere)
    return CLOSED_PIPE


class PipeConsole(Console):
    """Ends the program quietly where nobody reads on, as with ``| head``."""

    def on_broken_pipe(self) -> None:
        """Called by rich. Raises SystemExit, which no handler of errors takes for a failed run."""
        self.quiet = True
        raise SystemExit(leave_pipe())


console = PipeConsole(highlight=False, markup=False, width=_width(sys.stdout.isatty()))
"""Results, on stdout. Colour only on a terminal, and never under NO_COLOR."""

log = PipeConsole(stderr=True, highlight=False, markup=False, width=_width(sys.stderr.isatty()))
"""Progress and warnings, on stderr."""

JsonOption = Annotated[
    bool, typer.Option("--json", help="Print JSON on stdout instead of text.", show_default=False)
]
StudyArgument = Annotated[Path, typer.Argument(metavar="STUDY", help="The study file (TOML).")]


def emit_json(value: Any) -> None:
    """One JSON document on stdout. Models become objects; NaN and infinity become null."""
    typer.echo(json.dumps(plain(value), indent=2, ensure_ascii=False, allow_nan=False))


def plain(value: Any) -> Any:
    """Dicts, lists, text and finite numbers from models, dataclasses, paths and the like."""
    result: Any = value
    if hasattr(value, "model_dump"):  # a pydantic model; importing pydantic to ask is slow
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
    """Where, what and fix: for people on stderr, for programs on stdout."""
    if as_json:
        emit_json({"error": error.as_dict()})
        return
    log.print("error:", style="bold red", end=" ")
    log.print(str(error), soft_wrap=True)
