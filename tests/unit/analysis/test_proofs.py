"""Proof of the medium by workload and target: counts, weakest state, unique reasons."""

from __future__ import annotations

import random

from storlab.analysis.compare import Comparison
from storlab.analysis.proofs import proofs_of
from storlab.brief.proofs import MOST_REASONS, proof_sections, proof_texts
from storlab.model.result import Proof
from support.made_comparisons import comparison_of, noisy, study_of


def made(*proofs: Proof | None) -> Comparison:
    """Return two targets with one run per proof; the second target's runs are proven."""
    study = study_of(["A", "B"], sizes=["4KiB"], mixes=[100])
    draw = noisy(random.Random(1), {"A": 100.0, "B": 100.0}, 0.01)
    comparison = comparison_of(study, draw, repeats=len(proofs))
    for row in comparison.rows.values():
        for target, cell in row.cells.items():
            for run, proof in zip(cell.runs, proofs, strict=True):
                own = proof if target == "A" else proof and Proof(state="proven")
                run.record = run.record.model_copy(update={"proof": own})
    return comparison


def test_the_weakest_state_stands_for_a_target_and_reasons_are_given_once() -> None:
    unproven = Proof(state="unproven", reasons=["why"])
    refuted = Proof(state="contradicted", reasons=["a cache", "holes"])
    first, second = proofs_of(made(unproven, Proof(state="proven"), refuted, refuted, None))
    assert first.model_dump() == {
        "workload": "block",
        "target": "A",
        "state": "contradicted",
        "runs": {"contradicted": 2, "unproven": 1, "proven": 1},
        "not_judged": 1,
        "reasons": {"unproven": ["why"], "contradicted": ["a cache", "holes"]},
    }
    assert (second.target, second.state, second.reasons) == ("B", "proven", {})


def test_every_target_has_a_line_with_its_reasons() -> None:
    reasons = [f"reason {letter}" for letter in "abcdefgh"[: MOST_REASONS + 2]]
    comparison = made(Proof(state="unproven", reasons=reasons))
    unproven, proven = proof_texts(comparison)
    assert "A, block" in unproven
    assert [reason in unproven for reason in reasons] == [True] * MOST_REASONS + [False] * 2
    assert "B, block" in proven
    (section,) = proof_sections(comparison)
    assert section.notes == [unproven, proven]


def test_reasons_that_differ_in_their_numbers_are_shown_once() -> None:
    moved = [f"{size} were read, and the device counted 3 MB" for size in ("449 MB", "1.2 GB")]
    (unproven, _) = proof_texts(made(Proof(state="unproven", reasons=[*moved, "holes"])))
    assert [reason in unproven for reason in (*moved, "holes")] == [True, False, True]


def test_targets_without_a_judged_run_have_no_section() -> None:
    assert proofs_of(made(None)) == []
    assert proof_sections(made(None)) == []
