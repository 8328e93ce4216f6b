"""Implementation of the ``storlab purge`` command."""

from __future__ import annotations

from dataclasses import asdict
from typing import Annotated

import typer

from storlab.base.units import format_bytes_si, format_duration
from storlab.cli import terminal
from storlab.cli.common import JsonOption, emit_json


def purge(
    device: Annotated[
        str, typer.Argument(metavar="DEVICE", help="NVMe namespace, by its name in /dev/disk.")
    ],
    serial: Annotated[
        str | None,
        typer.Option("--serial", help="Serial number of the namespace, as consent to erase it."),
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Erase all data of an NVMe namespace (Format NVM), as the SNIA PTS asks before each test.

    The namespace is guarded like one that a study overwrites: a namespace in use, with a file
    system, partitions or any other signature is refused, and so is one whose drive would erase
    other namespaces as well. Nothing else is consent but its typed serial number (or WWID, if
    several namespaces share it).

    Example: storlab purge /dev/disk/by-id/nvme-EXAMPLE --serial S1234
    """
    from storlab.lab.guard.purge import purge as erase

    purged = erase(device, serial)
    if as_json:
        from storlab.cli.documents import PurgeDocument

        emit_json(PurgeDocument(**asdict(purged)))
        return
    terminal.out.print(
        f"purged {purged.device}: namespace {purged.namespace} of {purged.model} (firmware "
        f"{purged.firmware}), {format_bytes_si(purged.size_bytes)}, in "
        f"{format_duration(purged.duration_ns)}",
        soft_wrap=True,
    )
