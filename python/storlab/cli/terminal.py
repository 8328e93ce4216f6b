"""Consoles, tables and coloured text for the output of commands, imported on first use.

Importing rich would take a tenth of the time in which a command reports a usage error.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from storlab.cli.consoles import Text, log, out, table

__all__ = ["Text", "log", "out", "table"]


def __getattr__(name: str) -> Any:
    """Import a name from ``consoles`` when it is first used.

    Raises:
        AttributeError: The name is not in ``__all__``.
    """
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from storlab.cli import consoles

    globals()[name] = member = getattr(consoles, name)
    return member
