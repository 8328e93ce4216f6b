"""Additions of a workload family to a brief, named by the ``extra`` of its page."""

from __future__ import annotations

from typing import Any

from storlab.analysis.compare import Comparison
from storlab.brief.model import DataTable, ExtraSection, FactTable
from storlab.brief.tables import Scale
from storlab.contracts.hook import load
from storlab.contracts.registry import FAMILIES


class FamilyAdditions:
    """Base class of a workload family's additions to a brief; methods return nothing by default.

    ``rules`` are audit rules whose findings the warnings already state: such findings do not
    prevent the brief from being written.
    """

    rules: tuple[str, ...] = ()

    def warnings(self, comparison: Comparison) -> list[str]:
        """Return warnings that the numbers must not be compared, shown before all findings."""
        del comparison
        return []

    def findings(self, comparison: Comparison) -> list[str]:
        """Return sentences to follow the findings derived from metrics."""
        del comparison
        return []

    def section(self, comparison: Comparison, scale: Scale) -> ExtraSection | None:
        """Return a section of the workload family; None if it has no content."""
        del comparison, scale
        return None

    def tables(self, comparison: Comparison) -> list[DataTable]:
        """Return tables that ``storlab compare`` prints after those of the metrics."""
        del comparison
        return []

    def facts(self, comparison: Comparison) -> list[FactTable]:
        """Return configuration details needed to reproduce the work."""
        del comparison
        return []

    def data(self, comparison: Comparison) -> dict[str, Any]:
        """Return plain values for the data in the brief, by keys that no other part uses."""
        del comparison
        return {}


def additions_of(kind: str) -> FamilyAdditions | None:
    """Return the additions of a workload family; None if its page names none."""
    place = FAMILIES[kind].page.additions
    extra: FamilyAdditions | None = load(place)() if place else None
    return extra


def all_additions(comparison: Comparison) -> list[FamilyAdditions]:
    """Return the additions of all workload families of a comparison, in section order."""
    return [extra for kind in comparison.kinds if (extra := additions_of(kind)) is not None]
