"""``storlab meters``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from storlab.base.errors import UsageError
from storlab.base.nearest import suggest
from storlab.cli.common import JsonOption, console, emit_json

if TYPE_CHECKING:
    from storlab.contracts.meter import Discovered


def meters(
    kind: Annotated[
        str | None, typer.Argument(metavar="[KIND]", help="Only this kind of meter.")
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """List the power meters of this machine: rate, accuracy, privilege, and how to get more.

    Asks nothing over a network: what a controller or an outlet has is told by `storlab doctor`
    once a study names it.

    Example: storlab meters
    """
    from storlab.contracts.registry import METERS, get_meter

    if kind is not None and kind not in METERS:
        raise UsageError("KIND", f"{kind} is not a kind of meter", suggest(kind, METERS))
    kinds = list(METERS) if kind is None else [kind]
    found = [one for name in kinds for one in get_meter(name).discover()]
    if as_json:
        emit_json({"meters": found})
        return
    here = [one for one in found if one.available]
    missing = [one for one in found if not one.available]
    for title, group in (("available", here), ("not available here", missing)):
        if group:
            console.print(f"{title}:", style="bold")
            for one in group:
                _print(one)
    console.print(f"{len(here)} available, {len(missing)} not; guide: docs/power.md")


def _print(one: Discovered) -> None:
    name = one.sensor if one.sensor.startswith(one.kind) else f"{one.kind}: {one.sensor}"
    console.print(f"  {name}", style="green" if one.available else "yellow", end="")
    facts = f": rate {one.rate}; accuracy {one.accuracy}; privilege {one.privilege}"
    console.print(facts, soft_wrap=True)
    console.print(f"      {one.how}", soft_wrap=True)
