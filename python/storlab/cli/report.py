"""``storlab report``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from storlab.base.errors import UsageError
from storlab.cli.common import JsonOption, console, emit_json


def report(
    directory: Annotated[Path, typer.Argument(metavar="DIR", help="A result directory.")],
    out: Annotated[
        Path | None,
        typer.Option("--out", "-o", metavar="FILE", help="HTML file; default: DIR/brief.html."),
    ] = None,
    title: Annotated[
        str | None, typer.Option("--title", help="Title; default: the study's name.")
    ] = None,
    pdf: Annotated[bool, typer.Option("--pdf/--no-pdf", help="Also make the PDF.")] = True,
    as_json: JsonOption = False,
) -> None:
    """Write the brief: one offline HTML file, its figures as SVG files, and a PDF.

    It can be made at any time, also of an interrupted campaign: what is missing says so.

    Example: storlab report results/demo-20261120t113000z --title "Disk against memory"
    """
    from storlab.brief import write_brief
    from storlab.cli.campaign import unwritten_brief
    from storlab.lab.results.store import ResultStore

    store = ResultStore.open(directory)
    if out is not None and out.is_dir():
        raise UsageError("--out", f"{out} is a directory", "name a file, such as brief.html")
    try:
        path = write_brief(store, title=title, out=out, pdf=pdf)
    except OSError as error:
        if out is None:
            raise unwritten_brief(store, error) from error
        raise UsageError(
            str(error.filename or out), f"cannot be written: {error.strerror}", "choose --out"
        ) from error
    made = path.with_suffix(".pdf")
    pdf_path = made if pdf and made.exists() else None
    if as_json:
        emit_json({"html": path, "pdf": pdf_path, "directory": store.directory})
        return
    console.print(f"wrote {path}", soft_wrap=True)
    if pdf_path is not None:
        console.print(f"wrote {pdf_path}", soft_wrap=True)
