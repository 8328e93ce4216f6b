"""Figure: a chart specification with its title, description and data table."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True, slots=True)
class Figure:
    """One drawing: a Vega-Lite specification, its text and its data.

    Colours in ``spec`` are theme roles such as ``var(--s1)``. ``title`` states the result, ``alt``
    describes the figure for readers who cannot see it; ``columns`` and ``rows`` hold its data.
    """

    name: str  # unique, valid as a file name
    kind: str
    title: str
    alt: str
    spec: dict[str, Any]
    columns: list[str]
    rows: list[list[str]]
    point_ids: list[str] = field(default_factory=list)
    note: str = ""
    remark: str = ""  # remark below this figure only
    foot: tuple[str, ...] = ()  # lines below the drawing: source, flags, scale
