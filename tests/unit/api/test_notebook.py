"""Progress below a notebook cell: one output that is updated during the campaign."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from storlab.api.notebook import COLUMNS, NotebookReporter
from storlab.model.point import PlannedRun, Point
from support.run_records import SNAPSHOT, run_record

POINT = Point(
    target="a [b]", workload="w", workload_index=0, kind="block", engine="native", params={}
)
RUN = PlannedRun(order=0, repeat=1, point_id=POINT.point_id)


class Cell:
    """A notebook's outputs with every text each of them had."""

    def __init__(self) -> None:
        self.outputs: list[list[str]] = []

    def show(self, text: str) -> Callable[[str], None]:
        texts = [text]
        self.outputs.append(texts)
        return texts.append


def test_one_output_moves_with_the_campaign(capsys: pytest.CaptureFixture[str]) -> None:
    cell = Cell()
    with NotebookReporter(show=cell.show) as reporter:
        reporter.campaign(2, 0, 40_000_000_000)
        reporter.step("laying out [x]", 100.0)
        reporter.run_started(RUN, POINT, 20_000_000_000)
        reporter.run_ended(run_record(RUN, POINT.target))
        reporter.note("a note")
    (texts,) = cell.outputs
    assert "0 of 2 runs, 40 s left" in texts[0]
    assert any("laying out [x]" in text for text in texts)
    assert any("a [b], w " in text for text in texts)
    assert "1 of 2 runs" in texts[-1]
    assert "laying out" not in texts[-1]
    assert all(len(line) <= COLUMNS for text in texts for line in text.splitlines())
    assert not [text for text in texts if "\x1b" in text]
    told = capsys.readouterr()
    assert "[1/2] a [b]" in told.out
    assert "a note" in told.out
    assert not told.err


def test_figures_of_a_run_are_drawn_now_and_then(monkeypatch: pytest.MonkeyPatch) -> None:
    """Check that display updates are limited, because each goes over the network."""
    cell, now = Cell(), [10**12]
    for module in ("storlab.api.notebook", "storlab.lab.run.progress"):
        monkeypatch.setattr(f"{module}.monotonic_ns", lambda: now[0])
    reporter = NotebookReporter(show=cell.show)
    reporter.campaign(1, 0, 20_000_000_000)
    reporter.run_started(RUN, POINT, 20_000_000_000)
    (texts,) = cell.outputs
    before = len(texts)
    for _ in range(40):
        now[0] += 50_000_000
        reporter.run_progress(SNAPSHOT)
    assert len(texts) - before == 4
    assert "12,345 IOPS" in texts[-1]
