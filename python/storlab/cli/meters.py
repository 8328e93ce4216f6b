"""Implementation of the ``storlab meters`` command."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from storlab.base.errors import UsageError
from storlab.base.nearest import suggest
from storlab.cli import completion, terminal
from storlab.cli.common import JsonOption, emit_json

if TYPE_CHECKING:
    from storlab.contracts.meter import Discovered


def meters(
    kind: Annotated[
        str | None,
        typer.Argument(
            metavar="[KIND]",
            help="List only this kind of meter.",
            autocompletion=completion.among("storlab.contracts.registry:METERS"),
        ),
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """List the power meters of this machine: rate, accuracy, privilege, and how to get more.

    Meters in the network are not contacted: `storlab doctor` checks those that a study names.

    Example: storlab meters
    """
    from storlab.contracts.registry import METERS, get_meter

    if kind is not None and kind not in METERS:
        raise UsageError("KIND", f'"{kind}" is not a kind of power meter', suggest(kind, METERS))
    kinds = list(METERS) if kind is None else [kind]
    sensors = [sensor for name in kinds for sensor in get_meter(name).discover()]
    if as_json:
        from storlab.cli.documents import MetersDocument

        emit_json(MetersDocument(meters=sensors))
        return
    here = [sensor for sensor in sensors if sensor.available]
    missing = [sensor for sensor in sensors if not sensor.available]
    for title, group in (("available", here), ("not available here", missing)):
        if group:
            terminal.out.print(f"{title}:", style="bold")
            for sensor in group:
                _print(sensor)
    terminal.out.print(f"{len(here)} available, {len(missing)} not; guide: docs/power.md")


def _print(sensor: Discovered) -> None:
    name = (
        sensor.sensor
        if sensor.sensor.startswith(sensor.kind)
        else f"{sensor.kind}: {sensor.sensor}"
    )
    terminal.out.print(f"  {name}", style="green" if sensor.available else "yellow", end="")
    facts = f": rate {sensor.rate}; accuracy {sensor.accuracy}; privilege {sensor.privilege}"
    terminal.out.print(facts, soft_wrap=True)
    terminal.out.print(f"      {sensor.how}", soft_wrap=True)
