"""``storlab status``."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Annotated, Any

import typer
from rich import box
from rich.table import Table

from storlab.base.units import format_duration
from storlab.cli.common import JsonOption, console, emit_json
from storlab.lab.store import ResultStore
from storlab.model.result import RunRecord
from storlab.workloads import WORKLOADS


def status(
    directory: Annotated[Path, typer.Argument(metavar="DIR", help="The result directory.")],
    as_json: JsonOption = False,
) -> None:
    """Show how far a campaign is: finished, failed and missing runs, flags, time left.

    Works while the campaign is running, too.

    Example: storlab status results/demo-20261120t113000z
    """
    store = ResultStore.open(directory)
    said = _status(store)
    if as_json:
        emit_json(said)
        return
    _print(said)


def _status(store: ResultStore) -> dict[str, Any]:
    records = store.records()
    missing = store.missing_of(records)
    return {
        "directory": str(store.directory),
        "study": store.plan.study_name,
        "plan_hash": store.plan.plan_hash,
        "running": store.is_running(),
        "runs": {
            "planned": len(store.plan.runs),
            "finished": sum(record.status == "finished" for record in records),
            "failed": sum(record.status == "failed" for record in records),
            "missing": len(missing),
        },
        "left_ns": _left_ns(store, [run.point_id for run in missing]),
        "flags": dict(Counter(flag.kind for record in records for flag in record.flags)),
        "errors": _errors(records),
        "by_target": _by_target(store, records),
        "failures": [
            {"run_id": record.run_id, "target": record.target, "failure": record.failure}
            for record in records
            if record.status == "failed"
        ],
    }


def _errors(records: list[RunRecord]) -> dict[str, int]:
    """Failed requests of all runs, by kind."""
    found: Counter[str] = Counter()
    for record in records:
        for totals in record.totals.values():
            found.update(totals.errors)
    return dict(found.most_common())


def _left_ns(store: ResultStore, point_ids: list[str]) -> int:
    total = 0
    for point_id in point_ids:
        point = store.plan.points[point_id]
        target = store.study.target_named(point.target)
        total += WORKLOADS[point.kind].estimate(point, store.study.study, target).duration_ns
    return total


def _by_target(store: ResultStore, records: list[RunRecord]) -> dict[str, dict[str, int]]:
    done = {record.run_id: record.status for record in records}
    counts: dict[str, dict[str, int]] = {}
    for run in store.plan.runs:
        name = store.plan.points[run.point_id].target
        row = counts.setdefault(name, {"planned": 0, "finished": 0, "failed": 0, "missing": 0})
        row["planned"] += 1
        row[done.get(run.run_id, "missing")] += 1
    return counts


def _print(said: dict[str, Any]) -> None:
    state = "running" if said["running"] else "not running"
    console.print(f"{said['study']} ({state})", style="bold", soft_wrap=True)
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    for column in ("target", "planned", "finished", "failed", "missing"):
        table.add_column(column, overflow="fold")
    for name, row in said["by_target"].items():
        table.add_row(name, *(f"{row[key]:,}" for key in row))
    console.print(table)
    for failure in said["failures"]:
        message = failure["failure"].message if failure["failure"] else "failed"
        console.print(
            f"failed: {failure['run_id']} on {failure['target']}: {message}", soft_wrap=True
        )
    for kind, count in said["flags"].items():
        console.print(f"flag: {kind} on {count:,} runs")
    if said["errors"]:
        kinds = ", ".join(f"{count:,} {kind}" for kind, count in said["errors"].items())
        console.print(f"failed requests: {kinds}", soft_wrap=True)
    if said["runs"]["missing"]:
        console.print(f"time left: {format_duration(said['left_ns'])}, estimated")
        if not said["running"]:
            console.print(f"go on with: storlab resume {said['directory']}", soft_wrap=True)
