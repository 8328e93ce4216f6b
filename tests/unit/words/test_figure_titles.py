"""Titles of figures: every clause with example values, in tests/golden/words/figures.txt."""

from __future__ import annotations

from storlab.model.decision import Decision, Interval
from storlab.words.figures import (
    DOES,
    MOVES,
    latency_ratios,
    ratio_range,
    side_of_baseline,
    values_on,
)
from support.golden import golden_text
from support.made_comparisons import decided

HIGH, LOW = Interval(12.63, 12.1, 13.2, 3), Interval(0.0792, 0.0755, 0.083, 3)
WIDE, LOOSE = Interval(1.02, 0.97, 1.08, 3), Interval(5.41, 1.49, 19.7, 3)
RANGES = {
    "larger": [HIGH],
    "smaller": [LOW],
    "digits follow the interval": [Interval(0.5, 0.4, 0.62, 3)],
    "imprecise": [LOOSE],
    "undecided": [WIDE],
    "one run": [Interval(0.5, None, None, 1)],
    "two larger": [Interval(2.0, 1.98, 2.02, 3), Interval(4.0, 3.5, 4.6, 3)],
    "two smaller": [Interval(0.5, 0.495, 0.505, 3), Interval(0.25, 0.24, 0.26, 3)],
    "both sides": [Interval(0.5, 0.48, 0.52, 3), Interval(3.0, 2.8, 3.2, 3)],
    "both sides and undecided": [
        Interval(3.0, 2.8, 3.2, 3),
        Interval(2.0, 1.98, 2.02, 3),
        Interval(0.5, 0.48, 0.52, 3),
        WIDE,
    ],
    "some undecided": [
        Interval(0.66, 0.5, 0.87, 3),
        Interval(1.5, 0.6, 3.5, 3),
        Interval(0.769, 0.68, 0.87, 3),
    ],
    "zero": [Interval(0.0, None, None, 1)],
}


def _latency(interval: Interval, **more: object) -> Decision:
    return decided(interval).model_copy(update={"sides": ("SSD", "HDD"), **more})


def test_titles_golden() -> None:
    lines = [
        f"{name}: {ratio_range(ratios, 'SSD', 'HDD', 'throughput', MOVES)}"
        for name, ratios in RANGES.items()
    ]
    lines += [
        f"of a quantity: {ratio_range([LOW], 'SSD', 'HDD', 'energy')}",
        f"of a rate: {ratio_range([HIGH], 'SSD', 'HDD', 'IOPS', DOES)}",
    ]
    lines += [
        f"side of the baseline: {side_of_baseline(ratios, 'SSD', 'HDD')}"
        for ratios in ([HIGH], [LOW, LOW], [WIDE], [HIGH, WIDE, LOW], [WIDE, WIDE])
    ]
    lines += [
        f"latencies: {latency_ratios(decisions)}"
        for decisions in (
            [("read", _latency(LOW)), ("write", _latency(Interval(0.1, 0.09, 0.11, 3)))],
            [("read", _latency(HIGH)), ("write", _latency(LOW))],
            [("read", _latency(HIGH)), ("write", _latency(WIDE))],
            [("read", _latency(WIDE)), ("write", _latency(WIDE))],
            [("read", _latency(HIGH, concurrency=(16.0, 4.0)))],
        )
    ]
    values = [("SSD", 3104.2, "8 jobs"), ("HDD", 512.0, "")]
    lines.append(f"values: {values_on(values, 'MB/s')}")
    text = "\n".join(lines) + "\n"
    assert text == golden_text("words/figures.txt", text)


def test_the_larger_side_comes_first() -> None:
    above, below = (ratio_range([r], "SSD", "HDD", "throughput", MOVES) for r in (HIGH, LOW))
    assert above.startswith("SSD")
    assert below.startswith("HDD")


def test_undecided_ratios_name_no_number() -> None:
    text = ratio_range([WIDE], "SSD", "HDD", "throughput", MOVES)
    assert not any(character.isdigit() for character in text)
