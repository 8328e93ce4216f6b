"""Verdicts of a gate on synthetic campaigns with known truth, and their error rate."""

from __future__ import annotations

import math
import random
import sys
from collections import Counter
from pathlib import Path
from typing import Any, ClassVar

import pytest
from pydantic import ValidationError

from storlab.analysis.compare import CellFlag, Comparison, compare
from storlab.analysis.dataset import load_dataset
from storlab.analysis.gate import ERROR, Gate, _never, judge
from storlab.analysis.gate_interval import Measured
from storlab.analysis.gate_power import repeats_to_decide
from storlab.analysis.points import as_read, as_written, matches
from storlab.analysis.stats import mean_interval, ratio_interval
from storlab.base.errors import StudyError
from storlab.contracts.registry import FAMILIES
from storlab.exchange.gate_report import advice_text, measured_text
from storlab.model.decision import Interval, outcome_of
from storlab.model.gate import GateRule, Limit
from storlab.model.result import RunRecord
from support.large_campaign import large_campaign

AT = {"block_size": "4KiB", "jobs": 1, "read_percent": 30, "queue_depth": 1}
TRUE_MB_S = 1200 * (1 - math.exp(-1 / 9))  # of Disk at that point; runs scatter by 2 %


def comparison(place: Path, seed: int) -> Comparison:
    store = large_campaign(place, runs=80, repeats=8, draw=random.Random(seed))
    return compare(load_dataset([store]))


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> Comparison:
    return comparison(tmp_path_factory.mktemp("gate") / "out", 3)


@pytest.fixture(scope="module")
def baseline(tmp_path_factory: pytest.TempPathFactory) -> Comparison:
    return comparison(tmp_path_factory.mktemp("gate") / "before", 4)


def rule(**fields: Any) -> GateRule:
    return GateRule.model_validate({"metric": "throughput", "target": "Disk", "at": AT, **fields})


def judged(results: Comparison, *rules: GateRule, baseline: Comparison | None = None) -> Gate:
    return judge(rules, results, baseline)


@pytest.mark.parametrize(
    ("bound", "verdict"),
    [
        ({"at_least": f"{0.9 * TRUE_MB_S:.3f}MB/s"}, "held"),
        ({"at_least": f"{0.0011 * TRUE_MB_S:.5f} GB/s"}, "broken"),
        ({"at_most": 1.1 * TRUE_MB_S}, "held"),
        ({"at_most": f"{0.9 * TRUE_MB_S:.3f} MB/s"}, "broken"),
        ({"at_least": 0.9 * TRUE_MB_S, "at_most": 1.1 * TRUE_MB_S}, "held"),
    ],
)
def test_a_bound_beside_the_truth_is_decided(
    results: Comparison, bound: dict[str, Any], verdict: str
) -> None:
    assert judged(results, rule(**bound)).verdict == verdict


def test_a_bound_within_the_interval_is_not(results: Comparison) -> None:
    first = judged(results, rule(at_least=1)).checks[0]
    assert first.interval is not None
    (check,) = judged(results, rule(at_least=first.interval.estimate * 1.001)).checks
    assert check.verdict == "inconclusive"
    assert (check.needed is None) == bool(check.reason)
    assert check.needed is None or check.needed > 8


def test_a_baseline_is_a_test_of_non_inferiority(results: Comparison, baseline: Comparison) -> None:
    held = judged(results, rule(at_least="0.9 x baseline"), baseline=baseline)
    broken = judged(results, rule(at_least="1.1x baseline"), baseline=baseline)
    assert (held.verdict, broken.verdict) == ("held", "broken")
    with pytest.raises(StudyError, match="needs a baseline"):
        judged(results, rule(at_least="0.9 x baseline"))


def test_the_state_of_drives_on_either_side_stands_beside_a_verdict(
    results: Comparison, baseline: Comparison, monkeypatch: pytest.MonkeyPatch
) -> None:
    kinds = {"here": ["throttled", "client-bound"], "there": ["worn", "client-bound"]}
    for side, comparison in (("here", results), ("there", baseline)):
        flags = [CellFlag(kind, "m", 2) for kind in kinds[side]]
        for row in comparison.rows.values():
            monkeypatch.setattr(row.cells["Disk"], "flags", flags)
    relative = judged(results, rule(at_least="0.9 x baseline"), baseline=baseline).checks
    absolute = judged(results, rule(at_least="1MB/s"), baseline=baseline).checks
    here = ("throttled on 2 of 8 runs", "client-bound on 2 of 8 runs")
    assert {check.remarks[:3] for check in relative} == {
        (*here, "worn on 2 of 8 runs of the baseline")
    }
    assert {check.remarks for check in absolute} == {here}
    assert {check.verdict for check in relative} == {"held"}


def test_a_rule_is_checked_wherever_it_applies(results: Comparison) -> None:
    every = GateRule.model_validate({"metric": "latency_p99", "at_most": "10s"})
    found = judged(results, every)
    assert len(found.checks) == 2 * 2 * 5  # targets, reads and writes, points
    assert {c.column.key for c in found.checks} == {"latency_p99_ns.read", "latency_p99_ns.write"}
    assert found.confidence == pytest.approx(1 - ERROR / 20)
    assert found.verdict == "held"


@pytest.mark.parametrize(
    ("fields", "text"),
    [
        ({"metric": "throughputt"}, 'no run has the metric "throughputt"'),
        (
            {"target": "Disc"},
            'target: "Disc" is not a target of the study\n  fix: did you mean "Disk"',
        ),
        (
            {"at": {"block_size": "8KiB"}},
            'no point has block_size = "8KiB"\n  fix: block_size is ',
        ),
        ({"workload": "other"}, 'workload: "other" is not a workload of the study'),
        ({"at_most": "2ms"}, "has no such unit"),
    ],
)
def test_a_rule_that_applies_nowhere_is_no_rule_that_is_held(
    results: Comparison, fields: dict[str, Any], text: str
) -> None:
    with pytest.raises(StudyError, match=text) as raised:
        judged(results, rule(at_least=1), rule(**{"at_least": 1, **fields}))
    assert raised.value.where.startswith("[[gate]] 2: ")


@pytest.mark.parametrize(
    ("text", "number", "unit", "of_baseline"),
    [
        (2, 2.0, "", False),
        ("2ms", 2.0, "ms", False),
        ("1_500 MiB/s", 1500.0, "MiB/s", False),
        ("0.95 x baseline", 0.95, "", True),
        ("1.05x baseline", 1.05, "", True),
    ],
)
def test_limits_are_read(text: str | float, number: float, unit: str, of_baseline: bool) -> None:
    limit = Limit.parse(text)
    assert (limit.number, limit.unit, limit.of_baseline) == (number, unit, of_baseline)


@pytest.mark.parametrize("text", ["", "fast", "-2ms", "2 ms 3", "0 x baseline", "x baseline"])
def test_what_is_no_limit_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"limit|multiple"):
        Limit.parse(text)


def test_a_rule_has_a_bound() -> None:
    with pytest.raises(ValidationError, match="no bound"):
        GateRule.model_validate({"metric": "iops"})


def test_few_gates_say_what_is_not_so() -> None:
    """Check that at most one gate in twenty errs if all truths are exactly on the bound.

    Both "held" and "broken" are wrong there; at most one gate in twenty may contain either.
    """
    draw, checks, gates = random.Random(7), 20, 1000
    confidence = 1 - ERROR / checks

    def mistaken() -> bool:
        for number in range(checks):
            values = [draw.gauss(100, 5) for _ in range(5)]
            if number % 2:
                interval, bound = mean_interval(values, confidence), 100.0
            else:
                against = [draw.gauss(200, 5) for _ in range(5)]
                interval, bound = ratio_interval(values, against, confidence), 0.5
            if outcome_of(interval, bound, "less", reached=True) in ("better", "worse"):
                return True
        return False

    wrong = sum(mistaken() for _ in range(gates))
    sys.stdout.write(f"{wrong} of {gates} gates said more than was known\n")
    assert wrong / gates <= 0.05 + 3 * math.sqrt(0.05 * 0.95 / gates)


@pytest.mark.parametrize("ratio", [False, True])
def test_bounds_on_both_sides_of_the_truth_are_seldom_mistaken(ratio: bool) -> None:
    """Check the error rate of single checks with the truth close to the bound.

    "Broken" is wrong within the bound and "held" beyond it; each in at most one of forty.
    """
    draw, checks = random.Random(13), 4000

    def verdict_at(share: float) -> str:
        values = [draw.gauss(100, 2) * share for _ in range(5)]
        if not ratio:
            return outcome_of(mean_interval(values), 100.0, "less", reached=True)
        against = [draw.gauss(50, 1) for _ in range(5)]
        return outcome_of(ratio_interval(values, against), 2.0, "less", reached=True)

    for percent in (-10, -5, -3, -1, -0.1, 0.1, 1, 3, 5, 10):
        found = Counter(verdict_at(1 + percent / 100) for _ in range(checks))
        rates = {
            verdict: found[verdict] / checks for verdict in ("better", "worse", "within noise")
        }
        told = ", ".join(f"{verdict} {100 * rate:.1f} %" for verdict, rate in rates.items())
        sys.stdout.write(f"{'ratio' if ratio else 'number'}, truth {percent:+g} %: {told}\n")
        right, wrong = ("better", "worse") if percent < 0 else ("worse", "better")
        assert rates[wrong] <= 0.025 + 3 * math.sqrt(0.025 * 0.975 / checks)
        if abs(percent) >= 5:
            assert rates[right] >= 0.85


@pytest.mark.parametrize("ratio", [False, True])
def test_so_many_repeats_decide_as_often_as_was_said(ratio: bool) -> None:
    draw = random.Random(11)
    # As if drawn, with exactly a mean of 100 and a deviation of 5.
    seen = [100 + 5 * d for d in (-1.2649110640673518, -0.6324555320336759, 0, 0.6324555320336759,
                                  1.2649110640673518)]  # fmt: skip
    against = [50 + each / 1000 for each in range(-5, 6)] if ratio else []
    bound = 2.06 if ratio else 103.0
    needed = repeats_to_decide(seen, against, bound, 0.95)
    assert needed is not None
    decided = 0
    for _ in range(1000):
        values = [draw.gauss(100, 5) for _ in range(needed)]
        interval = ratio_interval(values, against) if ratio else mean_interval(values)
        decided += outcome_of(interval, bound, "less", reached=True) == "better"
    sys.stdout.write(f"{needed} repeats decided {decided} of 1000\n")
    assert 0.75 <= decided / 1000 <= 0.90
    assert repeats_to_decide(seen[:1], against, bound, 0.95) is None
    assert repeats_to_decide(seen, against, 2.0 if ratio else 100.0, 0.95) is None


def test_a_vague_baseline_is_why_repeats_do_not_help() -> None:
    exact, vague = [100.0, 100.1, 99.9], [95.0, 105.0]
    told = [
        _never(Measured(None, values=exact, against=against, meter=meter), bound, 0.95)
        for against, meter, bound in (
            (vague, 0.0, 0.9), (vague, 0.0, 1.0), ([], 0.0, 100.0), ([], 0.05, 99.0),
        )
    ]  # fmt: skip
    assert "the baseline's 2 repeats are too few" in told[0]
    assert "they lie on the bound" in told[1]
    assert "they lie on the bound" in told[2]
    assert told[3] == "the meter is not accurate enough to decide it"


def test_one_broken_rule_breaks_the_gate(results: Comparison) -> None:
    first = judged(results, held := rule(at_least=1)).checks[0]
    assert first.interval is not None
    inconclusive = rule(at_least=first.interval.estimate * 1.001)
    broken = rule(at_least="1TB/s")
    assert judged(results, held, inconclusive).verdict == "inconclusive"
    assert judged(results, held, broken).verdict == "broken"
    assert judged(results, held, inconclusive, broken).verdict == "broken"


def test_rules_have_verdicts_over_all_their_checks(results: Comparison) -> None:
    rules = [rule(at_least=1), rule(at_least="1TB/s", target=None)]
    found = judged(results, *rules)
    assert [(each.number, each.verdict) for each in found.rules] == [(1, "held"), (2, "broken")]
    assert {check.number for check in found.rules[1].checks} == {2}
    told = found.rules[1].as_dict()
    assert (told["metric"], told["at_least"], told["broken"]) == ("throughput", "1TB/s", 2)
    assert found.checks[0].model_dump()["number"] == 1
    assert found.checks[0].model_dump()["quantity"] == "throughput_mb_s.all"


def test_a_report_says_how_many_more_repeats(results: Comparison) -> None:
    (check,) = judged(results, rule(at_least=1)).checks
    for needed, words in ((17, "9 more repeats would"), (9, "1 more repeat would")):
        assert (
            advice_text(check.model_copy(update={"needed": needed}))
            == f"{words} decide it ({needed} in all)"
        )


@pytest.mark.parametrize(
    ("low", "outcome", "words"),
    [
        (0.1, "within noise", "10.0 MB/s [wider than a factor of 10]"),
        (10.0, "within noise", "10.0 MB/s [wider than a factor of 10]"),
        (200.0, "within noise", "10.0 MB/s [200 MB/s–1,000 MB/s]"),
        (0.1, "worse", "10.0 MB/s [0.100 MB/s–1,000 MB/s]"),  # one end is the reason
        (0.0, "within noise", "10.0 MB/s [0 MB/s–1,000 MB/s]"),
    ],
)
def test_ends_that_say_nothing_are_no_numbers(
    results: Comparison, low: float, outcome: str, words: str
) -> None:
    (check,) = judged(results, rule(at_least=1)).checks
    wide = Interval(10.0, low, 1000.0, 3)
    assert measured_text(check.model_copy(update={"interval": wide, "outcome": outcome})) == words


@pytest.mark.parametrize("bound", [5e-5, 0.00005, "5e-5", "1.5e3MB/s", 1e16])
def test_bounds_have_exponents(bound: float | str) -> None:
    limit = Limit.parse(bound)
    assert limit.number == float(str(bound).removesuffix("MB/s"))
    with pytest.raises(ValueError, match="larger than any number"):
        Limit.parse("1e999")


def test_concurrency_is_held_to_bounds_where_it_is_not_sampled(tmp_path: Path) -> None:
    """Check that concurrency from Little's law is used if it is not sampled."""

    def without(record: RunRecord) -> RunRecord:
        metrics = [m for m in record.metrics if m.name != "concurrency_effective"]
        return record.model_copy(update={"metrics": metrics})

    store = large_campaign(
        tmp_path / "out", runs=20, repeats=5, draw=random.Random(1), change=without
    )
    found = judged(
        compare(load_dataset([store])), rule(metric="concurrency_effective", at={}, at_most=2.5)
    )
    assert {check.verdict for check in found.checks} <= {"held", "broken"}
    assert [check.repeats for check in found.checks] == [5] * len(found.checks)


class TestDurations:
    """Durations of points are stored in ns and written as in a study."""

    page = FAMILIES["block"].page
    params: ClassVar = {"drain_timeout": 30_000_000_000, "block_size": 4096}

    @pytest.mark.parametrize("value", ["30s", "0.5min", "30000ms", 30, 30.0])
    def test_they_match(self, value: Any) -> None:
        assert matches(self.page, self.params, as_read(self.page, {"drain_timeout": value}))

    @pytest.mark.parametrize("value", ["31s", "soon", 31, True])
    def test_others_do_not(self, value: Any) -> None:
        assert not matches(self.page, self.params, as_read(self.page, {"drain_timeout": value}))

    def test_they_are_told_as_written(self) -> None:
        told = [as_written(self.page, name, value) for name, value in self.params.items()]
        assert told == ["30s", "4KiB"]

    def test_a_familys_types_tell_sizes_and_durations(self) -> None:
        parameters = self.page.parameters
        assert parameters.durations == {"drain_timeout"}
        assert parameters.sizes == {"block_size", "region_start", "region_size", "total_bytes"}
