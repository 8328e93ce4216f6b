"""Description of a command-line verb, by which help can list it without importing its code.

A workload family adds verbs under ``[project.entry-points."storlab.commands"]``. The entry point
names a :class:`Verb`, in a file that imports nothing else.
"""

from __future__ import annotations

from typing import NamedTuple


class Verb(NamedTuple):
    """Command-line verb: the name of the function that implements it, and its help."""

    place: str  # module and function, separated by a colon
    summary: str  # first paragraph of its help; a test compares it with the function's
    document: str = ""  # module and class of what it prints with --json
