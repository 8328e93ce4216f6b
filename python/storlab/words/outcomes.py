"""Words for the outcomes of comparisons, and for reasons why targets are not compared."""

from __future__ import annotations

from storlab.analysis.digits import TOO_NOISY
from storlab.model.decision import Outcome, Reason, ReasonKind, VerdictKind
from storlab.words.text import MISSING, WITHIN_NOISE, all_named, sentence_case

NOT_COMPARED = "not compared"
UNDECIDED = "undecided"
"""Outcome of comparing one target's value with a limit, such as a required utilisation."""
NOT_CONFIRMED = "No confirmed difference"
OUTCOMES: dict[Outcome, str] = {
    "better": "better",
    "worse": "worse",
    "equivalent": "equivalent",
    "within noise": WITHIN_NOISE,
    "too noisy": TOO_NOISY,
    "one run": "no interval (one run)",
    "refused": NOT_COMPARED,
    "not measured": MISSING,
}
"""Outcomes as they stand in cells of tables and in lists."""
HEADLINES: dict[VerdictKind, str] = {
    "winner": "",
    "depends": "No single winner",
    "within noise": sentence_case(WITHIN_NOISE),
    "too noisy": sentence_case(f"{TOO_NOISY} to estimate"),
    "one run": "One run: no interval",
    "refused": sentence_case(NOT_COMPARED),
    "not measured": sentence_case(MISSING),
    "alone": "Only one target",
}
"""Answers to questions without a winner, in large type."""
SUBJECTS = {"efficiency": "Power", "cost": "Cost", "density": "Capacity"}
"""Subjects of questions in a sentence, by name; other questions have their title."""
REASONS: dict[ReasonKind, str] = {
    "unequal boundaries": "the meters cover different equipment ({detail})",
    "different currencies": "the prices are in different currencies ({detail})",
    "no meter": "no meter was read",
    "no reading": "no meter gave the energy of a run",
    "no price": "no price is declared",
    "no capacity": "no capacity is declared",
    "no common point": "no two targets have a value at the same point",
}


def reason_text(reason: Reason, question: str, title: str) -> str:
    """Return why targets are not compared, such as ``Cost not compared: no price is declared.``.

    Args:
        reason: The reason.
        question: Name of the question.
        title: Heading of the question.
    """
    subject, why = SUBJECTS.get(question, title), REASONS[reason.kind].format(detail=reason.detail)
    names = all_named(reason.targets)
    if names and reason.kind.startswith("no ") and reason.kind != "no common point":
        return f"{subject} {NOT_COMPARED}: {why} for {names}."
    of = f" of {names}" if names else ""
    return f"{subject}{of} {NOT_COMPARED}: {why}."
