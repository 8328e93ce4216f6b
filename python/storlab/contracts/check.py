"""Result of one check of ``storlab doctor``."""

from __future__ import annotations

from typing import Literal

from storlab.model.types import Table


class Check(Table):
    """Result of one preflight check: its status, what was found, and how to fix it."""

    name: str
    status: Literal["ok", "warning", "error"]
    what: str
    fix: str = ""
