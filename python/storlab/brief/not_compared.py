"""Say why targets are not compared by power or price, such as a missing meter."""

from __future__ import annotations

from storlab.analysis.compare import Comparison
from storlab.analysis.not_compared import reason_of
from storlab.analysis.verdict import targets_compared, verdicts
from storlab.words.outcomes import reason_text

QUESTIONS = ("efficiency", "cost")
"""Names of the questions on power and on price, in every family that has them."""


def not_compared(comparison: Comparison) -> list[str]:
    """Return a sentence on power and one on price if targets are not compared in them.

    A question that an answer of the brief refuses already is left out.
    """
    answered = {v.question for v in verdicts(comparison) if v.reason is not None}
    pages = [sections[0].page for sections in comparison.kinds.values()]
    sentences = []
    for name in QUESTIONS:
        questions = [q for page in pages for q in page.metrics.questions if q.name == name]
        if not questions or name in answered:
            continue
        reason = reason_of(comparison, questions[0], ())
        if reason is not None and (reason.targets or reason.kind not in ("no meter", "no price")):
            reason = reason_of(comparison, questions[0], targets_compared(comparison, name))
        if reason is not None:
            sentences.append(reason_text(reason, name, questions[0].title))
    return sentences
