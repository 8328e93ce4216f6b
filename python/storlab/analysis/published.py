"""Published values that are shown next to measured ones, but never mixed with them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class PublishedCell:
    """Published number that is shown next to measured values of one workload point."""

    config: str  # configuration as the publication names it
    source: str  # name of the published table
    rows: tuple[str, ...]  # ids of the rows in that table
    point_key: str  # key of the workload point
    key: str  # key of the column, such as throughput_mb_s.all
    value: float  # value in the column's unit
    printed: str  # token as printed, if in the column's unit; else empty
    stated: bool  # False: the publication does not name the operating point of this number

    at: str = ""  # if not stated: what the publication says instead
    cited: str = ""  # publisher, title and date; empty if only the table's name is available

    @property
    def publication(self) -> str:
        """Publication as it is cited below a figure."""
        return self.cited or self.source

    @property
    def label(self) -> str:
        """Legend label of the published configuration in a figure."""
        return f"{self.config} (published)"


def published_words(cells: Iterable[PublishedCell]) -> str:
    """Return a source line such as ``Published: Micron, “Title”, date not given``."""
    return f"Published: {'; '.join(dict.fromkeys(cell.publication for cell in cells))}"
