"""The last lines of run, report and compare: at most three."""

from __future__ import annotations

import io

import pytest
from rich.console import Console

from storlab.cli import conclusion, terminal
from storlab.model.decision import Caveat, Interval, Verdict
from storlab.words.answers import caveat_text
from storlab.words.answers import sentences as sentences_of
from support.made_comparisons import decided

TWICE = Caveat(kind="two repeats")
HEADLINE = decided(
    Interval(1.47, 1.43, 1.51, 3),
    ("Disk", "Memory"),
    what="throughput",
    where="70/30 read/write, 256\u00a0KiB, 8\u00a0jobs",
)
VERDICT = Verdict(
    question="throughput",
    title="Throughput",
    kind="winner",
    workload="",
    targets=("Disk", "Memory"),
    winner="Disk",
    does="moves {times} as much data per second as {other}",
    headline=HEADLINE,
    points=1,
    won=1,
    ahead={"Disk": 1},
    comparisons=1,
    caveat=TWICE,
)


def of(workload: str) -> Verdict:
    return VERDICT.model_copy(update={"workload": workload})


def test_one_question_is_answered_in_three_lines() -> None:
    expected = [sentence.replace("\u00a0", " ") for sentence in sentences_of(VERDICT)]
    assert conclusion.lines([VERDICT]) == expected
    assert len(expected) == 3


def test_each_question_has_its_answer_while_there_is_room() -> None:
    second = VERDICT.model_copy(
        update={
            "question": "efficiency",
            "winner": "Memory",
            "caveat": Caveat(kind="different campaigns"),
        }
    )
    first, other = (conclusion.lines([each])[0] for each in (VERDICT, second))
    assert other.startswith("Memory moves")
    assert conclusion.lines([VERDICT, second]) == [first, other, caveat_text(TWICE)]
    assert conclusion.lines([VERDICT, second, VERDICT]) == [first, other, first]
    assert conclusion.lines([VERDICT, second, VERDICT, second]) == [
        first,
        other,
        "For 2 more answers see the brief or `storlab compare --json`.",
    ]


def test_every_workload_is_answered_before_a_second_question() -> None:
    asked = [of("scan"), of("scan").model_copy(update={"winner": "Memory"}), of("ingest")]
    told = conclusion.lines(asked)
    assert [line.partition(" moves")[0] for line in told] == [
        "scan: Disk",
        "ingest: Disk",
        "scan: Memory",
    ]


def test_each_workload_has_its_answer_while_there_is_room() -> None:
    told = conclusion.lines([of("scan"), of("ingest")])
    assert [line.partition(":")[0] for line in told] == ["scan", "ingest"]
    told = conclusion.lines([of(name) for name in ("a", "b", "c", "d")])
    assert [line.partition(":")[0] for line in told[:2]] == ["a", "b"]
    assert told[2] == "For 2 more answers see the brief or `storlab compare --json`."


def test_nothing_measured_says_nothing() -> None:
    assert conclusion.lines([]) == []


@pytest.mark.parametrize("width", [40, 80])
def test_sentences_wrap_at_words_on_a_terminal(width: int, monkeypatch: pytest.MonkeyPatch) -> None:
    text = io.StringIO()
    console = Console(file=text, force_terminal=True, width=width, no_color=True)
    monkeypatch.setattr(terminal, "out", console)
    sentences = conclusion.lines([VERDICT])
    conclusion.print_lines(sentences)
    plain = text.getvalue().replace("\x1b[1m", "").replace("\x1b[0m", "")
    assert all(len(line) <= width for line in plain.splitlines())
    assert " ".join(plain.split()) == " ".join(sentences)
