"""Marks: labels beside the numbers of a brief that stand for flags, and their meanings."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from storlab.analysis.columns import Column
from storlab.analysis.compare import Cell, CellFlag
from storlab.analysis.efficiency import Account
from storlab.contracts.page import FlagMeaning
from storlab.figures.common import NOT_MEASURED
from storlab.figures.footer import MOST_LABELS
from storlab.model.decision import Decision
from storlab.words import power as power_words
from storlab.words.findings import concurrency_caveat
from storlab.words.text import plural
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


def column_marks(cell: Cell, column: Column) -> list[Mark]:
    """Return the marks of all flags of a target's runs that affect a column."""
    marks = cell_marks(cell.flags, len(cell.runs), latency=column.is_latency, name=column.name)
    return [m for m in marks if cell.flags_percentile(m.kind, column)]


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


def power_marks(account: Account) -> list[Mark]:
    """Return the marks of a target's energy: not measured, runs missing, or meter shared."""
    marks = []
    if account.provenance in NOT_MEASURED:
        marks.append(mark(account.provenance, f"power is {account.provenance}"))
    if len(account.entries) == 1:
        marks.append(mark("one-run", "one run with energy"))
    if len(account.entries) < account.runs:
        gone = account.runs - len(account.entries)
        text = f"{plural(gone, 'run')} of {account.runs} without energy: {account.lost}"
        marks.append(mark("energy-lost", text))
    if account.share_rules:
        marks.append(mark("share", "; ".join(account.share_rules)))
    return marks


def caveat_of(
    cells: tuple[Cell, Cell], column: Column, decision: Decision
) -> tuple[str, tuple[Mark, ...]]:
    """Return a comparison's caveat, such as unequal concurrency, and the marks of its flags."""
    cell, base = cells
    caveat = _weak_power(cell, base) if column.is_power else ""
    marks = _comparison_marks(cell, base, column)
    if decision.concurrency is not None:
        caveat = concurrency_caveat((cell.target, base.target), decision.concurrency)
        marks = (*marks, mark("different-concurrency", caveat))
    if decision.boundaries:
        marks = (*marks, mark("unequal-boundaries", decision.boundaries))
        caveat = power_words.boundary_caveat(decision.boundaries)
    return caveat, marks


def _comparison_marks(cell: Cell, base: Cell, column: Column) -> tuple[Mark, ...]:
    """Return the marks of all flags that affect a column on either side, one mark per kind."""
    sides = (cell, base)
    return joined(of_side(side.target, m) for side in sides for m in _side_marks(side, column))


def _side_marks(side: Cell, column: Column) -> list[Mark]:
    if column.is_power and side.power is not None:
        more = [m for m in power_marks(side.power) if m.kind != "share"]
    else:
        more = provenance_marks(side, column)
    return column_marks(side, column) + more


def of_side(name: str, marked: Mark) -> Mark:
    """Return a mark whose message begins with the name of the side of a ratio that has it."""
    return mark(marked.kind, f"{name}: {marked.message}")


def joined(marks: Iterable[Mark]) -> tuple[Mark, ...]:
    """Merge marks of one kind into one mark with all their messages."""
    by_kind: dict[str, list[str]] = {}
    for marked in marks:
        by_kind.setdefault(marked.kind, []).append(marked.message)
    return tuple(mark(kind, "; ".join(messages)) for kind, messages in by_kind.items())


def _weak_power(cell: Cell, base: Cell) -> str:
    """Return a sentence that names the targets whose power was not measured; empty without such."""
    weak: dict[str, list[str]] = {}
    for side in (cell, base):
        if side.power is not None and side.power.provenance in NOT_MEASURED:
            weak.setdefault(side.power.provenance, []).append(side.target)
    return power_words.weak(weak)


def legend(marks: Iterable[Mark]) -> list[Mark]:
    """Return one mark per kind in the order of a legend."""
    by_kind = {m.kind: m for m in marks}
    order = list(meanings())
    return sorted(by_kind.values(), key=lambda m: order.index(m.kind) if m.kind in order else 99)
