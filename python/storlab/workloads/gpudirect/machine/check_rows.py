"""Make results of checks for ``storlab doctor``: ok, warning or error."""

from __future__ import annotations

from storlab.contracts.check import Check


def ok(name: str, what: str) -> Check:
    """Return the result of a check that found no problem."""
    return Check(name=name, status="ok", what=what)


def warning(name: str, what: str, fix: str) -> Check:
    """Return a warning: runs are possible, but would not measure what the study asks for."""
    return Check(name=name, status="warning", what=what, fix=fix)


def error(name: str, what: str, fix: str) -> Check:
    """Return an error: runs are not possible."""
    return Check(name=name, status="error", what=what, fix=fix)
