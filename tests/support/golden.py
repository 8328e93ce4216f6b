"""Golden files: expected texts that a person reads before they are committed."""

from __future__ import annotations

import os
from pathlib import Path

PLACE = Path(__file__).parents[1] / "golden"


def golden_text(name: str, text: str) -> str:
    """Return the expected text; with STORLAB_GOLDEN=write, first replace it by ``text``."""
    path = PLACE / name
    if os.environ.get("STORLAB_GOLDEN") == "write":
        path.parent.mkdir(exist_ok=True)
        path.write_text(text, "utf-8")
    return path.read_text("utf-8")
