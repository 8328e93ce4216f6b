"""Section of a brief that compares implementations of one workload, such as native and polars."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from storlab.analysis import digits
from storlab.analysis.columns import Column
from storlab.analysis.compare import Comparison
from storlab.analysis.implementations import Entry, SharedWork, shared_works
from storlab.brief.model import DataTable, ExtraSection, Number
from storlab.brief.tables import Leaf, Scale, Scales, columns_for, number_of, ratio_number, table_of
from storlab.words.text import and_list, ratio_text, sentence_case

NONE = Number("–", missing=True)


def implementations_section(comparison: Comparison, scales: Scales) -> ExtraSection | None:
    """Build the section that compares implementations; None if each workload had only one."""
    workloads: dict[str, list[SharedWork]] = {}
    shared = shared_works(comparison)
    for work in shared:
        workloads.setdefault(work.workload, []).append(work)
    if not workloads:
        return None
    return ExtraSection(
        anchor="implementations",
        title="How much does each implementation take?",
        short="Implementations",
        lead=implementations(comparison),
        tables=[_table(comparison, works, scales) for works in workloads.values()],
        notes=list(
            dict.fromkeys(work.presentation.note for work in shared if work.presentation.note)
        ),
    )


def implementations(comparison: Comparison) -> list[str]:
    """Return a sentence per workload with each implementation's ratio to the reference one.

    The ratios are those of the last point at which several implementations were measured.
    """
    far = {work.workload: (work, entries) for work, entries in _measured(comparison)}
    return [_sentence(work, entries) for work, entries in far.values()]


def implementation_data(comparison: Comparison) -> list[dict[str, Any]]:
    """Return the ratios of implementations, for the data embedded in the brief."""
    return [
        {
            "workload": work.workload,
            "where": work.where,
            "implementation": entry.implementation,
            "reference": work.reference,
            "target": entry.cell.target,
            "ratios": {key: decision.ratio.as_dict() for key, decision in entry.ratios.items()},
        }
        for work, entries in _measured(comparison)
        for entry in entries
    ]


def _measured(comparison: Comparison) -> Iterator[tuple[SharedWork, list[Entry]]]:
    """Yield work done by several implementations, with those that have a ratio to the reference."""
    for work in shared_works(comparison):
        entries = [entry for entry in work.entries(comparison) if entry.ratios]
        if entries:
            yield work, entries


def _sentence(work: SharedWork, entries: Sequence[Entry]) -> str:
    """Return a sentence such as ``8 workers: polars took 3.50x the time of native``."""
    taken: dict[str, list[str]] = {}
    for entry in entries:
        ratios = [
            f"{noun} too noisy to compare with the {noun}"
            if digits.is_too_noisy(decision.ratio)
            else f"{ratio_text(decision.ratio)} the {noun}"
            for key, decision in entry.ratios.items()
            for noun in [work.presentation.ratios[key]]
        ]
        on = f"{and_list(ratios)} of {work.reference} on {entry.cell.target}"
        taken.setdefault(entry.implementation, []).append(on)
    clauses = (f"{name} took {', '.join(durations)}" for name, durations in taken.items())
    return f"{sentence_case(work.where)}: {'; '.join(clauses)}."


def _table(comparison: Comparison, works: Sequence[SharedWork], scales: Scales) -> DataTable:
    shown = works[0].presentation
    scale = scales[works[0].points[works[0].reference].kind]
    columns = columns_for(comparison, shown.heads)
    references = {work.reference for work in works}
    over = references.pop() if len(references) == 1 else "the first"
    heads: list[tuple[str, str]] = []
    for column in columns:
        heads.append((shown.heads[column.key], scale.of(column)[0]))
        if column.key in shown.ratios:
            heads.append((f"{shown.ratios[column.key]} over {over}", ""))
    leaves = [
        Leaf([*([work.own] if len(works) > 1 else []), entry.implementation], entry.cell, numbers)
        for work in works
        for entry, numbers in _rows(comparison, work, columns, scale)
    ]
    place = ", ".join(text for text in (works[0].workload, works[0].common) if text)
    return table_of(
        comparison,
        f"The same work by each implementation, {place}: mean of the repeats, and its ratio to "
        f"{over} on the same target, with the 95 % interval below it; bold where that of a ratio "
        "excludes 1",
        [*(["work"] if len(works) > 1 else []), "implementation"],
        heads,
        leaves,
    )


def _rows(
    comparison: Comparison, work: SharedWork, columns: Sequence[Column], scale: Scale
) -> Iterator[tuple[Entry, list[Number]]]:
    base = comparison.row(work.points[work.reference]).cells
    for entry in work.entries(comparison):
        names = (entry.implementation, work.reference)
        numbers = []
        for column in columns:
            numbers.append(number_of(entry.cell, column, scale))
            if column.key in work.presentation.ratios:
                ratio = entry.ratios.get(column.key)
                sides = (entry.cell, base[entry.cell.target])
                own = entry.implementation == work.reference
                numbers.append(NONE if own else ratio_number(ratio, *sides, column, names))
        yield entry, numbers
