"""What a rule of the audit reports."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from storlab.model.types import Table

Severity = Literal["error", "warning", "note"]
SEVERITIES: tuple[Severity, ...] = ("error", "warning", "note")
"""error: arithmetic or physics that cannot be; warning: misleads as it stands; note: what a reader
lacks to check it."""


class Finding(Table):
    """One thing that a rule found, in words that hold before the publication's author."""

    rule: str
    severity: Severity
    rows: list[str] = Field(description="ids of the rows that it is about")
    printed: str = Field(description="what was printed")
    recomputed: str = Field(description="what follows from the other rows, or from the definition")
    why: str = Field(description="why it matters")
