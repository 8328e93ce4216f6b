"""Warnings, findings, tables and facts that the GPUDirect family adds to a brief."""

from __future__ import annotations

from typing import Any

from storlab.analysis.compare import Comparison
from storlab.brief.family_additions import FamilyAdditions
from storlab.brief.model import DataTable, ExtraSection, FactTable
from storlab.brief.tables import Scale
from storlab.workloads.gpudirect.findings.best import best_table
from storlab.workloads.gpudirect.findings.paths import (
    WITHOUT,
    direct_path_gain,
    path_tables,
)
from storlab.workloads.gpudirect.findings.proof import (
    emulated,
    machine_facts,
    not_direct,
    proof_data,
    proof_table,
    proven,
)

NOT_SWEPT = (
    "Only one path was measured. To see what the direct path gains, set path = "
    '["direct", "bounce", "bounce-overlapped", "host"].'
)


class Findings(FamilyAdditions):
    """Warnings, findings, section and facts about GPUDirect, for a brief."""

    def warnings(self, comparison: Comparison) -> list[str]:
        """Return warnings about emulated GPUs, and about runs that were not proven to be direct."""
        return [*emulated(comparison), *not_direct(comparison)]

    def findings(self, comparison: Comparison) -> list[str]:
        """Return sentences on targets with direct transfers, and on what the direct path gains."""
        return [*proven(comparison), *direct_path_gain(comparison, WITHOUT)]

    def section(self, comparison: Comparison, scale: Scale) -> ExtraSection | None:
        """Build the section on best points, comparison of paths, and bytes by route."""
        paths = path_tables(comparison, scale)
        candidates = [best_table(comparison, scale), *paths, proof_table(comparison)]
        tables: list[DataTable] = [table for table in candidates if table is not None]
        if not tables:
            return None
        return ExtraSection(
            anchor="gpu-paths",
            title="Best points, paths, and what proves them",
            short="Paths",
            lead=[*self.warnings(comparison), *proven(comparison)],
            tables=tables,
            notes=[*(direct_path_gain(comparison) or [NOT_SWEPT])],
        )

    def facts(self, comparison: Comparison) -> list[FactTable]:
        """Return tables of the GPUs and libraries that runs used."""
        return machine_facts(comparison)

    def data(self, comparison: Comparison) -> dict[str, Any]:
        """Return the percentages of bytes by route at each point."""
        return {"gpu_paths": proof_data(comparison)}
