"""What `storlab clean` has done."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from storlab.base.errors import StorlabError


@dataclass(slots=True)
class Cleaned:
    """What went, and what could not."""

    removed: list[str] = field(default_factory=list)
    problems: list[StorlabError] = field(default_factory=list)

    def attempt(self, clean: Callable[[], list[str]]) -> None:
        """Clean a part, which returns what went. One that fails keeps no other from being cleaned.

        Raises what is no StorlabError: Interrupted on a stop request.
        """
        try:
            self.removed += clean()
        except StorlabError as error:
            self.problems.append(error)
