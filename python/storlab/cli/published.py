"""``storlab published``."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated

import typer
from rich import box
from rich.table import Table
from rich.text import Text

from storlab.base.errors import UsageError
from storlab.base.nearest import suggest
from storlab.cli.common import JsonOption, console, emit_json

if TYPE_CHECKING:
    from storlab.model.published import PublishedTable, Row

_ACTIONS = ("list", "show")
_CELL = ("workload", "rw_mix", "block_size", "op")


def published(
    action: Annotated[str, typer.Argument(metavar="list|show", help="What to do.")],
    name: Annotated[
        str | None,
        typer.Argument(metavar="NAME", help="A table of the list, or the path of a CSV."),
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """List published results that ship with storlab as data, or show one of them.

    One row is one number printed in a public document; published/README.md documents the columns.

    Example: storlab published list
    """
    from storlab.model.published import COLUMNS, load_published, published_names

    if action not in _ACTIONS:
        raise UsageError("published", f'there is no "{action}"', suggest(action, _ACTIONS))
    if action == "list":
        _list(as_json)
        return
    if name is None:
        names = ", ".join(published_names())
        raise UsageError("published show", "which table?", f"give a name: {names}")
    table = load_published(name)
    if as_json:
        rows = [asdict(row) for row in table.rows]
        emit_json({"name": table.name, "columns": COLUMNS, "rows": rows})
    else:
        _show(table)


def _list(as_json: bool) -> None:
    from storlab.model.published import load_published, published_dir, published_names

    tables = [load_published(name) for name in published_names()]
    if as_json:
        emit_json(
            {
                "directory": published_dir(),
                "tables": [{"name": t.name, "path": t.path, **_counts(t)} for t in tables],
            }
        )
        return
    drawn = Table(box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0))
    drawn.add_column("name", no_wrap=True)
    for head in ("rows", "measured", "claims"):
        drawn.add_column(head, justify="right")
    for table in tables:
        drawn.add_row(table.name, *map(str, _counts(table).values()))
    console.print(drawn)


def _counts(table: PublishedTable) -> dict[str, int]:
    claims = len(table.select(kind=("ratio_claim", "headline_claim")))
    measured = len(table.select(kind="measured"))
    return {"rows": len(table.rows), "measured": measured, "claims": claims}


def _show(table: PublishedTable) -> None:
    drawn = Table(title=table.name, title_justify="left", box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0))
    for head in ("id", "kind"):
        drawn.add_column(head, no_wrap=True)
    for head in ("configuration", "cell", "metric"):
        drawn.add_column(head, overflow="fold")
    drawn.add_column("printed", justify="right", overflow="fold")
    drawn.add_column("unit", no_wrap=True)
    for row in table.rows:
        drawn.add_row(row.id, row.kind, *map(Text, _texts(row)))
    console.print(drawn)


def _texts(row: Row) -> list[str]:
    to = f" / {row.compare_config}" if row.compare_config else ""
    point = f"{row.x_name}={row.x_value or '?'}" if row.x_name else ""
    cell = " ".join(text for text in (*(getattr(row, c) for c in _CELL), point) if text)
    return [f"{row.config}{to}", cell, row.metric, row.printed, row.unit]
