"""``storlab lookup``."""

from __future__ import annotations

from typing import Annotated

import typer

from storlab_lookup.family import FILE_BYTES


def lookup(
    record_size: Annotated[int, typer.Argument(metavar="BYTES", help="Of a record.")],
) -> None:
    """Say how many records a file of lookups has.

    Example: storlab lookup 512
    """
    typer.echo(f"{FILE_BYTES // record_size} records")
