"""Print the last lines of ``run``, ``report`` and ``compare``: which target wins, by how much."""

from __future__ import annotations

import textwrap
from itertools import zip_longest
from typing import TYPE_CHECKING, Any

from storlab.cli import terminal

if TYPE_CHECKING:
    from collections.abc import Sequence

    from storlab.analysis.compare import Comparison
    from storlab.model.decision import Verdict

MOST_LINES = 3


def answers(comparison: Comparison) -> list[Verdict]:
    """Return the answers to the study's questions, the main question first; empty without runs."""
    from storlab.analysis.verdict import verdicts

    return verdicts(comparison)


def lines(verdicts: Sequence[Verdict]) -> list[str]:
    """Summarise answers in at most three sentences, or four if the only answer begins with text.

    Answers about a single target, which there is nothing to compare with, are left out. A single
    question gets the sentences answer, disadvantages and caveat. With several questions,
    each gets one sentence; if there are more than three, the last sentence counts the others. The
    first question of every workload family comes before the second question of any.
    """
    from storlab.words.answers import sentences as sentences_of

    asked: dict[str, list[Verdict]] = {}
    for verdict in (verdict for verdict in verdicts if verdict.kind != "alone"):
        asked.setdefault(verdict.workload, []).append(verdict)
    turns = zip_longest(*asked.values())
    answered = [verdict for turn in turns for verdict in turn if verdict is not None]
    if len(answered) == 1:
        sentences = sentences_of(answered[0])[: MOST_LINES + bool(answered[0].texts)]
    else:
        sentences = [sentences_of(verdict)[0] for verdict in answered]
        if len(sentences) > MOST_LINES:
            rest = len(sentences) - (MOST_LINES - 1)
            more = f"For {rest} more answers see the brief or `storlab compare --json`."
            sentences = [*sentences[: MOST_LINES - 1], more]
        elif len(sentences) < MOST_LINES:
            sentences += _room(answered)
    return [sentence.replace("\u00a0", " ") for sentence in sentences]


def _room(answered: Sequence[Verdict]) -> list[str]:
    """Return a further sentence on the first answer: its caveat or, if it is text, its comparison.

    The list is empty if the study has several workload families or there is no such sentence.
    """
    from storlab.words.answers import caveat_text, compared

    if not answered or any(verdict.workload for verdict in answered):
        return []
    more = compared(answered[0]) if answered[0].texts else caveat_text(answered[0].caveat)
    return [more] if more else []


def knees(comparison: Comparison) -> list[str]:
    """Return up to three sentences on the knees of curves of latency under load."""
    from storlab.analysis.load_curve import is_load_curve, knee_of, measured_curve
    from storlab.figures.common import operations_of, place_of
    from storlab.words.figures import knee_title

    sentences = []
    for section in filter(is_load_curve, comparison.sections):
        for facet in section.facets():
            for operation, name in operations_of(section):
                found = {
                    target: knee
                    for target in comparison.targets
                    if (knee := knee_of(
                        measured_curve(comparison, section, facet, target, operation), operation
                    ))
                }  # fmt: skip
                if found:
                    sentences.append(f"{place_of(section, facet)}: {knee_title(found, name)}.")
    return [sentence.replace("\u00a0", " ") for sentence in sentences[:MOST_LINES]]


def print_lines(sentences: Sequence[str]) -> None:
    """Print sentences with line breaks and indentation; the first is bold."""
    for place, sentence in enumerate(sentences):
        style = "bold" if place == 0 else ""
        for line in wrapped(sentence):
            terminal.out.print(terminal.Text(line, style=style), soft_wrap=True)


def wrapped(sentence: str) -> list[str]:
    """Break a sentence into lines that fit the terminal; all but the first are indented."""
    return textwrap.wrap(
        sentence, terminal.out.width, subsequent_indent="  ", break_on_hyphens=False
    )


def as_json(verdicts: Sequence[Verdict]) -> list[Any]:
    """Return all answers as plain values, to be validated and printed by ``--json``."""
    from storlab.words.answers import document

    return [document(verdict) for verdict in verdicts]
