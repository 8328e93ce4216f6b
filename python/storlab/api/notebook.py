"""Show the progress of a campaign in a notebook, in one output below the cell that is updated."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import Self

from rich.console import Console
from typing_extensions import override

from storlab.base.clock import monotonic_ns
from storlab.lab.run.progress import LiveReporter, Names, plain_name
from storlab.model.point import PlannedRun, Point
from storlab.model.result import RunRecord, Snapshot

COLUMNS = 100  # width of narrow notebook layouts
LEAST_NS = 500_000_000  # shortest time between two updates of one run

Show = Callable[[str], Callable[[str], None]]
"""Function that shows a text below the cell and returns a function that replaces it."""


def below_cell(text: str) -> Callable[[str], None]:
    """Show a text below the cell through IPython and return a function that replaces it."""
    display = import_module("IPython.display").display
    handle = display({"text/plain": text}, raw=True, display_id=True)

    def update(new: str) -> None:
        handle.update({"text/plain": new}, raw=True)

    return update


class NotebookReporter(LiveReporter):
    """Shows the terminal's progress display below a cell; lines of ended runs follow it."""

    def __init__(self, names: Names = plain_name, show: Show = below_cell) -> None:
        super().__init__(
            Console(width=COLUMNS, force_jupyter=False, force_terminal=False, color_system=None),
            names,
        )
        self._show = show
        self._update: Callable[[str], None] | None = None
        self._drawn_ns = 0

    @override
    def __enter__(self) -> Self:
        return self  # no automatic refresh

    @override
    def __exit__(self, *_: object) -> None:
        if self._current is not None:
            self._progress.remove_task(self._current)
            self._current = None
        self._draw()

    @override
    def campaign(self, runs: int, done: int, left_ns: int) -> None:
        super().campaign(runs, done, left_ns)
        self._draw()

    @override
    def step(self, text: str, total: float | None = None) -> None:
        super().step(text, total)
        self._draw()

    @override
    def step_progress(self, done: float, snapshot: Snapshot | None = None) -> None:
        super().step_progress(done, snapshot)
        self._draw_sometimes()

    @override
    def run_started(self, run: PlannedRun, point: Point, expected_ns: int) -> None:
        super().run_started(run, point, expected_ns)
        self._draw()

    @override
    def run_progress(self, snapshot: Snapshot) -> None:
        super().run_progress(snapshot)
        self._draw_sometimes()

    @override
    def run_ended(self, record: RunRecord) -> None:
        super().run_ended(record)
        self._draw()

    @override
    def note(self, text: str) -> None:
        self._console.print(text, highlight=False, markup=False, soft_wrap=True)

    def _draw_sometimes(self) -> None:
        if monotonic_ns() - self._drawn_ns >= LEAST_NS:
            self._draw()

    def _draw(self) -> None:
        with self._console.capture() as drawn:
            self._console.print(self._progress.get_renderable())
        text = drawn.get().rstrip()
        if self._update is None:
            self._update = self._show(text)
        else:
            self._update(text)
        self._drawn_ns = monotonic_ns()
