"""Errors of verbs, as their JSON has them, and a study to make mistakes in."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

Error = Callable[..., dict[str, Any]]
"""Runs a verb that must end with the exit code ``code``, and returns its error."""
STUDY = """\
[study]
name = "t"
repeats = 1
[[target]]
name = "n"
path = "null:"
[[workload]]
kind = "block"
jobs = 1
"""
