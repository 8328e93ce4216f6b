"""Problems of a point reported by its family, as text."""

from __future__ import annotations

from collections.abc import Sequence

from storlab.base.errors import Problem


def refusal(problems: Sequence[Problem]) -> str | None:
    """Return the single problem as ``field: what; fix``, or None."""
    assert len(problems) <= 1
    return problems[0].text if problems else None
