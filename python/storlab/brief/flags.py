"""Marks: labels beside the numbers of a brief that stand for flags, and their meanings."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from storlab.analysis.columns import Column
from storlab.analysis.compare import Cell, CellFlag
from storlab.contracts.page import FlagMeaning
from storlab.figures.common import NOT_MEASURED
from storlab.figures.footer import MOST_LABELS
from storlab.workloads.common.flags import flag_meanings


@dataclass(frozen=True, slots=True)
class Mark:
    """Mark beside a number: label, meaning of this kind of mark, and message about the number."""

    kind: str
    label: str
    meaning: str
    message: str


MARKS = (
    FlagMeaning(
        "one-run",
        "one run",
        "Only one run finished: there is no interval.",
    ),
    FlagMeaning(
        "incomplete",
        "runs missing",
        "Fewer runs finished than were planned.",
    ),
    FlagMeaning(
        "modelled",
        "modelled",
        "Modelled or emulated, not measured.",
    ),
    FlagMeaning(
        "declared",
        "declared",
        "Rests on power that the study declares, not on a measurement.",
    ),
    FlagMeaning(
        "published",
        "published",
        "As published, not repeated here.",
    ),
    FlagMeaning(
        "not-stated",
        "point unknown",
        "The publication does not name the operating point of this number.",
    ),
    FlagMeaning(
        "energy-lost",
        "energy missing",
        "Some runs gave no energy; bytes and joules are those of the others.",
    ),
    FlagMeaning(
        "share",
        "share of meter",
        "The target is charged a share of what its meter reads.",
    ),
    FlagMeaning(
        "unequal-boundaries",
        "unequal boundaries",
        "The two sides’ power was taken at different boundaries, which the study accepts.",
    ),
    FlagMeaning(
        "different-concurrency",
        "unequal concurrency",
        "The two latencies of this ratio were taken at effective concurrencies that differ by "
        "more than 10 %.",
        latencies=True,
    ),
)
"""Meanings of marks that a brief itself adds; all other marks come from flags of runs."""


def meanings() -> Mapping[str, FlagMeaning]:
    """Return the meanings of all marks in the order of a legend: flags of runs come first."""
    return {**flag_meanings(), **{meaning.kind: meaning for meaning in MARKS}}


def meaning_of(kind: str) -> FlagMeaning:
    """Return the meaning of a kind of flag; it is empty if the kind is unknown."""
    return meanings().get(kind) or FlagMeaning(kind, kind.replace("-", " "), "")


def mark(kind: str, message: str) -> Mark:
    """Make a mark for a kind of flag; its label is the kind if that is unknown."""
    known = meaning_of(kind)
    return Mark(kind, known.label, known.meaning or message, message)


def general(marked: Mark) -> Mark:
    """Return a mark without its message about one number, for a legend or the head of a table."""
    return mark(marked.kind, "") if marked.kind in meanings() else marked


def labels(marks: Sequence[Mark]) -> tuple[list[Mark], list[Mark]]:
    """Return the marks to print beside a number, at most ``MOST_LABELS``, and the others.

    Marks that qualify claims come first, then marks that are named before the numbers.
    """
    ranked = sorted(legend(marks), key=lambda marked: meaning_of(marked.kind).precedence)
    return ranked[:MOST_LABELS], ranked[MOST_LABELS:]


def labels_text(marks: Sequence[Mark]) -> str:
    """Return the labels of marks as text, such as ``client-bound, page cache, drift, +2``."""
    first, rest = labels(marks)
    return ", ".join([*(m.label for m in first), *([f"+{len(rest)}"] if rest else [])])


def cell_marks(
    flags: Iterable[CellFlag], runs: int, *, latency: bool, name: str = ""
) -> tuple[Mark, ...]:
    """Return the marks to print beside a number; marks about latency only beside latencies.

    Args:
        flags: Flags of the runs from which the number is computed.
        runs: Number of these runs.
        latency: Whether the number is a latency.
        name: Name of the number's metric, as some flags concern certain metrics only.
    """
    return tuple(
        mark(flag.kind, f"{flag.message} ({flag.runs} of {runs} runs)")
        for flag in flags
        if _stands_beside(meaning_of(flag.kind), latency, name)
    )


def _stands_beside(meaning: FlagMeaning, latency: bool, name: str) -> bool:
    return (latency or not meaning.latencies) and name.startswith(meaning.about or "")


def provenance_marks(cell: Cell, column: Column) -> list[Mark]:
    """Return a mark if a value was not measured, as a list of at most one.

    The list is also empty if a flag of the cell says that the value was not measured, or if the
    value is a threshold that the study sets.
    """
    provenance = cell.provenance_of(column)
    told = provenance in (meaning_of(flag.kind).implied_provenance for flag in cell.flags) or (
        provenance == "declared" and not column.is_power  # a threshold that the study sets
    )
    if provenance not in NOT_MEASURED or told:
        return []
    kind = provenance if provenance in meanings() else "modelled"
    return [mark(kind, f"provenance: {provenance}")]


def legend(marks: Iterable[Mark]) -> list[Mark]:
    """Return one mark per kind in the order of a legend."""
    by_kind = {m.kind: m for m in marks}
    order = list(meanings())
    return sorted(by_kind.values(), key=lambda m: order.index(m.kind) if m.kind in order else 99)
