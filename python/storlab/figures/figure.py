"""What a drawing is: a specification, and in words and numbers what it shows."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True, slots=True)
class Figure:
    """One drawing: a Vega-Lite specification, and in words and numbers what it shows.

    Colours in ``spec`` are roles of the theme, such as ``var(--s1)``. ``title`` states what is
    seen, ``alt`` describes it to those who do not see it; ``columns`` and ``rows`` are its data.
    """

    name: str  # unique, fit for a file name
    kind: str
    title: str
    alt: str
    spec: dict[str, Any]
    columns: list[str]
    rows: list[list[str]]
    point_ids: list[str] = field(default_factory=list)
    note: str = ""
    remark: str = ""  # what has to be said below this drawing alone
    foot: tuple[str, ...] = ()  # lines that stand below the drawing: source, flags, scale
