"""Result of one check of ``storlab doctor``."""

from __future__ import annotations

from typing import Literal

from storlab.model.types import Table


class Check(Table):
    """Finding of a preflight check, with its status and a fix."""

    name: str
    status: Literal["ok", "warning", "error"]
    what: str
    fix: str = ""
