"""Summary of ``storlab clean``."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from storlab.base.errors import StorlabError


@dataclass(slots=True)
class Cleaned:
    """Names of what was removed, and errors of what could not be removed."""

    removed: list[str] = field(default_factory=list)
    problems: list[StorlabError] = field(default_factory=list)

    def attempt(self, clean: Callable[[], list[str]]) -> None:
        """Run a clean-up function and add its result; a StorlabError is kept as a problem.

        Other errors, such as Interrupted on a stop request, are raised.
        """
        try:
            self.removed += clean()
        except StorlabError as error:
            self.problems.append(error)
