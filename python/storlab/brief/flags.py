"""Marks: letters next to numbers that refer to flags, and their meanings."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from storlab.analysis.columns import Column
from storlab.analysis.compare import Cell, CellFlag
from storlab.contracts.page import FlagMeaning
from storlab.figures.common import NOT_MEASURED
from storlab.workloads.common.flags import flag_meanings


@dataclass(frozen=True, slots=True)
class Mark:
    """Mark next to a number: its letter, the meaning of its kind and a specific message."""

    kind: str
    letter: str
    meaning: str
    message: str


MARKS = (
    FlagMeaning(
        "one-run",
        "o",
        "Only one run finished: there is no interval.",
    ),
    FlagMeaning(
        "incomplete",
        "*",
        "Fewer runs finished than were planned.",
    ),
    FlagMeaning(
        "modelled",
        "M",
        "Modelled or emulated, not measured.",
    ),
    FlagMeaning(
        "declared",
        "D",
        "Rests on power that the study declares, not on a measurement.",
    ),
    FlagMeaning(
        "published",
        "R",
        "As published, not repeated here.",
    ),
    FlagMeaning(
        "not-stated",
        "?",
        "The publication does not name the operating point of this number.",
    ),
    FlagMeaning(
        "energy-lost",
        "E",
        "Some runs gave no energy; bytes and joules are those of the others.",
    ),
    FlagMeaning(
        "share",
        "a",
        "The target is charged a share of what its meter reads.",
    ),
    FlagMeaning(
        "unequal-boundaries",
        "⊘",
        "The two sides’ power was taken at different boundaries, which the study accepts.",
    ),
    FlagMeaning(
        "different-concurrency",
        "≠",
        "The two latencies of this ratio were taken at effective concurrencies that differ by "
        "more than 10 %.",
        latencies=True,
    ),
)
"""Marks that the brief itself adds to numbers; all others come from flags of runs."""


def meanings() -> Mapping[str, FlagMeaning]:
    """Return the meanings of all marks in the order of legends: run flags, then the brief's own."""
    return {**flag_meanings(), **{meaning.kind: meaning for meaning in MARKS}}


def meaning_of(kind: str) -> FlagMeaning:
    """Return the meaning of a kind of flag; unknown kinds have an empty meaning."""
    return meanings().get(kind) or FlagMeaning(kind, "†", "")


def mark(kind: str, message: str) -> Mark:
    """Return the mark of a kind of flag; unknown kinds are shown as a dagger."""
    known = meaning_of(kind)
    return Mark(kind, known.letter, known.meaning or message, message)


def cell_marks(
    flags: Iterable[CellFlag], runs: int, *, latency: bool, name: str = ""
) -> tuple[Mark, ...]:
    """Return the marks of a number; those about latency are shown with latencies only.

    Args:
        flags: Flags of the runs behind the number.
        runs: Number of these runs.
        latency: Whether the number is a latency.
        name: Metric name, for flags that concern certain metrics.
    """
    return tuple(
        mark(flag.kind, f"{flag.message} ({flag.runs} of {runs} runs)")
        for flag in flags
        if _stands_beside(meaning_of(flag.kind), latency, name)
    )


def _stands_beside(meaning: FlagMeaning, latency: bool, name: str) -> bool:
    return (latency or not meaning.latencies) and name.startswith(meaning.about or "")


def provenance_marks(cell: Cell, column: Column) -> list[Mark]:
    """Return the mark of a value that was not measured, unless a flag already states that."""
    provenance = cell.provenance_of(column)
    told = provenance in (meaning_of(flag.kind).implied_provenance for flag in cell.flags) or (
        provenance == "declared" and not column.is_power  # a threshold that the study sets
    )
    if provenance not in NOT_MEASURED or told:
        return []
    kind = provenance if provenance in meanings() else "modelled"
    return [mark(kind, f"provenance: {provenance}")]


def legend(marks: Iterable[Mark]) -> list[Mark]:
    """Return one mark per kind, in the order of ``meanings``."""
    by_kind = {m.kind: m for m in marks}
    order = list(meanings())
    return sorted(by_kind.values(), key=lambda m: order.index(m.kind) if m.kind in order else 99)
