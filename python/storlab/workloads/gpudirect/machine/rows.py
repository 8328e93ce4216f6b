"""Findings of doctor by their status."""

from __future__ import annotations

from storlab.contracts.check import Check


def ok(name: str, what: str) -> Check:
    """Nothing to do."""
    return Check(name=name, status="ok", what=what)


def warning(name: str, what: str, fix: str) -> Check:
    """A run goes on, and its numbers are not what was asked for."""
    return Check(name=name, status="warning", what=what, fix=fix)


def error(name: str, what: str, fix: str) -> Check:
    """No run can be."""
    return Check(name=name, status="error", what=what, fix=fix)
