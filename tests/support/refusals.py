"""What a family has against a point, as one text."""

from __future__ import annotations

from collections.abc import Sequence

from storlab.base.errors import Problem


def refusal(problems: Sequence[Problem]) -> str | None:
    """``field: what; fix`` of the one problem, or None."""
    assert len(problems) <= 1
    return problems[0].text if problems else None
