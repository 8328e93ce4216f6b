"""Texts on whether the medium is known to have served the I/O, for briefs and ``compare``."""

from __future__ import annotations

import re

from storlab.analysis.compare import Comparison
from storlab.analysis.proofs import STATES, TargetProof, proofs_of
from storlab.brief.model import ExtraSection
from storlab.words.text import plural

TITLE = "Proof that the medium served the I/O"
LEAD = (
    "Proven: the counters of the devices or of the process confirm the bytes that the runs read "
    "and wrote. Unproven: it is not known what served them. Contradicted: a counter, the file "
    "system or the data shows that something else served at least a part."
)
MOST_REASONS = 3  # reasons for one state of proof that are printed in full
_NUMBER = re.compile(r"\d[\d.,]*(?: [kMGTP]?B\b)?")


def proof_sections(comparison: Comparison) -> list[ExtraSection]:
    """Build the section on proof of the medium; an empty list if no run was judged."""
    texts = proof_texts(comparison)
    if not texts:
        return []
    return [ExtraSection("proof", TITLE, "Proof", [LEAD], notes=texts)]


def proof_texts(comparison: Comparison) -> list[str]:
    """Say for each target and workload how many runs are proven, with reasons for the others."""
    return [_text(proof) for proof in proofs_of(comparison)]


def _text(proof: TargetProof) -> str:
    of = plural(proof.finished, "run")
    counts = [
        f"{state} in {proof.runs[state]:,} of {of}{_reasons(proof.reasons.get(state, []))}"
        for state in STATES
        if state in proof.runs
    ]
    if proof.not_judged:
        counts.append(f"not judged in {proof.not_judged:,} of {of}")
    return f"{proof.target}, {proof.workload}: {'; '.join(counts)}."


def _reasons(reasons: list[str]) -> str:
    """List reasons in brackets; of those that differ only in numbers, only the first is shown."""
    if not reasons:
        return ""
    alike: dict[str, list[str]] = {}
    for reason in reasons:
        alike.setdefault(_NUMBER.sub("#", reason), []).append(reason)
    texts = [
        first if not others else f"{first}, and {len(others):,} with other numbers"
        for first, *others in alike.values()
    ]
    more = len(texts) - MOST_REASONS
    shown = [*texts[:MOST_REASONS], *([plural(more, "more reason")] if more > 0 else [])]
    return f" ({'; '.join(shown)})"
