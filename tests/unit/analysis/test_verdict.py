"""The answer: which target leads, by how much, how surely, and where it is worse."""

from __future__ import annotations

import random
from collections.abc import Mapping
from copy import copy

import pytest

from storlab.analysis.compare import Comparison
from storlab.analysis.points import WorkloadPoint
from storlab.analysis.verdict import questions_of, verdicts
from storlab.model.decision import Interval, Reason, Verdict
from storlab.words.answers import compared, document, sentences, tile_text
from support.made_comparisons import (
    comparison_of,
    dataset_of,
    decided,
    filled,
    noisy,
    study_of,
)

RATE = "throughput_mb_s.all"
P99 = "latency_p99_ns.read"


def made(
    means: Mapping[str, float],
    *,
    noise: float = 0.02,
    repeats: int = 3,
    seed: int = 7,
    **study: object,
) -> Comparison:
    found = study_of(list(means), **study)  # type: ignore[arg-type]
    return comparison_of(found, noisy(random.Random(seed), means, noise), repeats)


def only(comparison: Comparison) -> Verdict:
    (verdict,) = verdicts(comparison)
    return verdict


@pytest.mark.parametrize("targets", [("A", "B"), ("A", "B", "C")])
def test_of_identical_targets_one_brief_in_twenty_names_a_winner(targets: tuple[str, ...]) -> None:
    data = dataset_of(study_of(targets))
    briefs, named, single = 400, 0, 0
    for seed in range(briefs):
        draw = noisy(random.Random(seed), dict.fromkeys(targets, 100.0), 0.05)
        comparison = filled(data, draw)
        named += bool(only(comparison).winner)
        rows = comparison.rows.values()
        single += any(r.decided for row in rows for t in row.ratios.values() for r in t.values())
    assert named <= 0.05 * briefs
    # Without the correction, many more intervals would show a difference.
    assert single > 0.10 * briefs


def test_the_headline_is_the_middle_of_the_points_and_says_of_how_many() -> None:
    times = {("4KiB", 0): 2.0, ("4KiB", 100): 3.0, ("4MiB", 0): 4.0, ("4MiB", 100): 8.0}
    study = study_of(("new", "old"), mixes=(0, 100))
    draw = random.Random(3)

    def values(target: str, point: WorkloadPoint) -> Mapping[str, float]:
        size = "4KiB" if point.params["block_size"] == 4096 else "4MiB"
        more = times[size, point.params["read_percent"]] if target == "new" else 1.0
        return {RATE: 100 * more * draw.lognormvariate(0, 0.01)}

    verdict = only(comparison_of(study, values))
    assert verdict.kind == "winner"
    assert verdict.winner == "new"
    assert verdict.headline is not None
    assert verdict.headline.advantage.estimate == pytest.approx(3.0, rel=0.05)
    assert verdict.headline.where.replace("\u00a0", " ").startswith("reads only, 4 KiB")
    assert (verdict.comparisons, verdict.points, verdict.won) == (4, 4, 4)
    assert verdict.ahead == {"new": 4, "old": 0}
    assert verdict.range == pytest.approx((2.0, 8.0), rel=0.05)


def test_more_comparisons_are_judged_more_strictly_by_the_same_printed_interval() -> None:
    few = only(made({"A": 100.0, "B": 97.0}, sizes=("4KiB",), mixes=(0,), noise=0.01))
    many = only(made({"A": 100.0, "B": 97.0}, noise=0.01))
    assert (few.comparisons, many.comparisons) == (1, 8)
    assert few.headline is not None and many.headline is not None
    assert few.headline.confidence == many.headline.confidence
    assert "interval" not in sentences(many)[0]


def test_the_baseline_wins_by_a_ratio_above_one() -> None:
    verdict = only(made({"disk": 50.0, "memory": 100.0}, mixes=(0,)))
    assert verdict.winner == "memory"
    assert verdict.headline is not None
    assert verdict.headline.advantage.estimate > 1.9
    assert tile_text(verdict).amount.endswith("×")
    assert "Disk" not in sentences(verdict)[0]  # names keep the user's spelling


def test_of_three_the_next_best_is_named() -> None:
    verdict = only(made({"slow": 50.0, "best": 120.0, "next": 100.0}, noise=0.005, mixes=(0,)))
    assert verdict.winner == "best"
    assert verdict.headline is not None
    assert verdict.headline.sides[1] == "next"


def test_where_each_is_ahead_somewhere_it_depends() -> None:
    study = study_of(("A", "B"), mixes=(0, 100), sizes=("4KiB",))
    draw = random.Random(1)

    def values(target: str, point: WorkloadPoint) -> Mapping[str, float]:
        ahead = (target == "A") == (point.params["read_percent"] == 0)
        return {RATE: (200.0 if ahead else 100.0) * draw.lognormvariate(0, 0.01)}

    verdict = only(comparison_of(study, values))
    assert verdict.kind == "depends"
    assert verdict.winner == ""
    assert verdict.ahead == {"A": 1, "B": 1}
    assert verdict.headline is not None and verdict.headline.decided


def test_alike_targets_are_not_told_apart() -> None:
    verdict = only(made({"A": 100.0, "B": 100.0}, mixes=(0,), sizes=("4KiB",), seed=8))
    assert (verdict.kind, verdict.alike) == ("within noise", 1)
    assert verdict.headline is not None
    assert verdict.headline.outcome == "within noise"
    low, high = verdict.headline.ratio.low, verdict.headline.ratio.high
    assert (low, high) == (pytest.approx(0.95, abs=0.005), pytest.approx(1.06, abs=0.005))
    assert len(sentences(verdict)) == 2


def test_noise_that_hides_the_size_of_a_difference_is_told_from_likeness() -> None:
    """Check that an interval wider than tenfold is not called run-to-run variation."""
    verdict = only(made({"A": 100.0, "B": 100.0}, mixes=(0,), sizes=("4KiB",), seed=8))
    assert verdict.headline is not None
    assert decided(Interval(1.0, 0.05, 20.0, 2)).outcome == "too noisy"
    loud = only(
        made({"A": 100.0, "B": 100.0}, noise=2.0, mixes=(0,), sizes=("4KiB",), repeats=2, seed=8)
    )
    assert loud.kind == "too noisy"
    assert sentences(loud)[0] != sentences(verdict)[0]


def test_several_alike_targets_are_listed() -> None:
    verdict = only(made({"A": 100.0, "B": 100.0, "C": 100.0}, mixes=(0,), sizes=("4KiB",), seed=8))
    assert verdict.targets == ("A", "B", "C")
    assert verdict.kind == "within noise"


def test_single_runs_decide_nothing() -> None:
    verdict = only(made({"A": 100.0, "B": 10.0}, repeats=1))
    assert verdict.kind == "one run"
    assert verdict.headline is not None and not verdict.headline.ratio.is_known
    assert len(sentences(verdict)) == 1


def test_a_disadvantage_at_any_point_is_said_beside_the_advantages() -> None:
    study = study_of(("A", "B"), mixes=(30, 70), sizes=("4KiB",))
    draw = random.Random(1)

    def values(target: str, point: WorkloadPoint) -> Mapping[str, float]:
        late = 5e6 if target == "A" and point.params["read_percent"] == 70 else 1e6
        noise = draw.lognormvariate(0, 0.01)
        rate = 200.0 if target == "A" else 100.0
        return {RATE: rate * noise, "latency_mean_ns.read": late * noise}

    verdict = only(comparison_of(study, values))
    assert verdict.winner == "A"
    assert [s.example.quantity for s in verdict.better] == [RATE]
    (worse,) = verdict.worse
    assert (worse.ahead, worse.behind, worse.points, worse.of) == ("B", "A", 1, 2)
    assert worse.example.advantage.estimate == pytest.approx(5.0, rel=0.1)
    assert worse.example.quantity == "latency_mean_ns.read"


def test_money_and_capacity_are_divided_by() -> None:
    comparison = made(
        {"fast": 200.0, "cheap": 100.0},
        facts={
            "fast": "price = 4000\ncapacity = '10TB'",
            "cheap": "price = 1000\ncapacity = '10TB'",
        },
        mixes=(0,),
    )
    throughput, cost = verdicts(comparison)
    assert (throughput.winner, cost.winner) == ("fast", "cheap")
    assert cost.question == "cost"
    assert cost.headline is not None
    assert cost.headline.advantage.estimate == pytest.approx(2.0, rel=0.05)


def test_a_study_asks_what_it_wants_in_its_order() -> None:
    comparison = made(
        {"A": 200.0, "B": 100.0},
        header="question = ['density', 'throughput']",
        facts={"A": "capacity = '40TB'", "B": "capacity = '10TB'"},
        mixes=(0,),
    )
    asked = [q.name for q in questions_of(comparison, comparison.sections)]
    assert asked == ["density", "throughput"]
    assert [(v.question, v.winner) for v in verdicts(comparison)] == [
        ("density", "B"),
        ("throughput", "A"),
    ]


def test_what_has_no_answer_says_so() -> None:
    verdict = only(made({"A": 2.0, "B": 1.0}, header="question = ['efficiency']"))
    assert verdict.kind == "not measured"
    assert verdict.reason == Reason(kind="no meter")
    assert (verdict.winner, verdict.headline) == ("", None)


def test_one_target_is_compared_with_nothing() -> None:
    verdict = only(made({"A": 2.0}))
    assert verdict.kind == "alone"
    assert verdict.targets == ("A",)


def test_targets_of_different_campaigns_were_not_measured_in_turns() -> None:
    data = dataset_of(study_of(("A", "B")))
    draw = noisy(random.Random(1), {"A": 200.0, "B": 100.0}, 0.01)
    assert only(filled(data, draw)).caveat is None
    other = copy(data.stores[0])
    for (_, target), runs in data.runs.items():
        for run in runs:
            run.store = other if target == "B" else run.store
    caveat = only(filled(data, draw)).caveat
    assert caveat is not None and caveat.kind == "different campaigns"


def test_the_far_point_is_the_last_that_most_targets_have() -> None:
    """Check that uneven sweeps are compared at the last point that most targets have."""
    header = "baseline = 'A'"
    study = study_of("ABC", header=header, sizes=("4KiB",), mixes=(50,), jobs=(1, 2, 4, 8))
    data = dataset_of(study)
    keys = {point.params["jobs"]: point.key for point in data.points}
    for jobs, target in ((8, "A"), (8, "B"), (4, "A"), (2, "C"), (1, "C")):
        data.runs[keys[jobs], target] = []
    comparison = filled(data, noisy(random.Random(1), dict.fromkeys("ABC", 100.0), 0.01))
    (section,) = comparison.sections
    (facet,) = section.facets()
    far = comparison.last_point(section, facet)
    assert far is not None and far.params["jobs"] == 2


@pytest.mark.parametrize(
    ("low", "high", "amount", "against"),
    [
        (1.005, 24.0, "ahead", "of B"),
        (1.49, 19.7, "at least 1.4×", "over B"),
        (1.9, 2.1, "2.0×", "over B"),
    ],
)
def test_a_gain_that_may_be_next_to_nothing_is_no_headline(
    low: float, high: float, amount: str, against: str
) -> None:
    found = only(made({"A": 200.0, "B": 100.0}, sizes=("4KiB",), mixes=(0,)))
    assert found.headline is not None
    headline = found.headline.model_copy(update={"interval": Interval(2.0, low, high, 3)})
    verdict = found.model_copy(update={"headline": headline})
    assert (tile_text(verdict).amount, tile_text(verdict).against) == (amount, against)
    first = compared(verdict).replace("\u00a0", " ")
    if amount == "ahead":
        assert first == (
            "A is ahead of B in throughput at writes only, 4 KiB, 1 job: at least 1.005 times, "
            "and more repeats would show how much."
        )
    else:
        assert first.startswith("A moves ")


def test_of_what_should_be_little_the_winner_is_not_so_many_times_over_the_other() -> None:
    found = only(made({"A": 200.0, "B": 100.0}, mixes=(0,)))
    assert found.headline is not None
    assert tile_text(found).against == "over B"
    headline = found.headline.model_copy(update={"better": "less"})
    assert tile_text(found.model_copy(update={"headline": headline})).against == "better than B"


def test_plain_values_for_programs() -> None:
    told = document(only(made({"A": 200.0, "B": 100.0}, mixes=(0,))))
    assert told["winner"] == "A"
    assert told["headline"]["sides"] == ("A", "B")
    assert told["headline"]["outcome"] == "better"
    assert told["comparisons"] == 2
    assert told["sentences"]
