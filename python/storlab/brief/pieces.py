"""Tables of what a run of fixed work did, one after the other: epochs, checkpoints, restores."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from storlab.analysis.compare import Cell, CellFlag, Comparison
from storlab.analysis.pieces import Piece, Worker, cell_pieces, interval_of, workers_of
from storlab.analysis.points import Section, WorkloadPoint
from storlab.analysis.stats import Interval
from storlab.brief.flags import cell_marks, mark, meaning_of
from storlab.brief.model import DataTable, Number
from storlab.brief.tables import Leaf, table_of
from storlab.brief.text import spread_text
from storlab.figures.common import NOT_MEASURED, digits3, last_point, place_at

MOST = 24  # pieces in a table; of more, the first and the last
MOST_WORKERS = 16  # ranks in a table; of more, the slowest
NONE = Number("–", missing=True)


@dataclass(frozen=True, slots=True)
class Shown:
    """A column of a table of pieces. ``flagged`` is the metric whose marks stand beside it."""

    name: str
    head: str
    unit: str
    flagged: str = ""


COLUMNS: dict[str, tuple[Shown, ...]] = {
    "epoch": (
        Shown("time_s", "time", "s"),
        Shown("samples_s", "samples/s", ""),
        Shown("mb_s", "moved", "MB/s"),
        Shown("read_mb", "read of files", "MB"),
        Shown("device_mb", "read by the device", "MB"),
        Shown("device_percent", "device / files", "%"),
        Shown("stall_s", "stall of an accelerator", "s"),
        Shown("energy_j", "energy", "J"),
    ),
    "write": (
        Shown("written_s", "to written", "s", "write_time_s"),
        Shown("durable_s", "to durable", "s", "durable_time_s"),
        Shown("mb_s", "throughput", "MB/s", "durable_mb_s"),
        Shown("slowest_rank", "slowest rank", ""),
        Shown("slowest_s", "its time", "s", "write_time_s"),
        Shown("device_percent", "device / files", "%", "write_device_ratio"),
        Shown("energy_wh", "energy", "Wh"),
    ),
    "restore": (
        Shown("time_s", "time", "s", "restore_time_s"),
        Shown("mb_s", "throughput", "MB/s", "restore_mb_s"),
        Shown("slowest_rank", "slowest rank", ""),
        Shown("slowest_s", "its time", "s", "restore_time_s"),
        Shown("resident_percent", "in memory before", "%", "restore_device_ratio"),
        Shown("device_percent", "device / files", "%", "restore_device_ratio"),
        Shown("verified", "every byte compared", ""),
        Shown("energy_wh", "energy", "Wh"),
    ),
}
WORDS = {
    "epoch": ("epoch", "Epoch by epoch"),
    "write": ("checkpoint", "Checkpoint by checkpoint"),
    "restore": ("restore", "Restore by restore, with the proof that it was cold"),
}


def piece_tables(comparison: Comparison, section: Section) -> list[DataTable]:
    """Tables of the pieces at the far end of the axis; none of a family that has no pieces."""
    found: list[DataTable] = []
    for facet in section.facets():
        point = last_point(comparison, section, facet)
        if point is None or not section.page.quantities:
            continue
        where = place_at(section, facet, point)
        for kind in COLUMNS:
            table = _table(comparison, point, kind, where)
            found += [table] if table is not None else []
        ranks = _rank_table(comparison, point, where)
        found += [ranks] if ranks is not None else []
    return found


def _cells(comparison: Comparison, point: WorkloadPoint) -> list[Cell]:
    cells = comparison.row(point).cells
    return [cells[target] for target in comparison.planned([point])]


def _table(comparison: Comparison, point: WorkloadPoint, kind: str, where: str) -> DataTable | None:
    cells = _cells(comparison, point)
    pieces = {cell.target: cell_pieces(cell, kind) for cell in cells}
    numbers = sorted({number for each in pieces.values() for number in each})
    if not numbers:
        return None
    every = [piece for each in pieces.values() for same in each.values() for piece in same]
    columns = [c for c in COLUMNS[kind] if any(c.name in piece.values for piece in every)]
    kept = numbers if len(numbers) <= MOST else numbers[: MOST // 2] + numbers[-(MOST // 2) :]
    left = "" if kept == numbers else f" (of {len(numbers):,} the first and last {MOST // 2})"
    word, caption = WORDS[kind]
    leaves = [
        Leaf(
            [f"{word} {number:,}"],
            cell,
            [_number(cell, pieces[cell.target].get(number, []), column) for column in columns],
        )
        for number in kept
        for cell in cells
    ]
    return table_of(
        comparison,
        f"{caption}{left}, {where}: mean of the repeats, with the 95 % interval below it",
        [word],
        [(column.head, column.unit) for column in columns],
        leaves,
    )


def _number(cell: Cell, pieces: Sequence[Piece], column: Shown) -> Number:
    own = _OWN.get(column.name)
    if own is not None:
        text = own(pieces)
        return Number(text, point_id=cell.point_id) if text else NONE
    interval = interval_of(pieces, column.name)
    if interval is None:
        return NONE
    marks = []
    if column.flagged:
        marks += [*cell_marks(_flags(cell), len(cell.runs), latency=False, name=column.flagged)]
    weak = {p.provenance for p in pieces if p.provenance in NOT_MEASURED}
    if column.name.startswith("energy") and weak:
        marks += [mark(word, f"power is {word}") for word in sorted(weak)]
    spread = "" if interval.low == interval.high else spread_text(_positive(interval))
    return Number(digits3(interval.estimate), spread, cell.point_id, tuple(marks))


def _flags(cell: Cell) -> list[CellFlag]:
    """Of the warnings of a cell those that are about single metrics, and not about the run."""
    return [flag for flag in cell.flags if meaning_of(flag.kind).about]


def _positive(interval: Interval) -> Interval:
    return interval if interval.low is None or interval.low >= 0 else replace(interval, low=0.0)


def _slowest(pieces: Sequence[Piece]) -> str:
    ranks = [int(p.values["slowest_rank"]) for p in pieces if "slowest_rank" in p.values]
    if not ranks:
        return ""
    rank, count = Counter(ranks).most_common(1)[0]
    return f"{rank}" if count == len(ranks) else f"{rank} in {count} of {len(ranks)}"


def _verified(pieces: Sequence[Piece]) -> str:
    known = [p.values["verified"] for p in pieces if "verified" in p.values]
    return ("yes" if all(known) else "no") if known else ""


_OWN: Mapping[str, Callable[[Sequence[Piece]], str]] = {
    "slowest_rank": _slowest,
    "verified": _verified,
}


def _rank_table(comparison: Comparison, point: WorkloadPoint, where: str) -> DataTable | None:
    """Each rank's mean time; the slowest of every target is marked."""
    cells = _cells(comparison, point)
    times = {
        (cell.target, kind): {worker.number: worker for worker in workers_of(cell, kind)}
        for cell in cells
        for kind in ("write", "restore")
    }
    kinds = [k for k in ("write", "restore") if any(times[cell.target, k] for cell in cells)]
    ranks = sorted({number for each in times.values() for number in each})
    if len(ranks) < 2 or not kinds:
        return None
    slowest = {
        place: max(each.values(), key=lambda worker: worker.interval.estimate).number
        for place, each in times.items()
        if each
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
            [f"rank {rank}"],
            cell,
            [_rank_number(cell, times[cell.target, k].get(rank),
                          is_slowest=slowest.get((cell.target, k)) == rank) for k in kinds],
        )
        for rank in kept
        for cell in cells
    ]  # fmt: skip
    heads = {"write": ("checkpoint", "s"), "restore": ("restore", "s")}
    return table_of(
        comparison,
        f"Time of each rank{left}, {where}: mean of the repeats, the slowest marked",
        ["rank"],
        [heads[kind] for kind in kinds],
        leaves,
    )


def _rank_number(cell: Cell, worker: Worker | None, *, is_slowest: bool) -> Number:
    if worker is None:
        return NONE
    marks = (mark("slowest", f"rank {worker.number}"),) if is_slowest else ()
    interval = _positive(worker.interval)
    return Number(
        digits3(interval.estimate),
        spread_text(interval),
        cell.point_id,
        marks,
        strong=is_slowest,
    )
