"""Cells of published configurations that stand beside measured ones, and never among them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class PublishedCell:
    """One printed number at a measured workload point."""

    config: str  # as the publication names it
    source: str  # name of the published table
    rows: tuple[str, ...]  # ids in that table
    point_key: str  # of the WorkloadPoint
    key: str  # of the column, such as throughput_mb_s.all
    value: float  # in the column's unit
    printed: str  # the token, where it is in the column's unit; else empty
    stated: bool  # False: the publication does not name the operating point of this number

    at: str = ""  # then: what it says in its place
    cited: str = ""  # publisher, title and date; empty where only the table's name is known

    @property
    def publication(self) -> str:
        """As a source line names it."""
        return self.cited or self.source

    @property
    def label(self) -> str:
        """The configuration as a series of a figure."""
        return f"{self.config} (published)"


def published_words(cells: Iterable[PublishedCell]) -> str:
    """Below a drawing: ``Published: Micron, “Title”, date not given``."""
    return f"Published: {'; '.join(dict.fromkeys(cell.publication for cell in cells))}"
