"""Result of one check of ``storlab doctor``."""

from __future__ import annotations

from typing import Literal

from storlab.model.types import Table


class Check(Table):
    """One thing that was looked at."""

    name: str
    status: Literal["ok", "warning", "error"]
    what: str
    fix: str = ""
