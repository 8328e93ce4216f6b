"""Audit a brief before it is written: recompute the numbers in its sentences from their runs."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path

from storlab.analysis.compare import Comparison, compare
from storlab.analysis.dataset import load_dataset
from storlab.audit.finding import Finding
from storlab.audit.from_claims import RULE as OWN_CLAIM
from storlab.audit.from_claims import BriefClaims, audit_brief
from storlab.audit.from_results import audit_comparison, result_rules
from storlab.brief.answers import headlines
from storlab.brief.key_findings import assertions, key_findings
from storlab.brief.model import FindingTable, Opening
from storlab.brief.openings import opening
from storlab.brief.published import RULE as OWN_PUBLISHED
from storlab.brief.published import printed_wrong
from storlab.brief.tables import scales_of
from storlab.results.store import ResultStore


def audited(
    comparison: Comparison, findings: Sequence[FindingTable], openings: Iterable[Opening] = ()
) -> list[Finding]:
    """Recompute every stated number from its runs; then audit published values and comparison."""
    records = {run.record.run_id: run.record for run in comparison.dataset.all_runs()}
    places = {r.record.run_id: str(r.store.directory) for r in comparison.dataset.all_runs()}
    stated = [
        *assertions(findings),
        *(checked for text in openings for checked in text.checked),
        *headlines(comparison),
    ]
    return [
        *audit_brief(BriefClaims(stated, records, places)),
        *printed_wrong(comparison),
        *audit_comparison(comparison),
    ]


def directory_rules() -> list[str]:
    """Return the names of all rules that ``audit_directory`` applies."""
    return [*result_rules(), OWN_CLAIM, OWN_PUBLISHED]


def audit_directory(directory: Path) -> list[Finding]:
    """Audit the numbers that a brief of a result directory would print, without writing it.

    Raises:
        ResultError: A run is damaged.
    """
    comparison = compare(load_dataset([ResultStore.open(directory)]))
    scales = scales_of(comparison)
    openings = (opening(comparison, s, scales[s.kind]) for s in comparison.sections)
    return audited(comparison, key_findings(comparison), openings)
