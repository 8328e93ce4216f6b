"""Pause Python's garbage collector while many long-lived objects are created."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def without_collector() -> Iterator[None]:
    """Disable garbage collection in a ``with`` block that creates many long-lived objects.

    At the end of the block all existing objects are frozen: later collections skip them. Reference
    counting still frees them, so they must not form reference cycles.
    """
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        gc.freeze()
        if was_on:
            gc.enable()
