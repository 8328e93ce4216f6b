"""Sentences of the text that opens a section of a brief: sweep, values at its end, and caveats.

A sentence is a sequence of pieces, because each of its numbers links to runs.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from storlab.model.decision import Outcome
from storlab.words.outcomes import OUTCOMES
from storlab.words.text import (
    DIFFERENT_CONCURRENCY,
    MISSING,
    all_named,
    named,
    sentence_case,
)

NBSP = "\u00a0"
ARROW = f"{NBSP}→{NBSP}"
NOTHING_MEASURED = "No run has finished."
ONE_RUN = "Ratios of points that ran only once have no interval."
MULTIPLES = {"s": " as long", "ns": " as long"}
"""Words after the ratio of a metric of which less is better, by unit; others are `as much`."""


class Linked(NamedTuple):
    """Number in a sentence, and the point to whose runs it links."""

    text: str
    point_id: str | None


Piece = str | Linked


class Side(NamedTuple):
    """Values of one target: at the first and last point of a sweep, or at one point."""

    target: str
    values: tuple[Linked, ...]


class Lead(NamedTuple):
    """Comparison of two targets at one point."""

    ratio: Linked | None  # at least 1; None if the outcome is printed instead
    outcome: Outcome
    ahead: str  # target with the better value
    place: str  # such as "8 jobs"


class Clause(NamedTuple):
    """Values of one metric on one or two targets, and their comparisons."""

    what: str  # such as "mean read latency"
    unit: str
    better: str
    sides: Sequence[Side]
    leads: Sequence[Lead]  # as many as each side has values; none if there is nothing to compare


def text_of(pieces: Sequence[Piece]) -> str:
    """Return a sentence as plain text."""
    return "".join(piece if isinstance(piece, str) else piece.text for piece in pieces)


def span(first: str, last: str, values: tuple[str, str]) -> str:
    """Return the range of a sweep, such as ``from 1 to 8 jobs`` or ``from depth 1 to 16``.

    Args:
        first: First point, such as ``1 job``.
        last: Last point.
        values: Both points without their noun, such as ``1`` and ``8``.
    """
    start, end = values
    if first.startswith(start) and last.startswith(end):
        return f"from {start} to {last}"
    if first.removesuffix(start) == last.removesuffix(end):
        return f"from {first} to {end}"
    return f"from {first} to {last}"


def sentence(
    clauses: Sequence[Clause],
    place: str,
    *,
    targets: int,
    missing: Sequence[str] = (),
    other_concurrency: bool = False,
) -> list[Piece]:
    """Return a sentence with the values of one or more metrics and their ratios.

    Args:
        clauses: Metrics of the same targets.
        place: Range or point, such as ``from 1 to 8 jobs`` or ``at 8 jobs``; may be empty.
        targets: Number of targets that were measured, of which the clauses have at most two.
        missing: Targets without a value.
        other_concurrency: Whether the targets had different effective concurrency.
    """
    first, *others = clauses
    where = f" {place}" if place else ""
    pieces = [f"{sentence_case(first.what)}{where} {_was(first.what)} ", *_values(first, targets)]
    pieces += _ratios(first)
    for other in others:
        pieces += [", ", f"{other.what} ", *_plain(other), *_ratios(other)]
    if other_concurrency:
        pieces.append(f", {DIFFERENT_CONCURRENCY}")
    if missing:
        pieces.append(f"; {all_named(missing)}: {MISSING}")
    return [*pieces, "."]


def power(weak: Mapping[str, Sequence[str]], unequal: Mapping[str, str]) -> list[str]:
    """Return sentences on power that was not measured, and on unequal power boundaries.

    Args:
        weak: Targets whose power was not measured, by provenance, such as ``declared``.
        unequal: Power boundaries by target, if they are compared although they differ.
    """
    sentences = [
        f"The power of {all_named(names)} is {word}, not measured" for word, names in weak.items()
    ]
    if unequal:
        each = ", ".join(f"{target}: {boundary}" for target, boundary in unequal.items())
        last = f"{sentences.pop()}, and" if sentences else "Power is compared"
        sentences.append(f"{last} at unequal boundaries ({each})")
    return [f"{text}." for text in sentences]


def _was(what: str) -> str:
    """Return the verb after a metric: were for samples per second, was for throughput per watt."""
    counted, per, _ = what.partition(" per ")
    return "were" if per and counted.endswith("s") else "was"


def _values(clause: Clause, targets: int) -> list[Piece]:
    """Return ``1,687 → 4,168 MB/s on SSD and 235 → 729 MB/s on HDD``; no name if it is alone."""
    if targets == 1 and len(clause.sides) == 1:
        return _arrow(clause.sides[0])
    sides = [[*_arrow(side), f" on {named(side.target)}"] for side in clause.sides]
    pieces = [*sides[0], *(piece for other in sides[1:] for piece in (" and ", *other))]
    return [*pieces, f", the best two of {targets} targets"] if targets > 2 else pieces


def _plain(clause: Clause) -> list[Piece]:
    """Return ``0.29 ms and 299 ms``, in the order of targets of an earlier clause."""
    first, *others = (_arrow(side) for side in clause.sides)
    return [*first, *(piece for other in others for piece in (" and ", *other))]


def _arrow(side: Side) -> list[Piece]:
    first, *others = side.values
    return [first, *(piece for other in others for piece in (ARROW, other))]


def _ratios(clause: Clause) -> list[Piece]:
    leads = clause.leads
    if not leads:
        return []
    suffix = MULTIPLES.get(clause.unit, " as much") if clause.better == "less" else ""
    if len(leads) == 1:
        ratio = leads[0].ratio
        bound = " with 95\u00a0% confidence" if ratio and ratio.text.startswith("at least") else ""
        return [" (", *_lead(leads[0], clause, suffix), f"{bound})"]
    if len({lead.outcome for lead in leads}) == 1 and leads[0].ratio is None:
        places = " and ".join(f"at {lead.place}" for lead in leads)
        return [f": the difference is {_outcome(leads[0])} {places}"]
    pieces: list[Piece] = [": "]
    for lead in leads:
        pieces += [*_lead(lead, clause, suffix), f" at {lead.place}", ", "]
        suffix = suffix if lead.ratio is None else ""
    return pieces[:-1]


def _lead(lead: Lead, clause: Clause, suffix: str) -> list[Piece]:
    """Return a ratio or an outcome; the ratio names its target unless that is the first one."""
    if lead.ratio is None:
        return [_outcome(lead)]
    if all(other.ahead == clause.sides[0].target for other in clause.leads if other.ratio):
        return [lead.ratio, suffix]
    return [f"{named(lead.ahead)} ahead by ", lead.ratio]


def _outcome(lead: Lead) -> str:
    more = " to estimate" if lead.outcome == "too noisy" else ""
    return f"{OUTCOMES[lead.outcome]}{more}"
