"""Proof, by workload and target, that the medium served the I/O of the runs."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from storlab.analysis.compare import Cell, Comparison

STATES = ("contradicted", "unproven", "proven")  # states of proof, weakest first


@dataclass(slots=True)
class TargetProof:
    """Proofs of all finished runs of one workload on one target."""

    workload: str
    target: str
    runs: dict[str, int] = field(default_factory=dict)  # number of runs by state
    not_judged: int = 0  # runs without a proof
    reasons: dict[str, list[str]] = field(default_factory=dict)  # distinct reasons by state

    @property
    def state(self) -> str:
        """The weakest state of any run."""
        return next(state for state in STATES if state in self.runs)

    @property
    def finished(self) -> int:
        """Number of finished runs."""
        return sum(self.runs.values()) + self.not_judged

    def add(self, cell: Cell) -> None:
        """Add the finished runs of the target at one point to the counts."""
        for run in cell.runs:
            proof = run.record.proof
            if proof is None:
                self.not_judged += 1
                continue
            self.runs[proof.state] = self.runs.get(proof.state, 0) + 1
            known = self.reasons.setdefault(proof.state, []) if proof.reasons else []
            known += [reason for reason in proof.reasons if reason not in known]

    def as_dict(self) -> dict[str, Any]:
        """Return the fields as plain values for JSON."""
        return {
            "workload": self.workload,
            "target": self.target,
            "state": self.state,
            "runs": {state: self.runs[state] for state in STATES if state in self.runs},
            "not_judged": self.not_judged,
            "reasons": self.reasons,
        }


def proofs_of(comparison: Comparison) -> list[TargetProof]:
    """Collect the proofs by workload and target, in the order of the page.

    Pairs without a judged run are left out, such as those of object stores.
    """
    proofs: dict[tuple[tuple[str, str, str], str], TargetProof] = {}
    for section in comparison.sections:
        name = section.prefix or section.workload
        for point in section.points:
            for target, cell in comparison.row(point).cells.items():
                key = (section.family, target)
                proofs.setdefault(key, TargetProof(name, target)).add(cell)
    return [proof for proof in proofs.values() if proof.runs]
