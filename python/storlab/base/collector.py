"""When Python looks for garbage."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def without_collector() -> Iterator[None]:
    """While many objects are made that all stay, looking for garbage among them is lost time.

    It stays lost afterwards: what is there at the end is not looked at again. It has no circles,
    and goes when nothing refers to it any more.
    """
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        gc.freeze()
        if was_on:
            gc.enable()
