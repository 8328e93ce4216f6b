"""Code of a family that floors above it load when they need it, by the words ``module:function``.

A page names it, and does not import it: what draws or writes stays out of the way of ``plan``.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any


def load(place: str) -> Any:
    """What ``module:name`` names. Raises what its import raises, and AttributeError."""
    module, _, name = place.partition(":")
    return getattr(import_module(module), name)
