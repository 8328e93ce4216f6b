"""Consoles of the library rich for stdout and stderr; import them from ``terminal``."""

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

from storlab.base.display_safe import visible

__all__ = ["Text", "log", "out", "table"]

WIDTH_OF_FILES = 120  # columns if output goes to a file or a pipe


def _width(is_terminal: bool) -> int | None:
    return None if is_terminal or "COLUMNS" in os.environ else WIDTH_OF_FILES


CLOSED_PIPE = 128 + signal.SIGPIPE
"""Exit code if the reader of stdout has closed the pipe; shells report it for SIGPIPE."""


def leave_pipe() -> int:
    """Redirect stdout to the null device after its reader closed it; return the exit code."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, sys.stdout.fileno())
    os.close(nowhere)
    return CLOSED_PIPE


class PipeConsole(Console):
    """Console that exits without a message on a broken pipe, and replaces control characters.

    Control characters could control the terminal, and names of targets may come from strangers.
    """

    def _render_buffer(self, buffer: Iterable[Segment]) -> str:
        return super()._render_buffer(
            part if part.control else Segment(visible(part.text), part.style) for part in buffer
        )

    def on_broken_pipe(self) -> None:
        """Raise SystemExit; rich calls this method on a broken pipe.

        Another exception could be mistaken for the failure of a run.
        """
        self.quiet = True
        raise SystemExit(leave_pipe())


out = PipeConsole(highlight=False, markup=False, width=_width(sys.stdout.isatty()))
"""Console for results on stdout, coloured only on a terminal without NO_COLOR."""

log = PipeConsole(stderr=True, highlight=False, markup=False, width=_width(sys.stderr.isatty()))
"""Console for progress and warnings on stderr."""


def table(*heads: str, **looks: Any) -> Table:
    """Make an empty table in the common style; ``looks`` are options of ``rich.table.Table``."""
    return Table(*heads, box=box.SIMPLE_HEAD, **looks)
