"""Record of a problem that an audit rule finds in a published table."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from storlab.model.types import Table

Severity = Literal["error", "warning", "note"]
SEVERITIES: tuple[Severity, ...] = ("error", "warning", "note")
"""Severities of findings, most severe first.

``error``: arithmetically or physically impossible; ``warning``: misleading; ``note``: a reader
lacks a fact to check the number.
"""


class Finding(Table):
    """One problem that a rule found in a published table."""

    rule: str
    severity: Severity
    rows: list[str] = Field(description="ids of the rows that the finding is about")
    printed: str = Field(description="the published number or claim")
    recomputed: str = Field(description="what follows from the other rows, or from the definition")
    why: str = Field(description="why it matters")
