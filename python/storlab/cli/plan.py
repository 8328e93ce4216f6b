"""Implementation of the ``storlab plan`` command."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from storlab.base.errors import PreflightError
from storlab.base.units import (
    exact_number,
    format_bytes_si,
    format_duration,
    format_size,
)
from storlab.cli import terminal
from storlab.cli.common import JsonOption, StudyArgument, emit_json

if TYPE_CHECKING:
    from collections.abc import Mapping

    from rich.table import Table

    from storlab.lab.study.file import LoadedStudy
    from storlab.model.point import Plan
    from storlab.model.study import Target, WorkloadSpec

FIRST_RUNS = 12


def plan(
    study: StudyArgument,
    every: Annotated[
        bool, typer.Option("--all", help="List every run, not the first few.")
    ] = False,
    as_json: JsonOption = False,
) -> None:
    """Show what a study will do, without doing it.

    Prints points, order of runs, estimated time, bytes to write, and devices that would be
    overwritten, without opening a target. The plan hash covers points, order, sizes and devices
    (identified by wwid, serial and size, not only by name). `storlab run` needs it before it
    overwrites a device. To identify devices of cluster clients, storlab contacts these clients.

    Example: storlab plan studies/demo.toml
    """
    from storlab.lab.plan.client_devices import plan_with_devices
    from storlab.lab.plan.plan import absent_devices, make_plan
    from storlab.lab.preflight.questions import question_checks
    from storlab.lab.study.file import load_study

    loaded = load_study(study)
    planned = make_plan(loaded)
    try:
        planned = plan_with_devices(loaded.study, planned, Path.cwd())
    except PreflightError as error:  # a plan can be printed even if the clients cannot be reached
        terminal.log.print(f"{error.where}: {error.what}", style="yellow", soft_wrap=True)
    absent = {} if planned.client_devices else absent_devices(loaded.study)
    warnings = question_checks(loaded.study, planned)
    if as_json:
        from storlab.cli.documents import PlanDocument

        emit_json(
            PlanDocument(
                plan_hash=planned.plan_hash,
                absent_devices=absent,
                warnings=warnings,
                plan=planned,
            )
        )
        return
    terminal.out.print(planned.study_name, style="bold", soft_wrap=True)
    terminal.out.print(_targets(loaded, planned))
    _print_matrix(loaded, planned)
    terminal.out.print(_order(loaded, planned, len(planned.runs) if every else FIRST_RUNS))
    hidden = len(planned.runs) - FIRST_RUNS
    if hidden > 0 and not every:
        terminal.out.print(f"... and {hidden:,} more (--all lists them)\n")
    _print_cost(loaded, planned)
    cluster = loaded.study.cluster
    if cluster is None or cluster.is_local:  # otherwise the cores are those of the clients
        _print_limits(loaded)
        _print_crowd(planned)
    for check in warnings:
        text = f"warning: {check.name}: {check.what}; fix: {check.fix}"
        terminal.out.print(text, style="yellow", soft_wrap=True)
    _print_risk(planned, absent)


def _table(*columns: str) -> Table:
    table = terminal.table(pad_edge=False)
    for column in columns:
        table.add_column(column, overflow="fold")
    return table


def _targets(loaded: LoadedStudy, planned: Plan) -> Table:
    data_set = "data set" if loaded.study.cluster is None else "data set per client"
    table = _table("target", "place", data_set, "runs", "estimated time")
    for target in loaded.study.target:
        runs = sum(planned.points[r.point_id].target == target.name for r in planned.runs)
        size = planned.data_bytes_by_target[target.name]
        table.add_row(
            target.name + (" (baseline)" if target.name == loaded.study.baseline else ""),
            _place(target, planned),
            _data_set(target, size),
            f"{runs:,}",
            format_duration(planned.estimated_ns_by_target[target.name]),
        )
    return table


def _data_set(target: Target, size: int) -> str:
    if size:
        return format_bytes_si(size)
    has_none = target.s3 is not None or target.directory is not None
    return "none" if has_none else "the whole device"


def _place(target: Target, planned: Plan) -> str:
    from storlab.contracts.registry import FAMILIES

    if target.s3 is not None:
        return target.s3
    places = target.locations
    text = places[0] if len(places) == 1 else f"{places[0]} and {len(places) - 1} more"
    points = [point for point in planned.points.values() if point.target == target.name]
    # whether any workload on the target respects the field `direct`, that is, can use O_DIRECT
    can_direct = any(not FAMILIES[point.kind].page.load.buffered for point in points)
    return text + (" (buffered)" if can_direct and not target.direct and not target.is_null else "")


def _print_matrix(loaded: LoadedStudy, planned: Plan) -> None:
    repeats = loaded.study.study.repeats
    for index, workload in enumerate(loaded.study.workload):
        points = [p for p in planned.points.values() if p.workload_index == index]
        targets = len({p.target for p in points})
        terminal.out.print(f"workload {workload.label}:", style="bold", soft_wrap=True)
        for name, values in _swept(workload).items():
            shown = ", ".join(_shown(workload.kind, name, value) for value in values)
            terminal.out.print(f"  {name} = {shown}", soft_wrap=True)
        if counts := sorted({p.clients for p in points if p.clients is not None}):
            terminal.out.print(f"  clients = {', '.join(map(str, counts))}", soft_wrap=True)
        terminal.out.print(
            f"  {_count(len(points) // max(1, targets), 'cell')} x {_count(targets, 'target')} x "
            f"{_count(repeats, 'repeat')} = {_count(len(points) * repeats, 'run')}",
            soft_wrap=True,
        )


def _count(number: int, noun: str) -> str:
    return f"{number:,} {noun}" + ("" if number == 1 else "s")


def _swept(workload: WorkloadSpec) -> dict[str, list[Any]]:
    fields = {name: getattr(workload, name) for name in workload.swept}
    return {name: value for name, value in fields.items() if isinstance(value, list)}


def _shown(kind: str, name: str, value: Any) -> str:
    from storlab.contracts.registry import FAMILIES

    if isinstance(value, dict):
        if all(isinstance(weight, int | float) for weight in value.values()):
            return " + ".join(f"{exact_number(weight)} x {size}" for size, weight in value.items())
        return json.dumps(value)
    parameters = FAMILIES[kind].page.parameters
    if value is None:
        return parameters.absent.get(name, "-")
    if name in parameters.sizes:
        return format_size(value)
    return exact_number(value) if isinstance(value, float) else str(value)


def _order(loaded: LoadedStudy, planned: Plan, limit: int) -> Table:
    swept = [_swept(workload) for workload in loaded.study.workload]
    names = list(dict.fromkeys(name for parameters in swept for name in parameters))
    several = ["workload"] if len(swept) > 1 else []
    spread = ["clients"] if any(p.clients is not None for p in planned.points.values()) else []
    parameters = [f"{name} per client" if _is_load(planned, name) else name for name in names]
    table = _table("run", "repeat", "target", *several, *spread, *(parameters if spread else names))
    for run in planned.runs[:limit]:
        point = planned.points[run.point_id]
        values = [_shown(point.kind, name, point.params.get(name)) for name in names]
        labels = [point.workload] if several else []
        counts = [str(point.clients)] if spread else []
        cells = [*labels, *counts, *values]
        table.add_row(f"{run.order + 1}", f"{run.repeat}", point.target, *cells)
    return table


def _is_load(planned: Plan, name: str) -> bool:
    """Return whether a parameter, such as jobs, applies to each client, not to their total."""
    from storlab.contracts.registry import FAMILIES

    return any(
        FAMILIES[point.kind].page.load.per_client == name for point in planned.points.values()
    )


def _print_cost(loaded: LoadedStudy, planned: Plan) -> None:
    from storlab.contracts.registry import FAMILIES
    from storlab.lab.plan.plan import prepare_ns_by_target

    prepare = prepare_ns_by_target(loaded, planned)
    terminal.out.print(f"estimated duration: {format_duration(planned.estimated_ns)}", style="bold")
    by_target = planned.estimated_ns_by_target
    for name, estimated_ns in by_target.items():
        extra = f", of which {format_duration(prepare[name])} prepare it" if prepare[name] else ""
        terminal.out.print(f"  {name}: {format_duration(estimated_ns)}{extra}", soft_wrap=True)
    brief_ns = planned.estimated_ns - sum(by_target.values())
    terminal.out.print(f"  brief: {format_duration(brief_ns)}")
    counted = format_bytes_si(planned.bytes_written)
    ends_by_itself = all(FAMILIES[workload.kind].fixed_work for workload in loaded.study.workload)
    rest = "" if ends_by_itself else "; see the notes for the rest"
    terminal.out.print(f"bytes written: {counted} counted beforehand{rest}")
    for note in planned.notes:
        terminal.out.print(f"  note: {note}", soft_wrap=True)


def _print_risk(planned: Plan, absent: dict[str, list[str]]) -> None:
    missing = {path for paths in absent.values() for path in paths}
    for path in sorted(missing - set(planned.destructive)):
        terminal.out.print(f"not on this machine: {path}", style="yellow", soft_wrap=True)
    if planned.destructive:
        terminal.out.print("WOULD BE OVERWRITTEN:", style="bold red")
        for client, devices in planned.client_devices.items():
            for path, facts in devices.items():
                unknown = " (not found on that client; the hash changes once it is found)"
                known = _identity(facts) or unknown
                terminal.out.print(f"  {client}: {path}{known}", soft_wrap=True)
        for path in [] if planned.client_devices else planned.destructive:
            gone = (
                " (not on this machine; the hash changes once it is found)"
                if path in missing
                else ""
            )
            known = _identity(planned.devices.get(path, {}))
            terminal.out.print(f"  {path}{gone or known}", soft_wrap=True)
    else:
        terminal.out.print("no block device is written to")
    terminal.out.print(f"plan hash: {planned.plan_hash}")


def _print_limits(loaded: LoadedStudy) -> None:
    """Print the control-group limits, such as of CPU or I/O, that may limit the results."""
    from storlab.lab.preflight.limits import standing_limits

    for check in standing_limits(loaded.study, Path.cwd()):
        style = "yellow" if check.status == "warning" else None
        terminal.out.print(f"{check.name}: {check.what}", style=style, soft_wrap=True)


def _print_crowd(planned: Plan) -> None:
    from storlab.lab.plan.plan import crowded_runs

    cores = len(os.sched_getaffinity(0))
    runs, most = crowded_runs(planned, cores)
    if runs:
        terminal.out.print(
            f"{runs:,} of {len(planned.runs):,} runs have more workers (up to {most:,}) than there "
            f"are cores here ({cores:,}), so workers will wait for each other",
            soft_wrap=True,
        )


def _identity(device: Mapping[str, str | int]) -> str:
    """Return size and identity of a device, such as its serial, as text; empty if unknown."""
    facts = dict(device)
    size = int(facts.pop("size", 0))
    parts = [f"{name} {value}" for name, value in facts.items()]
    return f" ({', '.join([format_bytes_si(size), *parts])})" if size else ""
