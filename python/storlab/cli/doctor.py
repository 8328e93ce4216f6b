"""Implementation of the ``storlab doctor`` command."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from storlab.base.errors import ExitCode
from storlab.cli import completion, terminal
from storlab.cli.common import JsonOption, emit_json

if TYPE_CHECKING:
    from storlab.contracts.check import Check

_STYLES = {"ok": "green", "warning": "yellow", "error": "bold red"}


def doctor(
    study: Annotated[
        Path | None,
        typer.Argument(
            metavar="[STUDY]", help="The study file (TOML).", autocompletion=completion.studies
        ),
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Check whether this machine can run a study, and what would distort its numbers.

    Without a study, only the machine is checked. Nothing is written. Exit code 4 for errors.

    Example: storlab doctor studies/demo.toml
    """
    from storlab.lab.plan.plan import make_plan
    from storlab.lab.preflight.clients import check_clients
    from storlab.lab.preflight.preflight import check_machine, check_study
    from storlab.lab.preflight.questions import question_checks
    from storlab.lab.run.session import rehearse
    from storlab.lab.site.clients import Clients
    from storlab.lab.study.file import load_study
    from storlab.lab.study.logo import logo_checks

    clients: dict[str, Any] = {}
    if study is None:
        checks = check_machine()
    else:
        loaded = load_study(study)
        plan = make_plan(loaded)
        if loaded.study.cluster is not None:
            checks, clients = check_clients(
                loaded.study, plan, Clients.of(loaded.study.cluster, Path.cwd()), Path.cwd()
            )
        else:
            checks = check_study(loaded.study, plan, Path.cwd())
        checks += [*logo_checks(loaded, Path.cwd()), *question_checks(loaded.study, plan)]
        if not _errors(checks):
            checks.append(rehearse(loaded.study, plan, Path.cwd()))
    if as_json:
        from storlab.cli.documents import DoctorDocument

        emit_json(DoctorDocument(ok=_errors(checks) == 0, checks=checks, clients=clients or None))
    else:
        if clients:
            _print_clients(clients)
        _print(checks)
    if _errors(checks):
        raise typer.Exit(int(ExitCode.PREFLIGHT))


def _errors(checks: list[Check]) -> int:
    return sum(check.status == "error" for check in checks)


def _print_clients(facts: dict[str, Any]) -> None:
    """Print tables of each client's hardware and software, file systems and object stores."""
    from storlab.base.units import format_bytes_si

    heads = ("client", "host", "storlab", "kernel", "cores", "memory", "memlock", "load", "clock")
    machines = terminal.table(*heads, pad_edge=False)
    for name, fact in facts.items():
        clock = fact.get("clock")
        locked = fact["memlock_bytes"]
        machines.add_row(
            name,
            fact["host"],
            fact["storlab"],
            fact["kernel"],
            str(fact["cores"]),
            format_bytes_si(fact["memory_bytes"]),
            "unlimited" if locked < 0 else format_bytes_si(locked),
            f"{fact['load']:.1f}",
            "" if clock is None else _clock(clock),
        )
    terminal.out.print(machines)
    places = terminal.table("client", "file system", "options", "free", "network", pad_edge=False)
    for name, fact in facts.items():
        nics = [
            f"{nic} {'missing' if nic in fact['missing_nics'] else _speed(speed)}"
            for nic, speed in fact["nics"].items()
        ]
        rows = fact["mounts"] or {"": None}
        for number, (directory, mount) in enumerate(rows.items()):
            free = fact.get("free", {}).get(directory)
            places.add_row(
                "" if number else name,
                "" if mount is None else f"{mount['kind']} {mount['source']} at {mount['point']}",
                "" if mount is None else mount["options"],
                "" if free is None else format_bytes_si(free),
                "" if number else ", ".join(nics),
            )
    terminal.out.print(places)
    if any(fact["stores"] for fact in facts.values()):
        _print_stores(facts)


def _print_stores(facts: dict[str, Any]) -> None:
    stores = terminal.table("client", "target", "endpoint", "listing", "its clock", pad_edge=False)
    for name, fact in facts.items():
        rows = [
            (t, e, listing)
            for t, endpoints in fact["stores"].items()
            for e, listing in endpoints.items()
        ]
        for number, (target, endpoint, listing) in enumerate(rows):
            listed, skew = listing["listed_ns"], listing["skew_s"]
            stores.add_row(
                "" if number else name,
                target,
                endpoint,
                listing["problem"] if listed is None else f"{listed / 1e6:.0f} ms",
                "" if skew is None else f"{skew:+.0f} s",
            )
    terminal.out.print(stores)


def _clock(clock: dict[str, int]) -> str:
    from storlab.base.units import format_latency

    return f"{clock['offset_ns'] / 1e9:+.6f} s ± {format_latency(clock['round_trip_ns'] / 2)}"


def _speed(speed: int | None) -> str:
    return "of unknown speed" if speed is None else f"{speed / 1e9:g} Gbit/s"


def _print(checks: list[Check]) -> None:
    for check in checks:
        terminal.out.print(f"{check.status:8}", style=_STYLES[check.status], end="")
        terminal.out.print(f"{check.name}: {check.what}", soft_wrap=True)
        if check.fix and check.status != "ok":
            terminal.out.print(f"        fix: {check.fix}", soft_wrap=True)
    warnings = sum(check.status == "warning" for check in checks)
    counts = {"check": len(checks), "error": _errors(checks), "warning": warnings}
    terminal.out.print(
        ", ".join(f"{n} {word}{'' if n == 1 else 's'}" for word, n in counts.items())
    )
