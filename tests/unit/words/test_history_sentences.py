"""Sentences of history sites with example values, in tests/golden/words/history.txt."""

from __future__ import annotations

from storlab.analysis.changes import LEVELS
from storlab.analysis.environments import Candidate, Difference
from storlab.model.decision import Interval
from storlab.words.history import (
    MOST_CANDIDATES,
    Levels,
    candidate_text,
    candidates_text,
    chance_text,
    changed_text,
    course_shows,
    course_text,
    field_text,
    shift_levels,
    shift_sign,
    shift_text,
    unchanged_text,
)
from support.golden import golden_text

RATIOS = (
    Interval(0.95, 0.946, 0.954, 20),
    Interval(1.05, 1.046, 1.054, 20),
    Interval(3.5, 3.4, 3.6, 20),
    Interval(1.02, 0.98, 1.06, 4),
    Interval(0.95, None, None, 1),
    None,
)
FIELDS = ("drives.2.firmware", "drives.2", "versions.storlab", "cpu.model", "settings.runtime")
CANDIDATES = [
    Candidate(Difference("kernel", "Linux 6.9", "Linux 6.8"), 0, 0),
    Candidate(Difference("kernel", "b", None), 1, 2),
    Candidate(Difference("drives.1.firmware", "B", "A"), -2, 0),
]


def test_history_golden() -> None:
    levels = Levels(1000.0, 950.0, "MB/s")
    lines = []
    for ratio in RATIOS:
        lines.append(f"{shift_text(ratio, levels)} | {shift_sign(ratio)}")
        lines.append(f"  {shift_levels(ratio, levels)}")
    lines.append(shift_text(None, Levels(2.0e6, 1.5e6, "ns")))
    lines += [chance_text(chance) for chance in LEVELS]
    lines += [unchanged_text(results, "none found") for results in (0, 2, 7, 8)]
    lines += [changed_text(titles) for titles in (["Throughput"], ["Throughput", "Power", "IOPS"])]
    courses = [course_text([("5.0\u00a0% less", "20 Nov 2026, 11:30")], 40)]
    courses += [course_text([], results) for results in (2, 40)]
    lines += courses
    lines.append(course_shows("Throughput", 40, "950\u00a0MB/s"))
    lines += [field_text(field) for field in FIELDS]
    lines += candidates_text(CANDIDATES, is_imported=False)
    lines.append(candidates_text(CANDIDATES * 4, is_imported=False)[-1])
    lines += [*candidates_text([], is_imported=True), *candidates_text([], is_imported=False)]
    text = "\n".join(lines).replace("\u00a0", " ") + "\n"
    assert text == golden_text("words/history.txt", text)


def test_long_facts_and_lists_of_candidates_are_cut() -> None:
    assert len(candidate_text(Candidate(Difference("x", "y" * 9999, "z"), 0, 0))) < 300
    assert len(candidates_text(CANDIDATES * 4, is_imported=False)) == MOST_CANDIDATES + 1
