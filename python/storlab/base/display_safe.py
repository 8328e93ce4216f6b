"""Make untrusted text safe to display, by replacing characters that control terminals or pages."""

from __future__ import annotations

import re
from typing import TypeVar

ValueT = TypeVar("ValueT")

# Control characters other than tab and line feed, characters that XML cannot contain, and
# characters that change the direction of text, by which "<name> 10" may look like "01 <eman>"
# (Unicode Technical Report 36).
_OBEYED = re.compile(
    "[\\x00-\\x08\\x0b-\\x1f\\x7f-\\x9f\\u202a-\\u202e\\u2066-\\u2069\\ud800-\\udfff\\ufffe\\uffff]"
)


def visible(value: ValueT) -> ValueT:
    """Replace control characters by U+FFFD in a text, or in all texts of nested lists and dicts."""
    shown: object = value
    if isinstance(value, str):
        shown = _OBEYED.sub("\N{REPLACEMENT CHARACTER}", value)
    elif isinstance(value, list | tuple):
        shown = [visible(item) for item in value]
    elif isinstance(value, dict):
        shown = {visible(key): visible(item) for key, item in value.items()}
    return shown  # type: ignore[return-value]
