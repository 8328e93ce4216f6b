"""Base class for warnings, sentences and sections that one workload family adds to a brief."""

from __future__ import annotations

from typing import Any

from storlab.analysis.compare import Comparison
from storlab.brief.model import DataTable, ExtraSection, FactTable
from storlab.brief.tables import Scale
from storlab.contracts.hook import load
from storlab.contracts.registry import FAMILIES


class FamilyAdditions:
    """Base class of what a workload family adds to a brief; by default nothing.

    ``rules`` names audit rules whose findings are already stated by ``warnings``. Such a finding
    does not prevent the brief from being written.
    """

    rules: tuple[str, ...] = ()

    def warnings(self, comparison: Comparison) -> list[str]:
        """Return reasons why the numbers must not be compared; a brief shows them first."""
        del comparison
        return []

    def findings(self, comparison: Comparison) -> list[str]:
        """Return sentences to print after the findings that are derived from metrics."""
        del comparison
        return []

    def section(self, comparison: Comparison, scale: Scale) -> ExtraSection | None:
        """Return a section with contents of this family only; None if there are none."""
        del comparison, scale
        return None

    def tables(self, comparison: Comparison) -> list[DataTable]:
        """Return tables that ``storlab compare`` prints after those of the metrics."""
        del comparison
        return []

    def facts(self, comparison: Comparison) -> list[FactTable]:
        """Return tables of configuration details that are needed to reproduce the work."""
        del comparison
        return []

    def data(self, comparison: Comparison) -> dict[str, Any]:
        """Return values to embed in the brief as JSON, under keys that no other part uses."""
        del comparison
        return {}


def additions_of(kind: str) -> FamilyAdditions | None:
    """Return what a workload family adds to a brief; None if it adds nothing."""
    place = FAMILIES[kind].page.additions
    extra: FamilyAdditions | None = load(place)() if place else None
    return extra


def all_additions(comparison: Comparison) -> list[FamilyAdditions]:
    """Return what each workload family of a comparison adds to a brief, in section order."""
    return [extra for kind in comparison.kinds if (extra := additions_of(kind)) is not None]
