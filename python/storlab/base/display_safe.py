"""Untrusted text made safe to display, without characters that control a terminal or page."""

from __future__ import annotations

import re
from typing import TypeVar

ValueT = TypeVar("ValueT")

# Control characters other than tab and line feed, characters that XML cannot contain, and marks
# that reorder text (Unicode Technical Report 36): with them "<name> 10" may be shown as "01
# <eman>".
_OBEYED = re.compile(
    "[\\x00-\\x08\\x0b-\\x1f\\x7f-\\x9f\\u202a-\\u202e\\u2066-\\u2069\\ud800-\\udfff\\ufffe\\uffff]"
)


def visible(value: ValueT) -> ValueT:
    """Return a text, or the texts in containers, with U+FFFD for each such character."""
    shown: object = value
    if isinstance(value, str):
        shown = _OBEYED.sub("\N{REPLACEMENT CHARACTER}", value)
    elif isinstance(value, list | tuple):
        shown = [visible(item) for item in value]
    elif isinstance(value, dict):
        shown = {visible(key): visible(item) for key, item in value.items()}
    return shown  # type: ignore[return-value]
