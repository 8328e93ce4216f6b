"""Implementation of the ``storlab status`` command."""

from __future__ import annotations

import json
from collections import Counter
from contextlib import suppress
from pathlib import Path
from typing import Any

import typer

from storlab.base.display_safe import visible
from storlab.base.errors import with_fixes
from storlab.base.files import parse_json, read_input
from storlab.base.locks import is_locked
from storlab.base.units import format_bytes_si, format_duration
from storlab.cli.common import JsonOption, ResultsArgument
from storlab.results.files import again, plan_object, read_result, run_id_of, run_objects


def status(
    directory: ResultsArgument,
    as_json: JsonOption = False,
) -> None:
    """Show how far a campaign is: finished, failed and missing runs, flags, time left.

    This also works while the campaign is running.

    Example: storlab status results/demo-20261120t113000z
    """
    document = _status(directory.absolute())
    if as_json:
        # StatusDocument is not used, because pydantic would double the CPU time of this command.
        header = {"schema": "status", "version": 1}
        typer.echo(json.dumps({**header, **document}, indent=2, ensure_ascii=False))
        return
    _print(visible(document))


def _status(directory: Path) -> dict[str, Any]:
    read_result(directory)
    plan = plan_object(directory)
    _leave_out_later_rounds(directory, plan)
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
        **_clients(directory, plan, by_id),
        "flags": dict(Counter(kind for run in runs for kind in run["flags"])),
        "errors": dict(sum((run["errors"] for run in runs), Counter[str]()).most_common()),
        "by_target": _by_target(plan, by_id),
        "failures": [
            {name: run[name] for name in ("run_id", "target", "failure")}
            for run in runs
            if run["status"] == "failed"
        ],
        "repeated": [
            {name: run[name] for name in ("run_id", "target", "attempts")}
            for run in [*runs, *_waiting(directory, plan, missing)]
            if run["attempts"]
        ],
    }


def _leave_out_later_rounds(directory: Path, plan: dict[str, Any]) -> None:
    """Remove the planned runs that are not needed, because their target was steady before."""
    if plan.get("rounds") is None:
        return
    from storlab.results.rounds import needed_runs, rounds_of
    from storlab.results.store import ResultStore

    store = ResultStore.open(directory)
    needed = needed_runs(store.plan, rounds_of(store.plan, store.records()))
    plan["runs"] = [run.dump() for run in needed]


def _facts(record: dict[str, Any]) -> dict[str, Any]:
    """Return those facts of a run that are printed; 10,000 whole records would take a gigabyte."""
    errors: Counter[str] = Counter()
    for totals in record["totals"].values():
        errors.update(totals.get("errors", {}))
    return {
        **{name: record.get(name) for name in ("run_id", "target", "status", "failure")},
        "flags": [flag["kind"] for flag in record.get("flags", [])],
        "errors": errors,
        "attempts": record.get("attempts", []),
    }


def _waiting(
    directory: Path, plan: dict[str, Any], missing: list[dict[str, Any]]
) -> list[dict[str, Any]]:
    """Return the failed attempts of runs that will be repeated."""
    kept = {path.stem: path for path in (directory / "attempts").glob("*.json")}
    waiting = []
    for run in missing if kept else []:
        run_id = run_id_of(run)
        with suppress(KeyError, OSError, ValueError):  # the run may be stored at this moment
            target = plan["points"][run["point_id"]]["target"]
            attempts = parse_json(read_input(kept[run_id]))
            waiting.append({"run_id": run_id, "target": target, "attempts": attempts})
    return waiting


def _left_ns(directory: Path, missing: list[dict[str, Any]]) -> int:
    """Estimate the time in nanoseconds that the missing runs will take, as the plan does.

    Modules for the estimate are imported only if runs are missing, as this takes time.
    """
    if not missing:
        return 0
    from storlab.contracts.registry import FAMILIES
    from storlab.results.store import ResultStore

    store = ResultStore.open(directory)
    total = 0
    for run in missing:
        point = store.plan.points[run["point_id"]]
        target = store.study.target_named(point.target)
        total += FAMILIES[point.kind].estimate(point, store.study.study, target).duration_ns
    return total


def _clients(directory: Path, plan: dict[str, Any], by_id: dict[str, str]) -> dict[str, Any]:
    """Count the runs of a cluster by number of clients, and add each client's current state."""
    numbers = {key: point.get("clients") for key, point in plan["points"].items()}
    if not any(numbers.values()):
        return {}
    counts: dict[int, dict[str, int]] = {}
    for run in plan["runs"]:
        row = counts.setdefault(
            numbers[run["point_id"]] or 1, {"planned": 0, "finished": 0, "failed": 0, "missing": 0}
        )
        row["planned"] += 1
        row[by_id.get(run_id_of(run), "missing")] += 1
    return {
        "by_clients": [{"clients": number, **row} for number, row in sorted(counts.items())],
        "clients_now": _clients_now(directory),
    }


_CLIENT_FIELDS = ("phase", "bytes_s", "operations_s", "silent_ns", "ended")


def _clients_now(directory: Path) -> list[dict[str, Any]]:
    """Return the state of each client, last written by rank 0; empty if no run is in progress."""
    if not is_locked(directory / "campaign.lock"):
        return []
    for path in (directory / "work").glob("**/live.json"):
        with suppress(OSError, ValueError):
            clients = parse_json(read_input(path))["clients"]
            return [
                {"name": name, **{key: facts.get(key) for key in _CLIENT_FIELDS}}
                for name, facts in clients.items()
            ]
    return []


def _by_target(plan: dict[str, Any], by_id: dict[str, str]) -> dict[str, dict[str, int]]:
    counts: dict[str, dict[str, int]] = {}
    for run in plan["runs"]:
        name = plan["points"][run["point_id"]]["target"]
        row = counts.setdefault(name, {"planned": 0, "finished": 0, "failed": 0, "missing": 0})
        row["planned"] += 1
        row[by_id.get(run_id_of(run), "missing")] += 1
    return counts


def _failed_line(row: dict[str, Any]) -> tuple[str, str]:
    """Return a line of text about a failed run, and how to fix the failure."""
    failure = row["failure"] or {"message": "failed"}
    text = f"failed: {row['run_id']} on {row['target']}: {failure['message']}"
    return text, failure.get("fix") or ""


def _print(document: dict[str, Any]) -> None:
    state = "running" if document["running"] else "not running"
    typer.secho(f"{document['study']} ({state})", bold=True)
    columns = ("target", "planned", "finished", "failed", "missing")
    rows = [
        (name, *(f"{row[key]:,}" for key in columns[1:]))
        for name, row in document["by_target"].items()
    ]
    width = max(len(row[0]) for row in (columns, *rows))
    for row in (columns, *rows):
        typer.echo(" ".join([row[0].ljust(width), *(cell.rjust(9) for cell in row[1:])]))
    for row in document.get("by_clients", []):
        parts = ", ".join(f"{row[key]:,} {key}" for key in columns[2:])
        typer.echo(f"{row['clients']} clients: {parts}")
    for client in document.get("clients_now", []):
        rate = "" if client["bytes_s"] is None else f", {format_bytes_si(client['bytes_s'])}/s"
        typer.echo(f"now: {client['name']}: {client['phase'] or 'silent'}{rate}")
    for line in with_fixes([_failed_line(row) for row in document["failures"]]):
        typer.echo(line)
    for run in document["repeated"]:
        count, last = len(run["attempts"]), run["attempts"][-1]["failure"]["message"]
        attempts = "an earlier attempt" if count == 1 else f"{count:,} earlier attempts"
        typer.echo(f"repeated: {run['run_id']} on {run['target']}: {attempts} failed: {last}")
    for kind, count in document["flags"].items():
        typer.echo(f"flag: {kind} on {count:,} runs")
    if document["errors"]:
        kinds = ", ".join(f"{count:,} {kind}" for kind, count in document["errors"].items())
        typer.echo(f"failed requests: {kinds}")
    if document["runs"]["missing"]:
        typer.echo(f"time left: {format_duration(document['left_ns'])}, estimated")
        if not document["running"]:
            typer.echo(f"to get the missing runs, {again(Path(document['directory']))}")
