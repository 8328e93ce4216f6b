"""Audit of a brief before it is written: claims are recomputed from their runs."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path

from storlab.analysis.compare import Cell, Comparison, compare
from storlab.analysis.dataset import load_dataset
from storlab.audit.finding import Finding
from storlab.audit.from_claims import RULE as OWN_CLAIM
from storlab.audit.from_claims import BriefClaims, ClaimData, ClaimSide, audit_brief
from storlab.audit.from_results import audit_comparison, result_rules
from storlab.brief.answers import headlines
from storlab.brief.claims import Claim, make_claims
from storlab.brief.published import RULE as OWN_PUBLISHED
from storlab.brief.published import printed_wrong
from storlab.results.store import ResultStore


def audited(comparison: Comparison, claims: Iterable[Claim]) -> list[Finding]:
    """Audit the claims, recomputed from their runs, and then the comparison itself."""
    records = {run.record.run_id: run.record for run in comparison.dataset.all_runs()}
    cells = {cell.point_id: cell for row in comparison.rows.values() for cell in row.cells.values()}
    owners = {run.record.run_id: run.target for run in comparison.dataset.all_runs()}
    places = {r.record.run_id: str(r.store.directory) for r in comparison.dataset.all_runs()}
    plain = [
        data
        for claim in claims
        for single in [_claim_data(claim, cells, owners)]
        for data in (single, *([_large(claim, single)] if claim.joint.decided else []))
    ] + headlines(comparison)
    return [
        *audit_brief(BriefClaims(plain, records, places)),
        *printed_wrong(comparison),
        *audit_comparison(comparison),
    ]


def directory_rules() -> list[str]:
    """Return the names of all rules that findings of ``audit_directory`` can have."""
    return [*result_rules(), OWN_CLAIM, OWN_PUBLISHED]


def audit_directory(directory: Path) -> list[Finding]:
    """Audit the brief that a result directory would give.

    Raises:
        ResultError: A run is damaged.
    """
    comparison = compare(load_dataset([ResultStore.open(directory)]))
    return audited(comparison, make_claims(comparison))


def claim_data(comparison: Comparison, claim: Claim) -> ClaimData:
    """Return a claim in the form the audit checks: its assertion and the runs of each side."""
    cells = {cell.point_id: cell for row in comparison.rows.values() for cell in row.cells.values()}
    owners = {run.record.run_id: run.target for run in comparison.dataset.all_runs()}
    return _claim_data(claim, cells, owners)


def _claim_data(
    claim: Claim, cells: Mapping[str | None, Cell], owners: Mapping[str, str]
) -> ClaimData:
    boundaries = {
        cell.target: cell.power.boundary
        for point in claim.point_ids
        if (cell := cells.get(point)) is not None and cell.power is not None
    }
    base = tuple(run for run in claim.run_ids if owners.get(run) == claim.baseline)
    target_runs = tuple(run for run in claim.run_ids if run not in base)
    sides = [
        ClaimSide(target, runs, boundaries.get(target))
        for target, runs in ((claim.target, target_runs), (claim.baseline, base))
    ]
    return ClaimData(
        statement=claim.sentence,
        metric=claim.metric,
        ratio=claim.ratio,
        sides=(sides[0], sides[1]),
        caveat=claim.caveat,
        beside=frozenset(mark.kind for mark in claim.marks),
        numbers=claim.numbers,
    )


def _large(claim: Claim, single: ClaimData) -> ClaimData:
    """Return the large number of a claim's card, for the interval over all comparisons together."""
    return replace(
        single,
        statement=f"{claim.target} {claim.joint.number.words} {claim.unit}",
        ratio=claim.joint.ratio,
        numbers=(claim.joint.number,),
        confidence=claim.joint.confidence,
    )
