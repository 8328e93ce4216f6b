"""Error documents of commands in JSON, and a study to break."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

Error = Callable[..., dict[str, Any]]
"""Function that runs a command, checks the exit code ``code``, and returns the error."""
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
