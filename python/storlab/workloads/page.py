"""How the parameters and operations of a family lie on a page: names, axes and order."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True, slots=True)
class Page:
    """What the brief knows of a family without knowing the family.

    A swept parameter is the horizontal axis, the small multiple, or tells sections apart.
    """

    operations: tuple[str, ...]  # that do the work, in the order of the page
    moved: tuple[str, ...]  # of these, the ones whose bytes are transferred
    axes: tuple[str, ...]  # the first that is swept is the horizontal axis
    facet: str | None = None  # small multiples
    mix: str | None = None  # names a section even where it is not swept
    sizes: tuple[str, ...] = ()  # parameters in bytes
    durations: tuple[str, ...] = ()  # parameters in ns
    titles: Mapping[str, str] = field(default_factory=dict)  # parameter names for people
    # A parameter's value as a phrase (``70/30 read/write``), or None for the usual one; empty where
    # another parameter's phrase says it. Sees all parameters of the point.
    phrase: Callable[[str, Mapping[str, Any]], str | None] = lambda _name, _params: None
    rate: str = "iops"  # the metric that counts operations
    rate_title: str = "operations/s"
