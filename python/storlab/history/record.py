"""Extract from a result directory what a history site shows: values and facts of its points."""

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

    It equals the value in the directory's brief, except for power: a history shows power at the
    boundary that the target reports, a brief at a boundary that all targets share.
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
    started_at: str  # start of its first run; empty if unknown
    runs: int
    failed: int
    flags: list[str]
    values: dict[str, Value]  # by column key


class Record(TypedDict):
    """Content of one result directory, as stored in a history site's index."""

    study: str
    plan_hash: str
    created_at: str
    imported: bool
    facts: dict[str, Any]
    points: list[PointRecord]


def fingerprint(directory: Path) -> str:
    """Return a text that changes if the result directory changes, from its files' sizes and times.

    Adding or removing a run is a rename in ``runs``, which changes that folder's time. A missing
    file also changes the text.

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
    """Read all runs of a result directory into a record.

    Raises:
        ResultError: The directory is not a result directory, or is damaged.
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
    # Convert to JSON and back, so that new records compare equal to those from the index.
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
    """Return the quantities that a history shows: a family's headline and compared metrics."""
    return list(dict.fromkeys([*page.metrics.headline, *ratio_keys(page)]))


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
