"""Suggest the closest valid name for a misspelled one."""

from __future__ import annotations

import difflib
from collections.abc import Iterable


def nearest(word: str, valid: Iterable[str]) -> str | None:
    """Return the valid name closest to ``word``, ignoring case, or None if none is close."""
    by_lower = {name.lower(): name for name in valid}
    matches = difflib.get_close_matches(word.lower(), by_lower, n=1, cutoff=0.6)
    return by_lower[matches[0]] if matches else None


def suggest(word: str, valid: Iterable[str]) -> str:
    """Return a fix for an error message about an invalid name.

    It suggests the valid name closest to ``word``, or lists all valid names if none is close.
    """
    names = list(valid)
    close = nearest(word, names)
    if close is not None:
        return f'did you mean "{close}"?'
    return f"use one of {', '.join(names)}"
