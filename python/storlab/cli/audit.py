"""Implementation of the ``storlab audit`` command."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from storlab.base.errors import ExitCode, ResultError, UsageError
from storlab.base.files import read_input, shell_word
from storlab.base.nearest import nearest, suggest
from storlab.cli import completion, terminal
from storlab.cli.common import JsonOption, emit_json

if TYPE_CHECKING:
    from storlab.audit.finding import Finding, Severity
    from storlab.audit.table import PublishedTable
    from storlab.audit.wide_table import WideColumn

_STYLES = {"error": "bold red", "warning": "yellow", "note": "dim"}


def audit(
    path: Annotated[
        str,
        typer.Argument(
            metavar="PATH",
            help="A CSV of published numbers, the name of a shipped table, or a result directory.",
            autocompletion=completion.tables,
        ),
    ],
    rules: Annotated[
        list[str] | None,
        typer.Option(
            "--rule",
            "-r",
            metavar="NAME",
            help="Apply only this rule; may be repeated.",
            autocompletion=completion.among("storlab.audit:RULES"),
        ),
    ] = None,
    severity: Annotated[
        str,
        typer.Option(
            "--severity",
            metavar="LEVEL",
            help="Lowest severity to print: error, warning or note.",
            autocompletion=completion.among("storlab.audit.finding:SEVERITIES"),
        ),
    ] = "note",
    columns: Annotated[
        list[str] | None,
        typer.Option(
            "--column",
            metavar="COLUMN=MEANING",
            help="Meaning of a column of a wide table: config, workload, rw_mix, block_size, op, "
            "x, ignore, or a metric and unit such as 'latency_p99 us'; may be repeated.",
        ),
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Check printed numbers against each other and against physics.

    Errors contradict arithmetic or physics. Warnings would mislead a reader. Notes name facts that
    a reader needs to check a number. Each finding names its rows, the printed number and the
    number that follows from the other rows, after allowance for rounding and truncation. The exit
    code is 10 if there are errors, whatever --severity shows. docs/audit.md explains every rule.

    Example: storlab audit results.csv --severity warning
    """
    from storlab.audit import RULES
    from storlab.audit.finding import SEVERITIES

    known = _known_rules(path) if rules else []
    if severity not in SEVERITIES:
        raise UsageError("--severity", f'"{severity}" is unknown', suggest(severity, SEVERITIES))
    for rule in rules or ():
        if rule not in known:
            raise UsageError("--rule", f'"{rule}" is not the name of a rule', suggest(rule, known))
    table, findings, taken = _findings(path, rules, columns or [])
    shown = [f for f in findings if SEVERITIES.index(f.severity) <= SEVERITIES.index(severity)]
    counts = {level: sum(f.severity == level for f in findings) for level in SEVERITIES}
    if as_json:
        from storlab.cli.documents import AuditDocument

        emit_json(
            AuditDocument(
                path=path, rules=rules or list(RULES), counts=counts, findings=shown, columns=taken
            )
        )
    else:
        _print_columns(taken)
        _print(path, table, shown, counts)
    if counts["error"]:
        raise typer.Exit(int(ExitCode.DISAGREE))


def _known_rules(path: str) -> list[str]:
    """Return the names of the rules for a path; for result directories also those about runs."""
    if Path(path).is_dir():
        from storlab.brief.audit_input import directory_rules

        return directory_rules()
    from storlab.audit import RULES

    return list(RULES)


def _findings(
    path: str, rules: list[str] | None, columns: list[str]
) -> tuple[PublishedTable | None, list[Finding], list[WideColumn]]:
    """Audit a table of published numbers, or the numbers that a directory's brief would print.

    Returns:
        The table, the findings, and what the columns of a wide table were taken for.
    """
    from storlab.audit import audit_table
    from storlab.audit.table import load_published, published_names
    from storlab.audit.wide_table import is_wide, read_wide_table

    shipped = published_names()
    if not Path(path).exists() and path not in shipped:
        what = "does not exist, and no shipped table has this name"
        meant = nearest(path, shipped)
        fix = f"give a result directory, a CSV file or a shipped table: {', '.join(shipped)}"
        raise ResultError(path, what, fix if meant is None else f'did you mean "{meant}"?')
    if Path(path).is_dir():
        from storlab.brief.audit_input import audit_directory

        findings = audit_directory(Path(path))
        return None, [f for f in findings if not rules or f.rule in rules], []
    if _is_study(Path(path)):
        raise UsageError(
            path,
            "is a study, which has no results to audit",
            "give a result directory, a CSV file or a shipped table; "
            f"`storlab run {shell_word(path)}` makes a result directory",
        )
    if is_wide(Path(path)):
        table, taken = read_wide_table(Path(path), columns)
        return table, audit_table(table, rules), taken
    if columns:
        what = "applies only to a wide table, with one column per metric"
        raise UsageError("--column", what, "leave it out")
    table = load_published(path)
    return table, audit_table(table, rules), []


def _is_study(path: Path) -> bool:
    try:
        tables = tomllib.loads(read_input(path).decode())
    except (OSError, ValueError):
        return False
    return not {"study", "target", "workload"}.isdisjoint(tables)


def _print_columns(columns: list[WideColumn]) -> None:
    """Print what the columns of a wide table were taken for, and which are not audited."""
    for column in columns:
        if column.meaning:
            unit = f", {column.unit}" if column.unit else ""
            terminal.out.print(f"column {column.column}: {column.meaning}{unit}", soft_wrap=True)
        if column.problem:
            fix = f"; to say what it is: {column.option}" if column.option else ""
            what = "partly not audited" if column.meaning else "not audited"
            terminal.out.print(
                f"column {column.column}: {what}: {column.problem}{fix}", soft_wrap=True
            )


def _print(
    path: str, table: PublishedTable | None, findings: list[Finding], counts: dict[Severity, int]
) -> None:
    from storlab.audit import rule_summaries

    drawn = terminal.table(padding=(0, 1, 0, 0), show_lines=True)
    drawn.add_column("severity", no_wrap=True)
    drawn.add_column("rule", no_wrap=True)
    drawn.add_column("rows", min_width=8, overflow="fold")
    drawn.add_column("printed", ratio=3, overflow="fold")
    drawn.add_column("recomputed", ratio=3, overflow="fold")
    drawn.add_column("why", ratio=3, overflow="fold")
    for f in findings:
        drawn.add_row(
            terminal.Text(f.severity, style=_STYLES[f.severity]),
            f.rule,
            " ".join(f.rows),
            terminal.Text(f.printed),
            terminal.Text(f.recomputed),
            terminal.Text(f.why),
        )
    if findings:
        terminal.out.print(drawn)
    source = f"{path}: {len(table.rows)} rows" if table is not None else path
    text = ", ".join(f"{n} {level}{'' if n == 1 else 's'}" for level, n in counts.items())
    terminal.out.print(f"{source}, {len(rule_summaries())} rules: {text}", soft_wrap=True)
