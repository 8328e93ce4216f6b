"""Loading of a family's code by its name ``module:function`` when it is needed.

Pages name such code instead of importing it, so that ``plan`` does not load drawing code.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any


def load(place: str) -> Any:
    """Return the object named ``module:name``; raise ImportError or AttributeError on failure."""
    module, _, name = place.partition(":")
    return getattr(import_module(module), name)
