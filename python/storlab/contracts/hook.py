"""Import of a workload family's function by its name ``module:function`` when it is needed.

Families name drawing code instead of importing it, so that ``storlab plan`` does not load it.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any


def load(place: str) -> Any:
    """Import the object named ``module:name``; raise ImportError or AttributeError on failure."""
    module, _, name = place.partition(":")
    return getattr(import_module(module), name)
