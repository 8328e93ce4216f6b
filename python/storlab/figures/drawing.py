"""Draw a kind of figure with Vega-Lite (through Altair), from listed parts or by a function."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from storlab.analysis.compare import Comparison
from storlab.analysis.points import Section
from storlab.contracts.figure import (
    Bars,
    Drawn,
    FigureKind,
    OverSweep,
    Part,
    StackOverSweep,
    WorkerBars,
)
from storlab.contracts.hook import load
from storlab.figures.bars import bar_figure
from storlab.figures.common import far_places, is_swept
from storlab.figures.figure import Figure, Place
from storlab.figures.footer import scale_words, with_foot
from storlab.figures.over_sweep import sweep_figure
from storlab.figures.stacks import stack_figure
from storlab.figures.worker_bars import worker_figure


def draw(kind: FigureKind, comparison: Comparison, sections: Sequence[Section]) -> list[Figure]:
    """Draw all figures of one kind, with footers; note if the work was smaller than full size."""
    if kind.place:
        figures: list[Figure] = load(kind.place)(comparison, sections)
    else:
        figures = list(_parts(kind, comparison, sections))
    scaled = [_with_scale(comparison, sections, figure) for figure in figures]
    return [with_foot(comparison, sections, figure) for figure in scaled]


def _parts(
    kind: FigureKind, comparison: Comparison, sections: Sequence[Section]
) -> Iterator[Figure]:
    for section, facet, point in far_places(comparison, sections):
        axis = "swept" if is_swept(section) else "single"
        far = Place.at(comparison, section, facet, point)
        for part in kind.parts:
            if part.when in ("always", axis):
                figure = _part(kind, part, far)
                if figure is not None:
                    yield figure


def _part(kind: FigureKind, part: Part, far: Place) -> Figure | None:
    match part:
        case Bars():
            return bar_figure(kind.name, part, far)
        case OverSweep():
            return sweep_figure(kind.name, part, far)
        case StackOverSweep():
            return stack_figure(kind.name, part, far)
        case WorkerBars():
            return worker_figure(kind.name, part, far)
        case Drawn():
            drawn: Figure | None = load(part.place)(far, *part.arguments)
            return drawn


def _with_scale(comparison: Comparison, sections: Sequence[Section], figure: Figure) -> Figure:
    """Add a note to a figure's title if the work was smaller than full size."""
    words = [w for w in scale_words(comparison, sections, figure) if w not in figure.title]
    if not words:
        return figure
    text = " or ".join(words)
    return replace(figure, title=f"{figure.title} ({text})")
