"""Text that opens a section, for random results: numbers, ratios and length."""

from __future__ import annotations

import random
import re
from collections.abc import Mapping
from typing import NamedTuple

from hypothesis import given
from hypothesis import strategies as st

from storlab.analysis.points import WorkloadPoint
from storlab.audit.from_claims import Assertion, StatedValue
from storlab.brief.model import Opening
from storlab.brief.openings import opening
from storlab.brief.tables import scales_of
from storlab.words.openings import text_of
from support.made_comparisons import comparison_of, study_of

MOST_SENTENCES = 4  # of one block size
KEYS = (
    "throughput_mb_s.all", "latency_mean_ns.read", "latency_mean_ns.write",
    "concurrency_effective.all",
)  # fmt: skip


class Results(NamedTuple):
    """Random results: how many targets and repeats, how much they vary, and what is missing."""

    targets: int
    repeats: int
    jobs: list[int]
    decades: float  # spread of the targets' means
    noise: float  # sigma of the log-normal factor of each run
    missing: float  # share of values that a run does not have
    seed: int


RESULTS = st.builds(
    Results,
    targets=st.integers(1, 4),
    repeats=st.integers(1, 4),
    jobs=st.sampled_from([[1], [8], [1, 8], [1, 2, 4, 8]]),
    decades=st.sampled_from([0.0, 0.01, 1.0, 8.0]),
    noise=st.sampled_from([0.0, 0.001, 0.03, 0.5, 3.0]),
    missing=st.sampled_from([0.0, 0.2, 0.9]),
    seed=st.integers(0, 2**32),
)


def texts(results: Results) -> list[Opening]:
    draw = random.Random(results.seed)
    means: dict[tuple[str, str, str], float] = {}

    def values(target: str, point: WorkloadPoint) -> Mapping[str, float]:
        found = {}
        for key in KEYS:
            place = (target, point.key, key)
            mean = means.setdefault(place, 100 * 10 ** draw.uniform(0, results.decades))
            if draw.random() >= results.missing:
                found[key] = mean * draw.lognormvariate(0, results.noise)
        return found

    names = [f"T{number}" for number in range(results.targets)]
    study = study_of(names, header="baseline = 'T0'", mixes=(30, 100), jobs=results.jobs)
    comparison = comparison_of(study, values, results.repeats)
    scales = scales_of(comparison)
    return [opening(comparison, s, scales[s.kind]) for s in comparison.sections]


def number(text: str) -> float:
    return float(text.replace(",", ""))


def place(text: str) -> float:
    """Return the place value of a number's last digit, of three significant digits at most."""
    digits = text.replace(",", "")
    if "." in digits:
        return 10.0 ** -len(digits.partition(".")[2])
    return 10.0 ** max(len(digits) - 2, 0)


def stated(text: Opening, claim: Assertion, side: int) -> str:
    """Return the printed value of one side of a ratio."""
    values = (checked for checked in text.checked if isinstance(checked, StatedValue))
    wanted = [(claim.decision.sides[side], claim.decision.runs[side])]
    (found,) = {
        value.numbers[0].text
        for value in values
        if value.statement == claim.statement
        and value.quantity == claim.quantity
        and list(value.sides) == wanted
    }
    return found


@given(RESULTS)
def test_sentences_print_what_their_values_give(results: Results) -> None:
    for text in texts(results):
        for paragraph in text.paragraphs:
            assert len(paragraph.sentences) <= MOST_SENTENCES
            for sentence in map(text_of, paragraph.sentences):
                assert re.search(r"\b(nan|inf|None)\b", sentence) is None
                assert sentence[0].isupper()
                assert sentence.endswith(".")
        for checked in text.checked:
            assert all(n.text in n.words and n.words in checked.statement for n in checked.numbers)
            if not isinstance(checked, Assertion):
                continue
            first, other = (stated(text, checked, side) for side in (0, 1))
            (ratio,) = checked.numbers
            if ratio.kind not in ("multiple", "inverse"):
                continue  # the printed bound is less than the quotient
            quotient = number(first) / number(other)
            quotient = 1 / quotient if ratio.kind == "inverse" else quotient
            rounding = place(first) / number(first) + place(other) / number(other)
            assert abs(quotient - number(ratio.text)) <= place(ratio.text) + rounding * quotient
