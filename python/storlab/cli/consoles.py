"""Rich consoles behind the module ``terminal``."""

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
"""Exit code if the reader of stdout has closed it, as shells report SIGPIPE."""


def leave_pipe() -> int:
    """Redirect stdout to the null device, and return the exit code for a closed pipe."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, sys.stdout.fileno())
    os.close(nowhere)
    return CLOSED_PIPE


class PipeConsole(Console):
    """Console that exits quietly on a broken pipe and makes control characters visible.

    Names of targets may come from imported files of other people, so the terminal must not
    interpret them.
    """

    def _render_buffer(self, buffer: Iterable[Segment]) -> str:
        return super()._render_buffer(
            part if part.control else Segment(visible(part.text), part.style) for part in buffer
        )

    def on_broken_pipe(self) -> None:
        """Exit by SystemExit, which is not mistaken for a failed run; called by rich."""
        self.quiet = True
        raise SystemExit(leave_pipe())


out = PipeConsole(highlight=False, markup=False, width=_width(sys.stdout.isatty()))
"""Console for results on stdout, coloured only on a terminal without NO_COLOR."""

log = PipeConsole(stderr=True, highlight=False, markup=False, width=_width(sys.stderr.isatty()))
"""Console for progress and warnings on stderr."""


def table(*heads: str, **looks: Any) -> Table:
    """Return a table in the style of all commands; ``looks`` are rich's table options."""
    return Table(*heads, box=box.SIMPLE_HEAD, **looks)
