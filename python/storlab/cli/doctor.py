"""``storlab doctor``."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from storlab.base.errors import ExitCode
from storlab.cli.common import JsonOption, console, emit_json

if TYPE_CHECKING:
    from storlab.lab.preflight.checks import Check

_STYLES = {"ok": "green", "warning": "yellow", "error": "bold red"}


def doctor(
    study: Annotated[
        Path | None, typer.Argument(metavar="[STUDY]", help="The study file (TOML).")
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Check whether this machine can run a study, and what would bend its numbers.

    Without a study, checks the machine. Writes nothing. Exit code 4 for errors.

    Example: storlab doctor studies/demo.toml
    """
    from storlab.lab.plan.plan import make_plan
    from storlab.lab.preflight.preflight import check_machine, check_study
    from storlab.lab.run.session import rehearse
    from storlab.lab.study.file import load_study

    if study is None:
        checks = check_machine()
    else:
        loaded = load_study(study)
        plan = make_plan(loaded)
        checks = check_study(loaded.study, plan, Path.cwd())
        if not _errors(checks):
            checks.append(rehearse(loaded.study, plan, Path.cwd()))
    if as_json:
        emit_json({"ok": _errors(checks) == 0, "checks": checks})
    else:
        _print(checks)
    if _errors(checks):
        raise typer.Exit(int(ExitCode.PREFLIGHT))


def _errors(checks: list[Check]) -> int:
    return sum(check.status == "error" for check in checks)


def _print(checks: list[Check]) -> None:
    for check in checks:
        console.print(f"{check.status:8}", style=_STYLES[check.status], end="")
        console.print(f"{check.name}: {check.what}", soft_wrap=True)
        if check.fix and check.status != "ok":
            console.print(f"        fix: {check.fix}", soft_wrap=True)
    warnings = sum(check.status == "warning" for check in checks)
    counts = {"check": len(checks), "error": _errors(checks), "warning": warnings}
    console.print(", ".join(f"{n} {word}{'' if n == 1 else 's'}" for word, n in counts.items()))
