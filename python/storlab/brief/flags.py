"""Marks: the letters that stand beside numbers, and what they mean."""

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
    """One mark beside a number: its letter, the kind's meaning, and the message of this cell."""

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
"""What the brief itself has to say beside a number; the rest are flags of runs."""


def meanings() -> Mapping[str, FlagMeaning]:
    """What may stand beside a number, in the order of legends: flags, then the brief's own."""
    return {**flag_meanings(), **{meaning.kind: meaning for meaning in MARKS}}


def meaning_of(kind: str) -> FlagMeaning:
    """What a kind means; of an unknown one, that nothing is known."""
    return meanings().get(kind) or FlagMeaning(kind, "†", "")


def mark(kind: str, message: str) -> Mark:
    """The mark of a kind of flag; an unknown kind shows as a dagger."""
    known = meaning_of(kind)
    return Mark(kind, known.letter, known.meaning or message, message)


def cell_marks(
    flags: Iterable[CellFlag], runs: int, *, latency: bool, name: str = ""
) -> tuple[Mark, ...]:
    """The marks of a cell's number; those about latency stand beside latencies only.

    ``name`` is the metric's, for those that are about some metrics.
    """
    return tuple(
        mark(flag.kind, f"{flag.message} ({flag.runs} of {runs} runs)")
        for flag in flags
        if _stands_beside(meaning_of(flag.kind), latency, name)
    )


def _stands_beside(meaning: FlagMeaning, latency: bool, name: str) -> bool:
    return (latency or not meaning.latencies) and name.startswith(meaning.about or "")


def provenance_marks(cell: Cell, column: Column) -> list[Mark]:
    """The mark of a number that is not measured, where no flag of its runs tells that already."""
    provenance = cell.provenance_of(column)
    told = provenance in (meaning_of(flag.kind).tells for flag in cell.flags) or (
        provenance == "declared" and not column.is_power  # a threshold of the study's own
    )
    if provenance not in NOT_MEASURED or told:
        return []
    kind = provenance if provenance in meanings() else "modelled"
    return [mark(kind, f"provenance: {provenance}")]


def legend(marks: Iterable[Mark]) -> list[Mark]:
    """Each kind once, in the order of ``meanings``."""
    by_kind = {m.kind: m for m in marks}
    order = list(meanings())
    return sorted(by_kind.values(), key=lambda m: order.index(m.kind) if m.kind in order else 99)
