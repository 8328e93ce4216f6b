"""The consoles behind ``terminal``."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Iterable
from typing import Any

from rich import box
from rich.console import Console
from rich.segment import Segment
from rich.table import Table
from rich.text import Text

from storlab.base.visible import visible

__all__ = ["Text", "log", "out", "table"]

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
    """Ends the program quietly where nobody reads on, and prints no control character of others.

    A target may have been named by whoever wrote an imported file: the terminal must not obey it.
    """

    def _render_buffer(self, buffer: Iterable[Segment]) -> str:
        return super()._render_buffer(
            part if part.control else Segment(visible(part.text), part.style) for part in buffer
        )

    def on_broken_pipe(self) -> None:
        """Called by rich. Raises SystemExit, which no handler of errors takes for a failed run."""
        self.quiet = True
        raise SystemExit(leave_pipe())


out = PipeConsole(highlight=False, markup=False, width=_width(sys.stdout.isatty()))
"""Results, on stdout. Colour only on a terminal, and never under NO_COLOR."""

log = PipeConsole(stderr=True, highlight=False, markup=False, width=_width(sys.stderr.isatty()))
"""Progress and warnings, on stderr."""


def table(*heads: str, **looks: Any) -> Table:
    """A table as all verbs draw theirs; ``looks`` as rich has them."""
    return Table(*heads, box=box.SIMPLE_HEAD, **looks)
