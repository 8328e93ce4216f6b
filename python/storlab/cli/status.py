"""``storlab status``."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Annotated, Any

import typer

from storlab.base.files import is_locked
from storlab.base.units import format_duration
from storlab.cli.common import JsonOption, console, emit_json
from storlab.lab.results.files import plan_object, read_result, run_id_of, run_objects


def status(
    directory: Annotated[Path, typer.Argument(metavar="DIR", help="The result directory.")],
    as_json: JsonOption = False,
) -> None:
    """Show how far a campaign is: finished, failed and missing runs, flags, time left.

    Works while the campaign is running, too.

    Example: storlab status results/demo-20261120t113000z
    """
    found = _status(directory.absolute())
    if as_json:
        emit_json(found)
        return
    _print(found)


def _status(directory: Path) -> dict[str, Any]:
    read_result(directory)
    plan = plan_object(directory)
    runs = [_facts(run) for run in run_objects(directory, plan)]
    by_id = {run["run_id"]: run["status"] for run in runs}
    missing = [run for run in plan["runs"] if run_id_of(run) not in by_id]
    return {
        "directory": str(directory),
        "study": plan["study_name"],
        "plan_hash": plan["plan_hash"],
        "running": is_locked(directory / "campaign.lock"),
        "runs": {
            "planned": len(plan["runs"]),
            "finished": sum(state == "finished" for state in by_id.values()),
            "failed": sum(state == "failed" for state in by_id.values()),
            "missing": len(missing),
        },
        "left_ns": _left_ns(directory, missing),
        "flags": dict(Counter(kind for run in runs for kind in run["flags"])),
        "errors": dict(sum((run["errors"] for run in runs), Counter[str]()).most_common()),
        "by_target": _by_target(plan, by_id),
        "failures": [
            {name: run[name] for name in ("run_id", "target", "failure")}
            for run in runs
            if run["status"] == "failed"
        ],
    }


def _facts(record: dict[str, Any]) -> dict[str, Any]:
    """What is told of a run; the whole record of each would take a gigabyte of 10,000 runs."""
    errors: Counter[str] = Counter()
    for totals in record["totals"].values():
        errors.update(totals.get("errors", {}))
    return {
        **{name: record.get(name) for name in ("run_id", "target", "status", "failure")},
        "flags": [flag["kind"] for flag in record.get("flags", [])],
        "errors": errors,
    }


def _left_ns(directory: Path, missing: list[dict[str, Any]]) -> int:
    """Estimated as the plan does; what that needs is imported where runs are missing only."""
    if not missing:
        return 0
    from storlab.contracts.registry import FAMILIES
    from storlab.lab.results.store import ResultStore

    store = ResultStore.open(directory)
    total = 0
    for run in missing:
        point = store.plan.points[run["point_id"]]
        target = store.study.target_named(point.target)
        total += FAMILIES[point.kind].estimate(point, store.study.study, target).duration_ns
    return total


def _by_target(plan: dict[str, Any], by_id: dict[str, str]) -> dict[str, dict[str, int]]:
    counts: dict[str, dict[str, int]] = {}
    for run in plan["runs"]:
        name = plan["points"][run["point_id"]]["target"]
        row = counts.setdefault(name, {"planned": 0, "finished": 0, "failed": 0, "missing": 0})
        row["planned"] += 1
        row[by_id.get(run_id_of(run), "missing")] += 1
    return counts


def _print(found: dict[str, Any]) -> None:
    state = "running" if found["running"] else "not running"
    console.print(f"{found['study']} ({state})", style="bold", soft_wrap=True)
    columns = ("target", "planned", "finished", "failed", "missing")
    rows = [
        (name, *(f"{row[key]:,}" for key in columns[1:]))
        for name, row in found["by_target"].items()
    ]
    width = max(len(row[0]) for row in (columns, *rows))
    for row in (columns, *rows):
        console.print(row[0].ljust(width), *(cell.rjust(9) for cell in row[1:]), soft_wrap=True)
    for failure in found["failures"]:
        message = failure["failure"]["message"] if failure["failure"] else "failed"
        console.print(
            f"failed: {failure['run_id']} on {failure['target']}: {message}", soft_wrap=True
        )
    for kind, count in found["flags"].items():
        console.print(f"flag: {kind} on {count:,} runs")
    if found["errors"]:
        kinds = ", ".join(f"{count:,} {kind}" for kind, count in found["errors"].items())
        console.print(f"failed requests: {kinds}", soft_wrap=True)
    if found["runs"]["missing"]:
        console.print(f"time left: {format_duration(found['left_ns'])}, estimated")
        if not found["running"]:
            console.print(f"go on with: storlab resume {found['directory']}", soft_wrap=True)
