"""Record of one result directory in a history: its points' values and facts."""

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
from storlab.results.files import read_result
from storlab.results.store import ResultStore

if TYPE_CHECKING:
    from storlab.contracts.page import Page

VERSION = 4
"""Record format version; records of other versions are read again."""
_HEAD = ("result.json", "study.toml", "environment.json", "plan.json", "runs")


class Value(TypedDict):
    """Value of one quantity at one point, with the values of all runs.

    It is the value in the directory's brief, except that power is at the target's main boundary
    rather than at one that all targets share.
    """

    estimate: float
    low: float | None
    high: float | None
    runs: list[float]
    boundary: NotRequired[str]  # power boundary: what the meter includes
    supply: NotRequired[str]  # AC or DC; empty if unknown or mixed


class PointRecord(TypedDict):
    """Values and facts of one point in one result directory."""

    kind: str
    workload: str
    engine: str
    params: dict[str, Any]
    target: str
    point_id: str
    started_at: str  # of its first run; empty if unknown
    runs: int
    failed: int
    flags: list[str]
    values: dict[str, Value]  # by column key


class Record(TypedDict):
    """Record that a history keeps of one result directory."""

    study: str
    plan_hash: str
    created_at: str
    imported: bool
    facts: dict[str, Any]
    points: list[PointRecord]


def fingerprint(directory: Path) -> str:
    """Return sizes and times of the files behind a record; a change means it must be read again.

    Runs are added and removed by a rename, which changes the time of ``runs``. A missing file is
    part of the fingerprint.

    Raises:
        OSError: The directory is not accessible.
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
    """Read all runs of a directory into a record.

    Raises:
        ResultError: It is not a result directory or is damaged.
    """
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
    # As stored in the index, so that new and stored entries compare equal.
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
    """Return the keys of the followed quantities: the headline and the compared ones."""
    return list(dict.fromkeys([*page.metrics.headline.keys, *ratio_keys(page)]))


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
