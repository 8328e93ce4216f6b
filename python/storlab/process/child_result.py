"""Report of a child program to storlab: it writes ``result.json`` in its directory.

Only the standard library is used, so that a child in another Python can import it.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any


class ChildError(Exception):
    """Error that ends a child's run; ``failure`` is stored in ``result.json``."""

    def __init__(self, failure: dict[str, Any]) -> None:
        super().__init__(failure["message"])
        self.failure = failure


def failure_of(error: OSError, operation: str | None = None) -> dict[str, Any]:
    """Describe an OSError for ``result.json``, with message, errno, operation and path.

    The text of an error from a PyTorch loader worker ends with its traceback, of which only the
    last line is used.
    """
    words = error.strerror or str(error).strip().rpartition("\n")[2]
    return {
        "message": f"{error.filename or ''}: {words}".removeprefix(": "),
        "errno": error.errno,
        "operation": operation,
        "path": None if error.filename is None else str(error.filename),
    }


def store_result(work_dir: Path, result: dict[str, Any]) -> None:
    """Write the result of a run to ``result.json`` atomically."""
    aside = work_dir / "result.json.part"
    aside.write_text(json.dumps(result))
    aside.replace(work_dir / "result.json")
