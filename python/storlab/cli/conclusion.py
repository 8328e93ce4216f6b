"""Final lines of ``run``, ``report`` and ``compare``: the winner, its lead and the confidence."""

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
    """Return the verdicts of a comparison, the study's question first; empty without runs."""
    from storlab.analysis.verdict import verdicts

    return verdicts(comparison)


def lines(verdicts: Sequence[Verdict]) -> list[str]:
    """Return at most three sentences, after the textual answer if there is one.

    For one question these are answer, disadvantages and caveat. For several questions it is one
    answer each as far as there is room, the first question of every workload family before the
    second of any.
    """
    from storlab.words.answers import sentences as sentences_of

    asked: dict[str, list[Verdict]] = {}
    for verdict in verdicts:
        asked.setdefault(verdict.workload, []).append(verdict)
    turns = zip_longest(*asked.values())
    answered = [verdict for turn in turns for verdict in turn if verdict is not None]
    if len(answered) == 1:
        sentences = sentences_of(answered[0])[: MOST_LINES + bool(answered[0].texts)]
    else:
        sentences = [sentences_of(verdict)[0] for verdict in answered]
        if len(sentences) > MOST_LINES:
            rest = len(sentences) - (MOST_LINES - 1)
            more = f"{rest} more answers stand in the brief and in `storlab compare --json`."
            sentences = [*sentences[: MOST_LINES - 1], more]
        elif len(sentences) < MOST_LINES:
            sentences += _room(answered)
    return [sentence.replace("\u00a0", " ") for sentence in sentences]


def _room(answered: Sequence[Verdict]) -> list[str]:
    """Return a further sentence on the first question: the comparison or the caveat.

    Empty if the study has several workload families.
    """
    from storlab.words.answers import caveat_text, compared

    if not answered or any(verdict.workload for verdict in answered):
        return []
    more = compared(answered[0]) if answered[0].texts else caveat_text(answered[0].caveat)
    return [more] if more else []


def print_lines(sentences: Sequence[str]) -> None:
    """Print sentences, the first in bold; continuation lines are indented."""
    for place, sentence in enumerate(sentences):
        style = "bold" if place == 0 else ""
        for line in wrapped(sentence):
            terminal.out.print(terminal.Text(line, style=style), soft_wrap=True)


def wrapped(sentence: str) -> list[str]:
    """Wrap a sentence to the width of the terminal or file."""
    return textwrap.wrap(
        sentence, terminal.out.width, subsequent_indent="  ", break_on_hyphens=False
    )


def as_json(verdicts: Sequence[Verdict]) -> list[Any]:
    """Return all verdicts as plain values for ``--json``, which documents check."""
    from storlab.words.answers import document

    return [document(verdict) for verdict in verdicts]
