"""Tables with a row per stage of fixed work: epoch, checkpoint or restore."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from storlab.analysis.compare import Cell, CellFlag, Comparison
from storlab.analysis.points import Section, WorkloadPoint
from storlab.analysis.work_items import Worker, WorkItem, cell_work_items, interval_of, workers_of
from storlab.brief.flags import cell_marks, mark, meaning_of
from storlab.brief.model import DataTable, Number
from storlab.brief.tables import Leaf, mean_words, table_of
from storlab.contracts.page import WorkItemColumn, WorkItemKind
from storlab.figures.common import NOT_MEASURED, last_point, place_at
from storlab.model.decision import Interval
from storlab.words.text import cell_texts

MOST = 24  # stages in a table; of more, the first and the last are shown
MOST_WORKERS = 16  # ranks in a table; of more, the slowest are shown
NONE = Number("–", missing=True)


def work_item_tables(comparison: Comparison, section: Section) -> list[DataTable]:
    """Build the tables of stages for the last point of each sweep; empty without stages."""
    tables: list[DataTable] = []
    for facet in section.facets():
        point = last_point(comparison, section, facet)
        if point is None:
            continue
        where = place_at(section, facet, point)
        for piece in section.page.work_items:
            table = _table(comparison, point, piece, where)
            tables += [table] if table is not None else []
        for worker in dict.fromkeys(p.worker for p in section.page.work_items if p.worker):
            kinds = [piece for piece in section.page.work_items if piece.worker == worker]
            times = _worker_table(comparison, point, kinds, where)
            tables += [times] if times is not None else []
    return tables


def _cells(comparison: Comparison, point: WorkloadPoint) -> list[Cell]:
    cells = comparison.row(point).cells
    return [cells[target] for target in comparison.planned([point])]


def _table(
    comparison: Comparison, point: WorkloadPoint, kind: WorkItemKind, where: str
) -> DataTable | None:
    cells = _cells(comparison, point)
    pieces = {cell.target: cell_work_items(cell, kind.kind) for cell in cells}
    numbers = sorted({number for by_number in pieces.values() for number in by_number})
    if not numbers:
        return None
    every = [
        piece for by_number in pieces.values() for same in by_number.values() for piece in same
    ]
    columns = [c for c in kind.columns if any(c.name in piece.values for piece in every)]
    kept = numbers if len(numbers) <= MOST else numbers[: MOST // 2] + numbers[-(MOST // 2) :]
    left = "" if kept == numbers else f" (of {len(numbers):,} the first and last {MOST // 2})"
    leaves = [
        Leaf(
            [f"{kind.word} {number:,}"],
            cell,
            [_number(cell, pieces[cell.target].get(number, []), column) for column in columns],
        )
        for number in kept
        for cell in cells
    ]
    return table_of(
        comparison,
        f"{kind.caption}{left}, {where}: {mean_words(leaves)}",
        [kind.word],
        [(column.head, column.unit) for column in columns],
        leaves,
    )


def _number(cell: Cell, pieces: Sequence[WorkItem], column: WorkItemColumn) -> Number:
    if column.shown != "mean":
        text = _SHOWN[column.shown](
            [p.values[column.name] for p in pieces if column.name in p.values]
        )
        return Number(text + _client(pieces, column), point_id=cell.point_id) if text else NONE
    interval = interval_of(pieces, column.name)
    if interval is None:
        return NONE
    marks = []
    if column.flagged:
        marks += [*cell_marks(_flags(cell), len(cell.runs), latency=False, name=column.flagged)]
    weak = {p.provenance for p in pieces if p.provenance in NOT_MEASURED}
    if column.name.startswith("energy") and weak:
        marks += [mark(word, f"power is {word}") for word in sorted(weak)]
    return Number(*cell_texts(_positive(interval)), cell.point_id, tuple(marks))


def _client(pieces: Sequence[WorkItem], column: WorkItemColumn) -> str:
    """Return the client of the column's most frequent rank, as a suffix such as ``, c02``."""
    if column.shown != "usual" or not pieces or column.name not in pieces[0].values:
        return ""
    values = [piece.values[column.name] for piece in pieces if column.name in piece.values]
    client = pieces[0].clients.get(round(Counter(values).most_common(1)[0][0]))
    return f", {client}" if client else ""


def _flags(cell: Cell) -> list[CellFlag]:
    """Return the flags of a cell's runs that concern single metrics rather than whole runs."""
    return [flag for flag in cell.flags if meaning_of(flag.kind).about]


def _positive(interval: Interval) -> Interval:
    return interval if interval.low is None or interval.low >= 0 else replace(interval, low=0.0)


def _usual(values: Sequence[float]) -> str:
    if not values:
        return ""
    value, count = Counter(values).most_common(1)[0]
    return f"{value:.0f}" if count == len(values) else f"{value:.0f} in {count} of {len(values)}"


def _every(values: Sequence[float]) -> str:
    return ("yes" if all(values) else "no") if values else ""


_SHOWN: Mapping[str, Callable[[Sequence[float]], str]] = {"usual": _usual, "every": _every}


def _worker_table(
    comparison: Comparison, point: WorkloadPoint, pieces: Sequence[WorkItemKind], where: str
) -> DataTable | None:
    """Build a table of each rank's mean time, in which each target's slowest rank is marked."""
    word = pieces[0].worker
    cells = _cells(comparison, point)
    times = {
        (cell.target, piece.kind): {w.number: w for w in workers_of(cell, piece.kind)}
        for cell in cells
        for piece in pieces
    }
    known = [p for p in pieces if any(times[cell.target, p.kind] for cell in cells)]
    kinds = [piece.kind for piece in known]
    ranks = sorted({number for by_number in times.values() for number in by_number})
    if len(ranks) < 2 or not kinds:
        return None
    slowest = {
        place: max(by_number.values(), key=lambda worker: worker.interval.estimate).number
        for place, by_number in times.items()
        if by_number
    }
    kept, left = ranks, ""
    if len(ranks) > MOST_WORKERS:
        longest = {
            rank: max(e[rank].interval.estimate for e in times.values() if rank in e)
            for rank in ranks
        }
        chosen = sorted(ranks, key=lambda rank: -longest[rank])[:MOST_WORKERS]
        kept = sorted({*chosen, *slowest.values()})
        left = f" (the slowest {len(kept)} of {len(ranks):,})"
    leaves = [
        Leaf(
            [f"{word} {rank}"],
            cell,
            [_rank_number(cell, times[cell.target, kind].get(rank), word,
                          is_slowest=slowest.get((cell.target, kind)) == rank) for kind in kinds],
        )
        for rank in kept
        for cell in cells
    ]  # fmt: skip
    return table_of(
        comparison,
        f"Time of each {word}{left}, {where}: mean of the repeats, the slowest marked",
        [word],
        [(piece.word, "s") for piece in known],
        leaves,
    )


def _rank_number(cell: Cell, worker: Worker | None, word: str, *, is_slowest: bool) -> Number:
    if worker is None:
        return NONE
    where = f" on {worker.client}" if worker.client else ""
    marks = (mark("slowest", f"{word} {worker.number}{where}"),) if is_slowest else ()
    return Number(
        *cell_texts(_positive(worker.interval)),
        cell.point_id,
        marks,
    )
