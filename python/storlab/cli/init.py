"""Implementation of the ``storlab init`` command."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated

import typer

from storlab.base.errors import UsageError
from storlab.cli import terminal
from storlab.cli.common import JsonOption, emit_json


def init(
    file: Annotated[
        Path,
        typer.Argument(
            metavar="FILE", help="File to write. Missing folders are made.", show_default=True
        ),
    ] = Path("study.toml"),
    force: Annotated[bool, typer.Option("--force", help="Overwrite an existing file.")] = False,
    as_json: JsonOption = False,
) -> None:
    """Write a commented study for the devices of this machine.

    The study can be run unchanged: its targets are a file on the file system with the most free
    space, and a file in memory. Block devices are listed in comments and are not written to.

    Example: storlab init study.toml
    """
    from storlab.base.files import write_output
    from storlab.lab.study.starter import file_targets, found_devices, starter_study, summary

    devices = found_devices()
    targets = file_targets(Path.cwd())
    text = starter_study(devices, targets)
    if file.is_dir():
        raise UsageError(str(file), "is a directory", f"name a file, such as {file / 'study.toml'}")
    if not force and os.path.lexists(file):
        raise UsageError(
            str(file), "exists already", "name another file, or overwrite it with --force"
        )
    write_output(file, text.encode())
    if as_json:
        from storlab.cli.documents import InitDocument, StarterDevice, StarterTarget

        emit_json(
            InitDocument(
                file=file,
                targets=[StarterTarget.model_validate(target) for target in targets],
                devices=[StarterDevice.model_validate(device) for device in devices],
            )
        )
        return
    terminal.out.print(f"wrote {file}", soft_wrap=True)
    for target in targets:
        terminal.out.print(f"  target {target.name}: {target.path}, {target.where}", soft_wrap=True)
    for line in summary(devices):
        terminal.out.print(f"  listed as a comment: {line}", soft_wrap=True)
    terminal.out.print(f"next: storlab plan {file}", soft_wrap=True)
