"""Members of a target as programs of others are given them."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from storlab.base.errors import EngineError
from storlab.model.job import Member


def absolute(member: Member) -> str:
    """Its path for a program that runs in a directory of its own."""
    return str(Path(member.path).absolute())


def check_lengths(members: Iterable[Member], harm: str) -> None:
    """Raises EngineError for a file that is missing or shorter than its job needs; ``harm`` says
    what the program would do to it.
    """
    for member in members:
        if member.kind != "file":
            continue
        path, needed = Path(member.path), member.offset + member.size
        size = path.stat().st_size if path.exists() else None
        if size is None or size < needed:
            what = "is missing" if size is None else f"has {size} bytes"
            what = f"{what}, and the job needs {needed}"
            raise EngineError(member.name, what, f"lay out the data file first; {harm}")
