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
    names: Mapping[str, str] = field(default_factory=dict)  # operations for people: get -> GET
    mix_words: str = ""  # what a phrase of the mix ends with, left out on axes: ``read/write``
    split: bool = False  # throughput and rate stand in tables by operation, too
    percentiles: tuple[str, ...] = ("p99",)  # of latencies in tables; several get their own table
    first_byte: tuple[str, ...] = ()  # operations that have a time to first byte
    # Texts with parameters in braces: of an axis, and of the work as a whole. What is swept
    # elsewhere has no one value there, and is left out.
    axis_titles: Mapping[str, str] = field(default_factory=dict)
    work: str = "I/O"
    # Metrics that are divided by mean power, and what the quotient is called.
    per_watt: Mapping[str, str] = field(default_factory=dict)
    told: tuple[str, ...] = ()  # said of the work as a whole wherever it does not vary
    far: str = "the far end of its axis"  # where findings look: "the largest number of jobs"
    # Whether a parameter that all points share says anything: not of what is not done.
    says: Callable[[str, Mapping[str, Any]], bool] = lambda _name, _params: True

    def name_of(self, operation: str) -> str:
        """An operation for people: ``read``, ``GET``."""
        return self.names.get(operation, operation)
