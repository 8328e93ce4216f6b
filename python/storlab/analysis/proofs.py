"""Proof, by workload and target, that the storage medium (not a cache) served the runs' I/O."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from pydantic import Field, computed_field

from storlab.contracts.document import Part

if TYPE_CHECKING:
    from storlab.analysis.compare import Cell, Comparison

State = Literal["proven", "unproven", "contradicted"]
STATES: tuple[State, ...] = ("contradicted", "unproven", "proven")  # states of proof, weakest first


class TargetProof(Part):
    """Proof that the storage medium served the finished runs of one workload on one target.

    ``runs`` counts the runs by state of their proof: proven, unproven or contradicted. ``reasons``
    has the distinct reasons for each state.
    """

    workload: str
    target: str
    runs: dict[State, int] = Field(default_factory=dict)
    not_judged: int = 0  # runs without a proof
    reasons: dict[State, list[str]] = Field(default_factory=dict)  # without duplicates

    @computed_field  # type: ignore[prop-decorator]
    @property
    def state(self) -> State:
        """State of the weakest proof: contradicted, else unproven, else proven."""
        return next(state for state in STATES if state in self.runs)

    @property
    def finished(self) -> int:
        """Number of finished runs."""
        return sum(self.runs.values()) + self.not_judged

    def add(self, cell: Cell) -> None:
        """Add the finished runs of one target at one point to the counts by state of proof."""
        for run in cell.runs:
            proof = run.record.proof
            if proof is None:
                self.not_judged += 1
                continue
            self.runs[proof.state] = self.runs.get(proof.state, 0) + 1
            known = self.reasons.setdefault(proof.state, []) if proof.reasons else []
            known += [reason for reason in proof.reasons if reason not in known]


def proofs_of(comparison: Comparison) -> list[TargetProof]:
    """Collect the proofs of each workload and target, in the order of the page.

    A workload and target of which no run has a proof, such as an object store, is left out.
    """
    proofs: dict[tuple[tuple[str, str, str], str], TargetProof] = {}
    for section in comparison.sections:
        name = section.prefix or section.workload
        for point in section.points:
            for target, cell in comparison.row(point).cells.items():
                key = (section.family, target)
                proofs.setdefault(key, TargetProof(workload=name, target=target)).add(cell)
    return [proof for proof in proofs.values() if proof.runs]
