"""What somebody probably meant: the valid name closest to a misspelled one."""

from __future__ import annotations

import difflib
from collections.abc import Iterable


def nearest(word: str, valid: Iterable[str]) -> str | None:
    """The valid name closest to ``word`` (case does not count), or None when none is close."""
    by_lower = {name.lower(): name for name in valid}
    matches = difflib.get_close_matches(word.lower(), by_lower, n=1, cutoff=0.6)
    return by_lower[matches[0]] if matches else None


def suggest(word: str, valid: Iterable[str]) -> str:
    """Advice for a message: the closest name, or else all of them."""
    names = list(valid)
    close = nearest(word, names)
    if close is not None:
        return f'did you mean "{close}"?'
    return f"use one of {', '.join(names)}"
