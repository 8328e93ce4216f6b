"""Implementation of the ``storlab published`` command."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from storlab.base.errors import UsageError
from storlab.base.nearest import suggest
from storlab.cli import completion, terminal
from storlab.cli.common import JsonOption, emit_json

if TYPE_CHECKING:
    from storlab.model.published import PublishedTable, Row

ACTIONS = ("list", "show")
_CELL = ("workload", "rw_mix", "block_size", "op")


def published(
    action: Annotated[
        str,
        typer.Argument(
            metavar="list|show",
            help="Action: list (the default) or show.",
            autocompletion=completion.among("storlab.cli.published:ACTIONS"),
        ),
    ] = "list",
    name: Annotated[
        str | None,
        typer.Argument(
            metavar="NAME",
            help="Name of a shipped table, or path of a CSV file.",
            autocompletion=completion.among("storlab.model.published:published_names"),
        ),
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """List published results that ship with storlab as data, or show one of them.

    Each row is one number from a public document. A README.md beside the tables documents the
    columns; `--json` gives its directory.

    Example: storlab published show micron-weka-three-ssd-classes-fio
    """
    from storlab.model.published import COLUMNS, load_published, published_names

    if action not in ACTIONS:
        raise UsageError("published", f'"{action}" is not an action', suggest(action, ACTIONS))
    if action == "list":
        if name is not None:
            what = f'list takes no name, but "{name}" was given'
            raise UsageError("published list", what, f"storlab published show {name}")
        _list(as_json)
        return
    if name is None:
        names = ", ".join(published_names())
        raise UsageError("published show", "the name of a table is missing", f"add one of: {names}")
    table = load_published(name)
    if as_json:
        from storlab.cli.documents import PublishedTableDocument

        emit_json(PublishedTableDocument(name=table.name, columns=COLUMNS, rows=table.rows))
    else:
        _show(table)


def _list(as_json: bool) -> None:
    from storlab.model.published import load_published, published_dir, published_names

    tables = [load_published(name) for name in published_names()]
    if as_json:
        from storlab.cli.documents import PublishedListDocument, PublishedSummary

        summaries = [
            PublishedSummary(
                name=table.name,
                path=table.path,
                title=table.about.title,
                date=table.about.date,
                **_counts(table),
            )
            for table in tables
        ]
        emit_json(PublishedListDocument(directory=published_dir(), tables=summaries))
        return
    drawn = terminal.table(padding=(0, 1, 0, 0))
    drawn.add_column("name", no_wrap=True)
    for head in ("rows", "measured", "claims"):
        drawn.add_column(head, justify="right")
    for table in tables:
        drawn.add_row(table.name, *map(str, _counts(table).values()))
    terminal.out.print(drawn)


def _counts(table: PublishedTable) -> dict[str, int]:
    claims = len(table.select(kind=("ratio_claim", "headline_claim")))
    measured = len(table.select(kind="measured"))
    return {"rows": len(table.rows), "measured": measured, "claims": claims}


def _show(table: PublishedTable) -> None:
    title = f"{table.name}: {table.about.text}" if table.about.text else table.name
    drawn = terminal.table(title=title, title_justify="left", padding=(0, 1, 0, 0))
    for head in ("id", "kind"):
        drawn.add_column(head, no_wrap=True)
    for head in ("configuration", "cell", "metric"):
        drawn.add_column(head, overflow="fold")
    drawn.add_column("printed", justify="right", overflow="fold")
    drawn.add_column("unit", no_wrap=True)
    for row in table.rows:
        drawn.add_row(row.id, row.kind, *map(terminal.Text, _texts(row)))
    terminal.out.print(drawn)


def _texts(row: Row) -> list[str]:
    to = f" / {row.compare_config}" if row.compare_config else ""
    point = f"{row.x_name}={row.x_value or '?'}" if row.x_name else ""
    cell = " ".join(text for text in (*(getattr(row, c) for c in _CELL), point) if text)
    return [f"{row.config}{to}", cell, row.metric, row.printed, row.unit]
