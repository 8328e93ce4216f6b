"""Order for rank 0 in a frame, passed through the standard input of mpiexec."""

from __future__ import annotations

import os
import struct

from storlab.base.errors import EngineError
from storlab.cluster.link import Link

_FRAME = struct.Struct("<8sIQ")  # magic, number of ranks, length of the order in bytes
_MAGIC = b"storlab1"


def framed(order: bytes, size: int) -> bytes:
    """Return the framed order for a job of ``size`` ranks, including rank 0."""
    return _FRAME.pack(_MAGIC, size, len(order)) + order


def read_order(link: Link, fd: int = 0) -> bytes:
    """Read the order at rank 0 from standard input.

    Raises:
        EngineError: The order is incomplete, or is for another number of ranks.
    """
    with os.fdopen(os.dup(fd), "rb") as source:
        head = source.read(_FRAME.size)
        if len(head) < _FRAME.size or not head.startswith(_MAGIC):
            raise _no_order("has no order for rank 0 on its standard input")
        _, size, length = _FRAME.unpack(head)
        order = source.read(length)
    if len(order) < length:
        raise _no_order(f"handed over {len(order):,} of {length:,} bytes of the order")
    link.check_size(size)
    return order


def _no_order(what: str) -> EngineError:
    return EngineError("mpiexec", what, "ranks are started by `storlab run`, not by hand")
