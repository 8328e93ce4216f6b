"""What a family says in a brief beside its metrics, where its page names it (``extra``)."""

from __future__ import annotations

from typing import Any

from storlab.analysis.compare import Comparison
from storlab.brief.model import DataTable, ExtraSection, FactTable
from storlab.brief.tables import Scale
from storlab.contracts.hook import load
from storlab.contracts.registry import FAMILIES


class Extra:
    """Asked once for a brief, where the comparison has points of its family; as it is, silent.

    ``rules`` are those of the audit whose findings its warnings say: such a brief is written.
    """

    rules: tuple[str, ...] = ()

    def warnings(self, comparison: Comparison) -> list[str]:
        """Before all findings: why the numbers must not be compared."""
        del comparison
        return []

    def findings(self, comparison: Comparison) -> list[str]:
        """Behind the findings that follow from its metrics."""
        del comparison
        return []

    def section(self, comparison: Comparison, scale: Scale) -> ExtraSection | None:
        """A section of its own; None where there is nothing to say."""
        del comparison, scale
        return None

    def tables(self, comparison: Comparison) -> list[DataTable]:
        """Build tables that ``storlab compare`` prints after those of the metrics."""
        del comparison
        return []

    def facts(self, comparison: Comparison) -> list[FactTable]:
        """Of the configuration, for whoever does the work again."""
        del comparison
        return []

    def data(self, comparison: Comparison) -> dict[str, Any]:
        """Plain values for the data inside the brief, by keys that no other part has."""
        del comparison
        return {}


def extra_of(kind: str) -> Extra | None:
    """What that family says; None where its page names nothing."""
    place = FAMILIES[kind].page.extra
    extra: Extra | None = load(place)() if place else None
    return extra


def extras_of(comparison: Comparison) -> list[Extra]:
    """Those of the families of a comparison, in the order of their sections."""
    return [extra for kind in comparison.kinds if (extra := extra_of(kind)) is not None]
