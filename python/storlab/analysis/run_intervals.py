"""Sampled intervals of a run's measure window, and the device counters recorded next to them."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median
from typing import Any

from storlab.analysis.dataset import RunData
from storlab.analysis.points import page_of
from storlab.base.errors import ResultError
from storlab.base.units import MB, NS_PER_S
from storlab.model.run_course import COURSE_FILE

COLUMNS = [
    *("interval", "start_ns", "end_ns", "operation"),
    *("operations", "bytes", "errors", "latency_hist", "worker_cpu_ns"),
]


@dataclass(frozen=True, slots=True)
class Interval:
    """One interval, with times in seconds from the start of the window."""

    rows: list[dict[str, Any]]  # one row per operation kind
    start_s: float
    end_s: float
    moved_mb: float
    operations: int  # number of operations that moved the data
    cores: float  # CPU cores used by the workers

    @property
    def mb_s(self) -> float:
        """Throughput of the interval in MB/s."""
        return self.moved_mb / max(self.end_s - self.start_s, 1 / NS_PER_S)

    @property
    def done(self) -> int:
        """Number of operations of all kinds in the interval."""
        return sum(row["operations"] for row in self.rows)


def intervals_of(run: RunData) -> list[Interval]:
    """Return the intervals of a run in order of time.

    Raises:
        ResultError: The samples are damaged.
    """
    page, window_ns = page_of(run.record.kind), run.record.window_start_ns
    moved = page.operations.transferred
    by_number: dict[int, list[dict[str, Any]]] = {}
    for row in run.samples().select(COLUMNS).to_pylist():
        if row["operation"] in page.operations.main:
            by_number.setdefault(row["interval"], []).append(row)
    intervals = [_interval(by_number[number], window_ns, moved) for number in sorted(by_number)]
    usual_s = median(i.end_s - i.start_s for i in intervals) if intervals else 0.0
    # The end of the window may cut the last interval short; then it is too short to be meaningful.
    return [i for i in intervals if i.end_s - i.start_s > usual_s / 2]


def _interval(rows: list[dict[str, Any]], window_ns: int, moved: Sequence[str]) -> Interval:
    own = [row for row in rows if row["operation"] in moved]
    return Interval(
        rows,
        (min(row["start_ns"] for row in rows) - window_ns) / NS_PER_S,
        (max(row["end_ns"] for row in rows) - window_ns) / NS_PER_S,
        sum(row["bytes"] for row in own) / MB,
        sum(row["operations"] for row in own),
        sum(row["worker_cpu_ns"] for row in rows) / max(1, rows[0]["end_ns"] - rows[0]["start_ns"]),
    )


def counted_beside(run: RunData) -> dict[str, Any]:
    """Return the counters that were recorded over time next to a run's samples, or an empty dict.

    Raises:
        ResultError: The file is not valid JSON.
    """
    if COURSE_FILE not in run.record.raw:
        return {}
    content = run.store.raw(run.directory_name, COURSE_FILE)
    try:
        course: dict[str, Any] = json.loads(content)
    except ValueError as error:
        where = f"{run.directory_name}/raw/{COURSE_FILE}"
        fix = "restore the file from a copy of the results"
        raise ResultError(where, f"is not JSON: {error}", fix) from error
    return course
