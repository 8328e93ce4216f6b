"""What `storlab clean` has done."""

from __future__ import annotations

from dataclasses import dataclass, field

from storlab.base.errors import StorlabError


@dataclass(slots=True)
class Cleaned:
    """What went, and what could not."""

    removed: list[str] = field(default_factory=list)
    problems: list[StorlabError] = field(default_factory=list)
