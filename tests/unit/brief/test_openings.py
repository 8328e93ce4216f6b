"""Text that opens a section: which targets and points it compares, and which numbers it prints."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence

import pytest

from storlab.analysis.compare import Comparison
from storlab.analysis.points import WorkloadPoint
from storlab.audit.from_claims import Assertion, StatedValue
from storlab.brief.model import Opening
from storlab.brief.openings import opening
from storlab.brief.tables import scales_of
from storlab.words.openings import text_of
from support.made_comparisons import Draw, comparison_of, study_of

TARGETS = ("SSD", "HDD", "Tape")
RATES = {"SSD": {1: 1687.0, 8: 4168.0}, "HDD": {1: 235.0, 8: 729.0}, "Tape": {1: 90.0, 8: 180.0}}
USE_CASE = "[[workload.use_case]]\nname = 'streaming'\nmatch = {block_size = '4MiB'}\n"


def drawn(rates: Mapping[str, Mapping[int, float]], noise: float = 0.01, seed: int = 1) -> Draw:
    draw = random.Random(seed)

    def values(target: str, point: WorkloadPoint) -> Mapping[str, float]:
        rate = rates[target].get(point.params["jobs"])
        if rate is None:
            return {}
        rate *= draw.lognormvariate(0, noise)
        return {
            "throughput_mb_s.all": rate,
            "latency_mean_ns.read": 1e9 / rate,
            "concurrency_effective.all": 16.0,
        }

    return values


def compared(
    targets: Sequence[str], draw: Draw, repeats: int = 3, jobs: Sequence[int] = (1, 8)
) -> Comparison:
    study = study_of(targets, header="baseline = 'HDD'", sizes=("4MiB",), mixes=(70,), jobs=jobs)
    return comparison_of(study, draw, repeats)


def opened(comparison: Comparison) -> Opening:
    (section,) = comparison.sections
    return opening(comparison, section, scales_of(comparison)[section.kind])


def sentences(text: Opening) -> list[str]:
    (paragraph,) = text.paragraphs
    return [text_of(pieces).replace("\u00a0", " ") for pieces in paragraph.sentences]


def ratios(text: Opening) -> list[Assertion]:
    return [checked for checked in text.checked if isinstance(checked, Assertion)]


def test_a_sweep_is_compared_at_its_first_and_last_point() -> None:
    text = opened(compared(TARGETS[:2], drawn(RATES)))
    throughput, latency = sentences(text)
    of_sweep = [claim for claim in ratios(text) if claim.quantity == "throughput_mb_s.all"]
    assert [claim.decision.sides for claim in of_sweep] == [("SSD", "HDD")] * 2
    assert [round(c.decision.ratio.estimate, 1) for c in of_sweep] == [
        pytest.approx(1687 / 235, rel=0.05),
        pytest.approx(4168 / 729, rel=0.05),
    ]
    for printed in (claim.numbers[0].words for claim in of_sweep):
        assert printed in throughput
    values = [checked for checked in text.checked if isinstance(checked, StatedValue)]
    assert [value.sides[0][0] for value in values] == ["SSD", "SSD", "HDD", "HDD", "SSD", "HDD"]
    assert all(number.text in value.statement for value in values for number in value.numbers)
    assert "from 1 to 8 jobs" in throughput
    assert "at 8 jobs" in latency


def test_the_best_two_of_three_targets_are_compared() -> None:
    text = opened(compared(TARGETS, drawn(RATES)))
    assert {claim.decision.sides for claim in ratios(text)} == {("SSD", "HDD")}
    assert not any("Tape" in sentence for sentence in sentences(text))


def test_one_target_has_values_and_no_ratio() -> None:
    study = study_of(("SSD",), sizes=("4MiB",), mixes=(70,), jobs=(1, 8))
    text = opened(comparison_of(study, drawn(RATES)))
    assert ratios(text) == []
    assert len(text.checked) == 3
    assert not any("SSD" in sentence for sentence in sentences(text))


def test_a_difference_within_noise_has_no_ratio() -> None:
    same = {"SSD": {1: 500.0, 8: 700.0}, "HDD": {1: 500.0, 8: 700.0}}
    text = opened(compared(TARGETS[:2], drawn(same, noise=0.1, seed=3)))
    assert ratios(text) == []
    assert "×" not in "".join(sentences(text))


def test_targets_that_lead_at_one_end_each_are_named() -> None:
    crossed = {"SSD": {1: 900.0, 8: 4168.0}, "HDD": {1: 1800.0, 8: 729.0}}
    text = opened(compared(TARGETS[:2], drawn(crossed)))
    first, last, *_ = ratios(text)
    assert [claim.decision.sides[0] for claim in (first, last)] == ["HDD", "SSD"]
    ends = sentences(text)[0].partition(":")[2]
    assert ends.index("HDD") < ends.index("SSD")


def test_single_runs_are_a_caveat() -> None:
    (caveat,) = opened(compared(TARGETS[:2], drawn(RATES), repeats=1)).closing
    assert opened(compared(TARGETS[:2], drawn(RATES), repeats=3)).closing == []
    assert "once" in caveat


def test_a_target_without_a_value_is_named() -> None:
    text = opened(compared(TARGETS[:2], drawn({"SSD": RATES["SSD"], "HDD": {}})))
    assert ratios(text) == []
    assert all(sentence.endswith("; HDD: not measured.") for sentence in sentences(text))


def test_a_section_without_a_sweep_names_its_point_in_the_profile() -> None:
    text = opened(compared(TARGETS[:2], drawn(RATES), jobs=(8,)))
    (paragraph,) = text.paragraphs
    assert paragraph.profile.replace("\u00a0", " ").endswith("8 jobs")
    assert "jobs" not in "".join(sentences(text))
