"""Members of a target as arguments of other programs."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from storlab.base.errors import EngineError
from storlab.model.job import Member


def absolute(member: Member) -> str:
    """Return a member's absolute path, for a program with another working directory."""
    return str(Path(member.path).absolute())


def check_lengths(members: Iterable[Member], harm: str) -> None:
    """Raise EngineError if a file is missing or shorter than its job needs.

    Args:
        members: The members to check.
        harm: What the program would do to such a file, for the message.
    """
    for member in members:
        if member.kind != "file":
            continue
        path, needed = Path(member.path), member.offset + member.size
        size = path.stat().st_size if path.exists() else None
        if size is None or size < needed:
            what = "is missing" if size is None else f"has {size} bytes"
            what = f"{what}, and the job needs {needed}"
            raise EngineError(
                member.name, what, f"run the study again, which writes the file; {harm}"
            )
