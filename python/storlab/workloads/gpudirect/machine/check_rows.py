"""Constructors of doctor's checks by status."""

from __future__ import annotations

from storlab.contracts.check import Check


def ok(name: str, what: str) -> Check:
    """Return a check that needs no action."""
    return Check(name=name, status="ok", what=what)


def warning(name: str, what: str, fix: str) -> Check:
    """Return a check for runs that work, but do not measure what was requested."""
    return Check(name=name, status="warning", what=what, fix=fix)


def error(name: str, what: str, fix: str) -> Check:
    """Return a check for a condition under which no run is possible."""
    return Check(name=name, status="error", what=what, fix=fix)
