"""Where text goes: the consoles, tables and coloured text of the verbs, made when first used.

Rich is a tenth of what a usage error costs, and needs none of it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from storlab.cli.consoles import Text, log, out, table

__all__ = ["Text", "log", "out", "table"]


def __getattr__(name: str) -> Any:
    """Raises AttributeError for anything but those."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from storlab.cli import consoles

    globals()[name] = member = getattr(consoles, name)
    return member
