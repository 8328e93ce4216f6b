"""Claims carry the decision that holds for all comparisons of a brief together."""

from __future__ import annotations

import random
from collections.abc import Mapping

import pytest

from storlab.analysis.points import WorkloadPoint
from storlab.analysis.verdict import verdicts
from storlab.brief.claims import make_claims
from storlab.model.decision import NOT_SIGNIFICANT
from support.made_comparisons import Draw, comparison_of, dataset_of, filled, noisy, study_of

RATE = "throughput_mb_s.all"
LATE = "latency_mean_ns.read"


def both(draw: random.Random, rate: float, late: float = 1.0, noise: float = 0.01) -> Draw:
    """Return data in which A has this ratio of throughput and of latency."""

    def values(target: str, point: WorkloadPoint) -> Mapping[str, float]:
        del point
        more, longer = (rate, late) if target == "A" else (1.0, 1.0)
        return {
            RATE: 100 * more * draw.lognormvariate(0, noise),
            LATE: 1e6 * longer * draw.lognormvariate(0, noise),
        }

    return values


def test_a_claim_has_the_interval_of_its_own_comparison() -> None:
    comparison = comparison_of(study_of(("A", "B")), both(random.Random(3), 1.5))
    for claim in make_claims(comparison):
        if claim.asked:
            assert claim.joint.comparisons == 8
        assert claim.joint.ratio.low == pytest.approx(claim.decision.ratio.low)


def test_a_claim_that_all_comparisons_leave_open_is_not_decided_jointly() -> None:
    data = dataset_of(study_of(("A", "B")))
    comparison = next(
        found
        for seed in range(100)
        for found in [filled(data, noisy(random.Random(seed), {"A": 100.0, "B": 100.0}, 0.05))]
        if make_claims(found) and verdicts(found)[0].kind in NOT_SIGNIFICANT
    )
    for claim in make_claims(comparison):
        assert not claim.joint.decided
        assert claim.as_dict()["joint"]["comparisons"] == 8


def test_claims_that_answer_no_question_count_as_comparisons_too() -> None:
    study = study_of(
        ("A", "B"),
        header="question = ['density']",
        facts={"A": "capacity = '20TB'", "B": "capacity = '10TB'"},
        mixes=(50,),
    )
    comparison = comparison_of(study, both(random.Random(2), 2.0, noise=0.02))
    assert [verdict.kind for verdict in verdicts(comparison)] == ["within noise"]
    rates = [claim for claim in make_claims(comparison) if claim.decision.quantity == RATE]
    assert all(claim.joint.decided for claim in rates)
    # Two were asked for, four more were examined.
    assert {claim.joint.comparisons for claim in rates} == {6}
