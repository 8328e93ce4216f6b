"""What a history keeps of one result directory: its points in numbers, and its facts."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, NotRequired

from typing_extensions import TypedDict

from storlab.analysis.columns import ratio_keys
from storlab.analysis.compare import Cell, Comparison, Row, compare
from storlab.analysis.dataset import load_dataset
from storlab.analysis.environments import facts
from storlab.lab.results.files import read_result
from storlab.lab.results.store import ResultStore

if TYPE_CHECKING:
    from storlab.contracts.page import Page

VERSION = 4
"""Of a record. What another version wrote is read anew."""
_HEAD = ("result.json", "study.toml", "environment.json", "plan.json", "runs")


class Value(TypedDict):
    """One quantity at one point, with every run's own.

    As the brief of the directory has it, but for power: that is at the boundary that stands for the
    target, and not at one that all targets have.
    """

    estimate: float
    low: float | None
    high: float | None
    runs: list[float]
    boundary: NotRequired[str]  # of power: what its meter includes
    supply: NotRequired[str]  # beside it: AC, DC, or empty where unknown or mixed


class PointRecord(TypedDict):
    """One point of one directory."""

    kind: str
    workload: str
    engine: str
    params: dict[str, Any]
    target: str
    point_id: str
    started_at: str  # of its first run; empty where that is not known
    runs: int
    failed: int
    flags: list[str]
    values: dict[str, Value]  # by the key of a column


class Record(TypedDict):
    """One directory."""

    study: str
    plan_hash: str
    created_at: str
    imported: bool
    facts: dict[str, Any]
    points: list[PointRecord]


def fingerprint(directory: Path) -> str:
    """Sizes and times of what a record is made of; another one says to read the directory again.

    A run comes and goes by a rename, which changes the time of ``runs``. Raises OSError where the
    directory cannot be looked at; a file that is missing is part of the fingerprint.
    """
    own = os.fspath(directory)
    os.stat(own)  # noqa: PTH116 - there are thousands, and a Path for each takes longer than to look
    parts = [str(VERSION)]
    for name in _HEAD:
        try:
            stat = os.stat(f"{own}/{name}")  # noqa: PTH116
        except FileNotFoundError:
            parts.append("-")
        else:
            parts.append(f"{stat.st_mtime_ns}.{stat.st_size}")
    return " ".join(parts)


def read_record(directory: Path) -> Record:
    """Read all runs of a directory. Raises ResultError for one that is none, or is damaged."""
    store = ResultStore.open(directory)
    comparison = compare(load_dataset([store]), alone=True)
    record: Record = {
        "study": store.study.study.name,
        "plan_hash": store.plan.plan_hash,
        "created_at": str(read_result(directory).get("created_at", "")),
        "imported": "imported" in store.environment,
        "facts": facts(store),
        "points": list(_points(comparison)),
    }
    # As the index will have it: an entry that was just read equals one that was kept.
    plain: Record = json.loads(json.dumps(record, default=str))
    return plain


def _points(comparison: Comparison) -> Iterator[PointRecord]:
    for section in comparison.sections:
        keys = kept_keys(section.page)
        for point in section.points:
            row = comparison.row(point)
            for cell in row.cells.values():
                if cell.measured or cell.failed:
                    yield _point(comparison, row, cell, keys)


def kept_keys(page: Page) -> list[str]:
    """The quantities that a history follows: the headline, and what targets are compared in."""
    return list(dict.fromkeys([*page.headline.keys, *ratio_keys(page)]))


def _point(comparison: Comparison, row: Row, cell: Cell, keys: list[str]) -> PointRecord:
    started = [run.record.started_at for run in (*cell.runs, *cell.failed)]
    values: dict[str, Value] = {}
    for column in comparison.columns:
        interval = cell.values.get(column.key) if column.key in keys else None
        if interval is not None:
            values[column.key] = {
                "estimate": interval.estimate,
                "low": interval.low,
                "high": interval.high,
                "runs": cell.repeats(column),
            }
            if column.is_power and cell.power is not None:
                values[column.key]["boundary"] = cell.power.boundary
                values[column.key]["supply"] = cell.power.supply
    return {
        "kind": row.point.kind,
        "workload": row.point.workload,
        "engine": row.point.engine,
        "params": dict(row.point.params),
        "target": cell.target,
        "point_id": cell.point_id or "",
        "started_at": min(filter(None, started), default=""),
        "runs": len(cell.runs),
        "failed": len(cell.failed),
        "flags": [flag.kind for flag in cell.flags],
        "values": values,
    }
