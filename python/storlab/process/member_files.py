"""Paths of a target's files and devices for other programs, and a check of their lengths."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from storlab.base.errors import EngineError
from storlab.model.job import Member


def absolute(member: Member) -> str:
    """Return the absolute path of a target's file or device.

    Programs with another working directory need it.
    """
    return str(Path(member.path).absolute())


def check_lengths(members: Iterable[Member], harm: str) -> None:
    """Check that each file of the target exists and is as long as its job needs.

    Raises EngineError, which names the file, if not.

    Args:
        members: The files and devices to check.
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
