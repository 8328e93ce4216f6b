"""A verb of the command, as the command lists it without importing what it needs.

A family brings its own under ``[project.entry-points."storlab.commands"]``: the entry point names
a :class:`Verb`, in a file that imports nothing else.
"""

from __future__ import annotations

from typing import NamedTuple


class Verb(NamedTuple):
    """One verb."""

    place: str  # module and function, with a colon between
    summary: str  # first paragraph of its help, which a test compares with the function's
