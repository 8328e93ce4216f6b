"""Verdicts of a gate: on made-up campaigns whose truth is known, and how often they err."""

from __future__ import annotations

import math
import random
import sys
from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from storlab.analysis.compare import Comparison, compare
from storlab.analysis.dataset import load_dataset
from storlab.analysis.gate import ERROR, Gate, judge, verdict_of
from storlab.analysis.gate_power import repeats_to_decide
from storlab.analysis.stats import mean_interval, ratio_interval
from storlab.base.errors import StudyError
from storlab.model.gate import GateRule, Limit
from support.large_campaign import large_campaign

AT = {"block_size": "4KiB", "jobs": 1, "read_percent": 30, "queue_depth": 1}
TRUE_MB_S = 1200 * (1 - math.exp(-1 / 9))  # of Disk there; runs scatter by 2 %


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
    assert check.verdict == "undecided"
    assert (check.needed is None) == bool(check.reason)
    assert check.needed is None or check.needed > 8


def test_a_baseline_is_a_test_of_non_inferiority(results: Comparison, baseline: Comparison) -> None:
    held = judged(results, rule(at_least="0.9 x baseline"), baseline=baseline)
    broken = judged(results, rule(at_least="1.1x baseline"), baseline=baseline)
    assert (held.verdict, broken.verdict) == ("held", "broken")
    with pytest.raises(StudyError, match="needs a baseline"):
        judged(results, rule(at_least="0.9 x baseline"))


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
        ({"metric": "throughputt"}, '"throughputt" was not measured'),
        (
            {"target": "Disc"},
            'target: "Disc" is no target of the results\n  fix: did you mean "Disk"',
        ),
        (
            {"at": {"block_size": "8KiB"}},
            'no point has block_size = "8KiB"\n  fix: block_size was ',
        ),
        ({"workload": "other"}, 'workload: "other" is no workload of the results'),
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
    """Twenty checks of which the truth lies on the bound, a thousand times: of a wrong "held" or
    "broken", both are wrong there, one gate in twenty at most has any."""
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
            if verdict_of(interval, bound, "at_most") != "undecided":
                return True
        return False

    wrong = sum(mistaken() for _ in range(gates))
    sys.stdout.write(f"{wrong} of {gates} gates said more than was known\n")
    assert wrong / gates <= 0.05 + 3 * math.sqrt(0.05 * 0.95 / gates)


@pytest.mark.parametrize("ratio", [False, True])
def test_so_many_repeats_decide_as_often_as_was_said(ratio: bool) -> None:
    draw = random.Random(11)
    # As if drawn: a mean of 100 and a deviation of 5, to the digit.
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
        decided += verdict_of(interval, bound, "at_most") == "held"
    sys.stdout.write(f"{needed} repeats decided {decided} of 1000\n")
    assert 0.75 <= decided / 1000 <= 0.90
    assert repeats_to_decide(seen[:1], against, bound, 0.95) is None
    assert repeats_to_decide(seen, against, 2.0 if ratio else 100.0, 0.95) is None
