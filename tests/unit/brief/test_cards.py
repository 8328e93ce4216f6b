"""Findings are printed large only if all comparisons jointly decide them."""

from __future__ import annotations

import random
from collections.abc import Mapping
from dataclasses import replace

from storlab.analysis.compare import Comparison
from storlab.analysis.points import WorkloadPoint
from storlab.analysis.verdict import verdicts
from storlab.brief.claims import Claim, cards, make_claims
from storlab.model.decision import NOT_SIGNIFICANT, Interval
from support.made_comparisons import Draw, comparison_of, dataset_of, filled, noisy, study_of

RATE = "throughput_mb_s.all"
LATE = "latency_mean_ns.read"


def large(comparison: Comparison) -> list[Claim]:
    found = verdicts(comparison)
    headlines = [v.headline for v in found if v.winner and v.headline is not None]
    answered = [set(headline.points) for headline in headlines]
    return cards(make_claims(comparison), found, answered)


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


def test_of_identical_targets_one_brief_in_twenty_prints_a_winner_large() -> None:
    data = dataset_of(study_of(("A", "B")))
    briefs, printed, worded = 400, 0, 0
    for seed in range(briefs):
        comparison = filled(data, noisy(random.Random(seed), {"A": 100.0, "B": 100.0}, 0.05))
        printed += bool(large(comparison)) or any(v.winner for v in verdicts(comparison))
        worded += bool(make_claims(comparison))
    assert printed <= 0.05 * briefs
    assert worded > 0.10 * briefs  # by separate intervals, as in the sentences


def test_what_stands_in_for_a_question_without_an_answer_is_held_to_the_same() -> None:
    data = dataset_of(study_of(("A", "B"), header="question = ['cost']", mixes=(50,)))
    briefs, printed, worded = 400, 0, 0
    for seed in range(briefs):
        comparison = filled(data, both(random.Random(seed), 1.0, noise=0.05))
        printed += bool(large(comparison))
        worded += bool(make_claims(comparison))
    assert 0 < printed <= 0.05 * briefs < 0.10 * briefs < worded


def test_a_card_is_judged_by_all_comparisons_and_prints_the_interval_of_its_own() -> None:
    comparison = comparison_of(study_of(("A", "B")), both(random.Random(3), 1.5))
    for claim in large(comparison):
        assert claim.joint.comparisons == 8
        assert claim.joint.ratio == claim.decision.ratio
        assert claim.bounds


def test_a_finding_that_the_count_leaves_open_is_a_sentence_that_says_so() -> None:
    data = dataset_of(study_of(("A", "B")))
    comparison = next(
        found
        for seed in range(100)
        for found in [filled(data, noisy(random.Random(seed), {"A": 100.0, "B": 100.0}, 0.05))]
        if make_claims(found) and verdicts(found)[0].kind in NOT_SIGNIFICANT
    )
    assert large(comparison) == []
    for claim in make_claims(comparison):
        assert claim.note
        assert not claim.joint.decided
        assert claim.as_dict()["joint"]["comparisons"] == 8


def test_what_nobody_asked_takes_no_place_of_what_is_open() -> None:
    study = study_of(
        ("A", "B"),
        header="question = ['density']",
        facts={"A": "capacity = '20TB'", "B": "capacity = '10TB'"},
        mixes=(50,),
    )
    comparison = comparison_of(study, both(random.Random(2), 2.0, noise=0.02))
    assert [verdict.kind for verdict in verdicts(comparison)] == ["within noise"]
    rates = [claim for claim in make_claims(comparison) if claim.decision.quantity == RATE]
    assert all(claim.joint.decided and not claim.note for claim in rates)
    # Two were asked for, four more were examined.
    assert {claim.joint.comparisons for claim in rates} == {6}
    assert large(comparison) == []


def test_a_card_tells_a_size_that_is_known() -> None:
    comparison = comparison_of(study_of(("A", "B"), mixes=(0,)), both(random.Random(3), 1.5))
    claims = make_claims(comparison)
    rate = next(claim for claim in claims if claim.decision.quantity == RATE)
    for low, known in ((1.3, True), (1.01, False)):
        decision = rate.decision.model_copy(update={"interval": Interval(2.0, low, 9.0, 3)})
        vague = replace(rate, finding=replace(rate.finding, decision=decision))
        assert cards([vague], [], []) == [vague] * known
