"""``storlab init``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from storlab.base.errors import UsageError
from storlab.cli import terminal
from storlab.cli.common import JsonOption, emit_json


def init(
    file: Annotated[
        Path, typer.Argument(metavar="FILE", help="Where to write the study.", show_default=True)
    ] = Path("study.toml"),
    force: Annotated[bool, typer.Option("--force", help="Overwrite an existing file.")] = False,
    as_json: JsonOption = False,
) -> None:
    """Write a commented study for the devices of this machine.

    It runs as it is: the targets are a file on the roomiest file system and one in memory. Block
    devices are listed as comments; nothing in it writes to one.

    Example: storlab init study.toml
    """
    from storlab.lab.study.starter import file_targets, found_devices, starter_study, summary

    devices = found_devices()
    targets = file_targets(Path.cwd())
    text = starter_study(devices, targets)
    try:
        with file.open("w" if force else "x", encoding="utf-8") as out:
            out.write(text)
    except FileExistsError:
        raise UsageError(
            str(file), "exists already", "name another file, or overwrite it with --force"
        ) from None
    except OSError as error:
        raise UsageError(
            str(file), f"cannot be written: {error.strerror}", "name another place"
        ) from None
    if as_json:
        emit_json("init", {"file": file, "targets": targets, "devices": devices})
        return
    terminal.out.print(f"wrote {file}", soft_wrap=True)
    for target in targets:
        terminal.out.print(f"  target {target.name}: {target.path}, {target.where}", soft_wrap=True)
    for line in summary(devices):
        terminal.out.print(f"  listed as a comment: {line}", soft_wrap=True)
    terminal.out.print(f"next: storlab plan {file}", soft_wrap=True)
